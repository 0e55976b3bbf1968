"""Endpoints for the agents of a project."""

from typing import Annotated

from fastapi import APIRouter, Query, status

from artel.agents import transactions as agents
from artel.api.dependencies import AgentId, CurrentUser, Limit, Offset, ProjectId, Services
from artel.api.problems import documented
from artel.contract.http import Agent, AgentChanges, NewAgent, Page

Archive = Annotated[bool, Query(description="Keep the agent's memory in an archive of the project.")]

router = APIRouter(prefix="/my/projects/{project_id}/agents", tags=["agents"])


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 404, 409, 413, 422, 503))
async def create_agent(project_id: ProjectId, body: NewAgent, user: CurrentUser, services: Services) -> Agent:
    """Add an agent to the project."""
    return await services.agents.create(user, project_id, body)


@router.get("", responses=documented(401, 404, 422, 503))
async def list_agents(
    project_id: ProjectId, user: CurrentUser, services: Services, limit: Limit = 50, offset: Offset = 0
) -> Page[Agent]:
    """List the agents of the project, oldest first."""
    return await services.database.read(agents.list_agents, user, project_id, limit, offset)


@router.get("/{agent_id}", responses=documented(401, 404, 422, 503))
async def get_agent(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services) -> Agent:
    """Show an agent."""
    return await services.database.read(agents.get_agent, user, project_id, agent_id)


@router.patch("/{agent_id}", responses=documented(400, 401, 404, 409, 413, 422, 503))
async def update_agent(
    project_id: ProjectId, agent_id: AgentId, body: AgentChanges, user: CurrentUser, services: Services
) -> Agent:
    """Change an agent."""
    return await services.agents.update(user, project_id, agent_id, body)


@router.delete("/{agent_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 404, 422, 503))
async def delete_agent(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services, archive: Archive = False
) -> None:
    """Delete an agent and its descendants with their task workspaces and memory; `archive` keeps the memory."""
    await services.agents.delete(user, project_id, agent_id, archive=archive)
