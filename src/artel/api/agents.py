"""Agents of a project."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, status

from artel.agent_memory import changes
from artel.agents import service as agents
from artel.api.dependencies import AgentId, CurrentUser, Limit, Offset, Parts, ProjectId
from artel.api.problems import documented
from artel.auth.principal import Principal
from artel.container import Container
from artel.contract.http import Agent, AgentChanges, NewAgent, Page
from artel.errors import SpaceUnavailable
from artel.logs import get_logger

Archive = Annotated[bool, Query(description="Keep what the agent remembers in an archive of the project.")]

log = get_logger(__name__)

router = APIRouter(prefix="/my/projects/{project_id}/agents", tags=["agents"])


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 404, 409, 413, 422, 503))
async def create_agent(project_id: ProjectId, body: NewAgent, user: CurrentUser, parts: Parts) -> Agent:
    """Add an agent to the project."""
    parts.brain.require_allowed(body.model)
    agent = await parts.database.run(agents.create_agent, user, project_id, body, parts.project_rules.max_agents)
    await _tell_space(parts, user, project_id, "register", agent.id)
    return agent


@router.get("", responses=documented(401, 404, 422, 503))
async def list_agents(
    project_id: ProjectId, user: CurrentUser, parts: Parts, limit: Limit = 50, offset: Offset = 0
) -> Page[Agent]:
    """List the agents of the project, oldest first."""
    return await parts.database.read(agents.list_agents, user, project_id, limit, offset)


@router.get("/{agent_id}", responses=documented(401, 404, 422, 503))
async def get_agent(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, parts: Parts) -> Agent:
    """Show an agent."""
    return await parts.database.read(agents.get_agent, user, project_id, agent_id)


@router.patch("/{agent_id}", responses=documented(400, 401, 404, 409, 413, 422, 503))
async def update_agent(
    project_id: ProjectId, agent_id: AgentId, body: AgentChanges, user: CurrentUser, parts: Parts
) -> Agent:
    """Change an agent."""
    if "model" in body.model_fields_set:
        parts.brain.require_allowed(body.model)
    agent = await parts.database.run(changes.update_agent, user, project_id, agent_id, body)
    parts.memories.wake()
    parts.signals.agents_changed(project_id, agent_id)
    await _tell_space(parts, user, project_id, "invalidate", agent_id)
    return agent


@router.delete("/{agent_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 404, 422, 503))
async def delete_agent(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, parts: Parts, archive: Archive = False
) -> None:
    """Delete an agent, those that it created, their task workspace and what they remember, or archive the last."""
    family = await parts.database.read(agents.family_of, user, project_id, agent_id)
    await asyncio.gather(*(_tell_space(parts, user, project_id, "deregister", member) for member in family))
    gone = await parts.database.run(changes.delete_agent, user, project_id, agent_id, archive=archive)
    parts.memories.wake()
    for member in gone:
        parts.signals.agents_changed(project_id, member)
    await asyncio.gather(*(_tell_space(parts, user, project_id, "remove", member) for member in gone))
    await asyncio.to_thread(parts.workspaces.remove, gone)


async def _tell_space(parts: Container, user: Principal, project_id: int, operation: str, agent_id: int) -> None:
    """Let the worker space follow a change at once; if nobody runs it, it will find the change in the database."""
    try:
        await parts.desk.ask(user, project_id, operation, agent_id)
    except SpaceUnavailable as failure:
        log.warning("space_not_told", operation=operation, reason=failure.detail)
