"""Endpoints for worker spaces: statistics, health, life cycle, alerts, events and agent operations."""

from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Query, Response, status
from pydantic import BaseModel

from artel.alerts import transactions as alerts
from artel.api.dependencies import AgentId, CurrentUser, Paging, ProjectId, Services
from artel.api.event_stream import HEARTBEAT_SECONDS, STREAMED, After, EventStream
from artel.api.problems import documented
from artel.auth.principal import Principal
from artel.contract.activity import Activity, ActivityRange
from artel.contract.http import Page
from artel.contract.spaces import AgentFiguresAnswer, AgentStatusAnswer, Alert, SpaceHealth, SpaceState
from artel.events.project_log import last_project_event
from artel.spaces.space_rpc import SpaceRpc

M = TypeVar("M", bound=BaseModel)

router = APIRouter(prefix="/my/projects/{project_id}", tags=["worker space"], responses=documented(401, 404, 422, 503))


@dataclass(frozen=True, slots=True)
class _AgentOperations:
    """Calls operations of the worker space on one agent."""

    space_rpc: SpaceRpc
    user: Principal
    project_id: int
    agent_id: int

    async def ask(self, operation: str, result_type: type[M]) -> M:
        return await self.space_rpc.ask(self.user, self.project_id, operation, result_type, self.agent_id)


async def _agent_operations(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services
) -> _AgentOperations:
    return _AgentOperations(services.space_rpc, user, project_id, agent_id)


AgentOperations = Annotated[_AgentOperations, Depends(_agent_operations)]


@router.get("/space")
async def show_space(project_id: ProjectId, user: CurrentUser, services: Services) -> SpaceState:
    """Show statistics of the project's worker space."""
    return await services.space_rpc.ask(user, project_id, "state", SpaceState)


@router.get("/space/health")
async def show_health(project_id: ProjectId, user: CurrentUser, services: Services) -> SpaceHealth:
    """Show the health of the worker space."""
    return await services.space_rpc.ask(user, project_id, "health", SpaceHealth)


@router.post("/space/reset")
async def reset_space(project_id: ProjectId, user: CurrentUser, services: Services) -> SpaceState:
    """Stop all tasks at once and restart the worker space. Memories and your files are not touched."""
    return await services.projects.reset_space(user, project_id)


@router.post("/space/cleanup", status_code=status.HTTP_204_NO_CONTENT)
async def clean_up_space(project_id: ProjectId, user: CurrentUser, services: Services) -> None:
    """Shut the worker space down gracefully; the next message starts a new one."""
    await services.space_rpc.do(user, project_id, "clean_up")


@router.delete("/space/cache", status_code=status.HTTP_204_NO_CONTENT)
async def clear_cache(project_id: ProjectId, user: CurrentUser, services: Services) -> None:
    """Clear the cache of agent configurations; registered agents stay active."""
    await services.space_rpc.do(user, project_id, "clear_cache")


@router.get("/agents/{agent_id}/status")
async def show_status(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services
) -> AgentStatusAnswer:
    """Show the status of an agent."""
    return await services.agents.status(user, project_id, agent_id)


@router.get("/agents/{agent_id}/metrics")
async def show_metrics(agent: AgentOperations) -> AgentFiguresAnswer:
    """Show statistics of an agent."""
    return await agent.ask("metrics", AgentFiguresAnswer)


@router.post("/agents/{agent_id}/register")
async def register(agent: AgentOperations) -> AgentStatusAnswer:
    """Register an agent on the bus; it takes tasks immediately."""
    return await agent.ask("register", AgentStatusAnswer)


@router.post("/agents/{agent_id}/deregister")
async def deregister(agent: AgentOperations) -> AgentStatusAnswer:
    """Deregister an agent from the bus after its running tasks; it takes no tasks until it is registered again."""
    return await agent.ask("deregister", AgentStatusAnswer)


@router.post("/agents/{agent_id}/invalidate")
async def invalidate(agent: AgentOperations) -> AgentStatusAnswer:
    """Remove an agent's configuration from the cache; it is reloaded on next use."""
    return await agent.ask("invalidate", AgentStatusAnswer)


@router.get("/activity", responses=documented(504))
async def show_activity(
    project_id: ProjectId,
    user: CurrentUser,
    services: Services,
    wanted: Annotated[ActivityRange, Query(alias="range", description="How far back.")] = "24h",
) -> Activity:
    """Show messages, failures, time to answer, cost and tokens over time, this month's spending, and the agents."""
    return await services.activity.report(user, project_id, wanted)


@router.get("/alerts")
async def list_alerts(project_id: ProjectId, user: CurrentUser, services: Services, paging: Paging) -> Page[Alert]:
    """List alerts, newest first."""
    return await services.database.read(alerts.list_alerts, user, project_id, paging)


@router.get("/events", response_class=Response, responses=STREAMED | documented(429))
async def follow_project(project_id: ProjectId, user: CurrentUser, services: Services, after: After) -> EventStream:
    """Stream the events of a project, from now or after an event number."""
    services.project_hub.readers.refuse_if_full(user)
    newest = await services.database.read(last_project_event, user, project_id)
    start = newest if after is None else after
    return EventStream(services.project_hub.follow(user, str(project_id), start, HEARTBEAT_SECONDS))
