"""Endpoints for the agents of a project."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, status

from artel.agent_memory import changes
from artel.agents import transactions as agents
from artel.api.dependencies import AgentId, CurrentUser, Limit, Offset, ProjectId, Services
from artel.api.problems import documented
from artel.auth.principal import Principal
from artel.container import Container
from artel.contract.http import Agent, AgentChanges, NewAgent, Page
from artel.errors import SpaceUnavailable
from artel.logs import get_logger

Archive = Annotated[bool, Query(description="Keep the agent's memory in an archive of the project.")]

log = get_logger(__name__)

router = APIRouter(prefix="/my/projects/{project_id}/agents", tags=["agents"])


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 404, 409, 413, 422, 503))
async def create_agent(project_id: ProjectId, body: NewAgent, user: CurrentUser, services: Services) -> Agent:
    """Add an agent to the project."""
    services.brain.require_allowed(body.model)
    agent = await services.database.run(agents.create_agent, user, project_id, body, services.project_rules.max_agents)
    await _notify_space(services, user, project_id, "register", agent.id)
    return agent


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
    if "model" in body.model_fields_set:
        services.brain.require_allowed(body.model)
    agent = await services.database.run(changes.update_agent, user, project_id, agent_id, body)
    services.memories.wake()
    services.signals.agents_changed(project_id, agent_id)
    await _notify_space(services, user, project_id, "invalidate", agent_id)
    return agent


@router.delete("/{agent_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 404, 422, 503))
async def delete_agent(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services, archive: Archive = False
) -> None:
    """Delete an agent and its descendants with their task workspaces and memory; `archive` keeps the memory."""
    family = await services.database.read(agents.family_of, user, project_id, agent_id)
    await asyncio.gather(*(_notify_space(services, user, project_id, "deregister", member) for member in family))
    deleted = await services.database.run(changes.delete_agent, user, project_id, agent_id, archive=archive)
    services.memories.wake()
    for member in deleted:
        services.signals.agents_changed(project_id, member)
    await asyncio.gather(*(_notify_space(services, user, project_id, "remove", member) for member in deleted))
    await asyncio.to_thread(services.workspaces.remove, deleted)


async def _notify_space(services: Container, user: Principal, project_id: int, operation: str, agent_id: int) -> None:
    """Notify the worker space of a change; if no process runs it, it will read the change from the database."""
    try:
        await services.space_rpc.ask(user, project_id, operation, agent_id)
    except SpaceUnavailable as failure:
        log.warning("space_not_told", operation=operation, reason=failure.detail)
