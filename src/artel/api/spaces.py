"""Worker spaces: their figures, health, life cycle, alerts and events; and what they do with agents."""

from functools import partial

from fastapi import APIRouter, Response, status

from artel.alerts import service as alerts
from artel.api.chat import After, LastEventId, event_number
from artel.api.dependencies import AgentId, CurrentUser, Limit, Offset, Parts, ProjectId
from artel.api.event_stream import HEARTBEAT_SECONDS, EventStream
from artel.api.problems import documented
from artel.contract.http import Page
from artel.contract.spaces import AgentFiguresAnswer, AgentStatusAnswer, Alert, SpaceHealth, SpaceState
from artel.events.project_log import last_project_event
from artel.spaces.resets import audited_reset

router = APIRouter(prefix="/my/projects/{project_id}", tags=["worker space"])

ANSWERS = documented(401, 404, 422, 503)


@router.get("/space", responses=ANSWERS)
async def show_space(project_id: ProjectId, user: CurrentUser, parts: Parts) -> SpaceState:
    """Show the figures of the project's worker space."""
    return SpaceState.model_validate(await parts.desk.ask(user, project_id, "state"))


@router.get("/space/health", responses=ANSWERS)
async def show_health(project_id: ProjectId, user: CurrentUser, parts: Parts) -> SpaceHealth:
    """Say how the worker space is doing."""
    return SpaceHealth.model_validate(await parts.desk.ask(user, project_id, "health"))


@router.post("/space/reset", responses=ANSWERS)
async def reset_space(project_id: ProjectId, user: CurrentUser, parts: Parts) -> SpaceState:
    """Stop every task at once and begin anew. What agents remember stays, and no file of yours is touched."""
    reset = partial(parts.desk.ask, user, project_id, "reset")
    await audited_reset(parts.database, user, project_id, "user", reset, user.user_id)
    return await show_space(project_id, user, parts)


@router.post("/space/cleanup", status_code=status.HTTP_204_NO_CONTENT, responses=ANSWERS)
async def clean_up_space(project_id: ProjectId, user: CurrentUser, parts: Parts) -> None:
    """End the worker space in good order; the next message begins another."""
    await parts.desk.ask(user, project_id, "clean_up")


@router.delete("/space/cache", status_code=status.HTTP_204_NO_CONTENT, responses=ANSWERS)
async def clear_cache(project_id: ProjectId, user: CurrentUser, parts: Parts) -> None:
    """Forget every agent's configuration; agents on the bus stay active."""
    await parts.desk.ask(user, project_id, "clear_cache")


@router.get("/agents/{agent_id}/status", responses=ANSWERS)
async def show_status(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, parts: Parts) -> AgentStatusAnswer:
    """Say how an agent is doing."""
    return AgentStatusAnswer.model_validate(await parts.desk.ask(user, project_id, "status", agent_id))


@router.get("/agents/{agent_id}/metrics", responses=ANSWERS)
async def show_metrics(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, parts: Parts) -> AgentFiguresAnswer:
    """Show the figures of an agent."""
    return AgentFiguresAnswer.model_validate(await parts.desk.ask(user, project_id, "metrics", agent_id))


@router.post("/agents/{agent_id}/register", responses=ANSWERS)
async def register(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, parts: Parts) -> AgentStatusAnswer:
    """Put an agent on the bus: it takes tasks at once."""
    return AgentStatusAnswer.model_validate(await parts.desk.ask(user, project_id, "register", agent_id))


@router.post("/agents/{agent_id}/deregister", responses=ANSWERS)
async def deregister(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, parts: Parts) -> AgentStatusAnswer:
    """Take an agent off the bus, after what it does; it takes no tasks until it is registered again."""
    return AgentStatusAnswer.model_validate(await parts.desk.ask(user, project_id, "deregister", agent_id))


@router.post("/agents/{agent_id}/invalidate", responses=ANSWERS)
async def invalidate(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, parts: Parts) -> AgentStatusAnswer:
    """Forget an agent's configuration: it is read again when next used."""
    return AgentStatusAnswer.model_validate(await parts.desk.ask(user, project_id, "invalidate", agent_id))


@router.get("/alerts", responses=ANSWERS)
async def list_alerts(
    project_id: ProjectId, user: CurrentUser, parts: Parts, limit: Limit = 50, offset: Offset = 0
) -> Page[Alert]:
    """List what needed, or needs, a look; newest first."""
    return await parts.database.read(alerts.list_alerts, user, project_id, limit, offset)


@router.get(
    "/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **ANSWERS, **documented(429)},
)
async def follow_project(
    project_id: ProjectId, user: CurrentUser, parts: Parts, after: After = None, last_event_id: LastEventId = None
) -> EventStream:
    """Follow what happens in a project: from now, or after a number."""
    parts.project_hub.refuse_if_full(user)
    newest = await parts.database.read(last_project_event, user, project_id)
    begin = event_number(after, last_event_id, newest)
    return EventStream(parts.project_hub.follow(user, str(project_id), begin, HEARTBEAT_SECONDS))
