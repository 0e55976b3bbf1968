"""Endpoints for chat sessions."""

from typing import Annotated

from fastapi import APIRouter, Query, status

from artel.api.dependencies import CurrentUser, Limit, Offset, Services, SessionId
from artel.api.problems import documented
from artel.approvals import transactions as approvals
from artel.contract.chat import Fork, SessionWithMessages
from artel.contract.http import MAX_ID, NewSession, Page, Session, SessionChanges
from artel.ids import uuid7
from artel.sessions import history
from artel.sessions import transactions as sessions
from artel.turns import fork

InProject = Annotated[int | None, Query(ge=0, le=MAX_ID, description="Only sessions of this project.", examples=[1])]

router = APIRouter(prefix="/my/chat/sessions", tags=["chat"])


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 404, 409, 413, 422, 503))
async def create_session(body: NewSession, user: CurrentUser, services: Services) -> Session:
    """Create a session in a project, by default in your default project."""
    return await services.database.run(sessions.create_session, user, uuid7(), body, services.project_rules)


@router.get("", responses=documented(401, 404, 422, 503))
async def list_sessions(
    user: CurrentUser, services: Services, limit: Limit = 50, offset: Offset = 0, project_id: InProject = None
) -> Page[Session]:
    """List your sessions of all projects or one, most recently used first."""
    return await services.database.read(sessions.list_sessions, user, project_id, limit, offset)


@router.get("/{session_id}", responses=documented(401, 404, 422, 503))
async def get_session(session_id: SessionId, user: CurrentUser, services: Services) -> SessionWithMessages:
    """Show a session with its latest messages."""
    return await services.database.read(history.get_session, user, session_id)


@router.post(
    "/{session_id}/fork",
    status_code=status.HTTP_201_CREATED,
    responses=documented(400, 401, 404, 409, 413, 422, 503),
)
async def fork_session(session_id: SessionId, body: Fork, user: CurrentUser, services: Services) -> Session:
    """Create a new session with the messages up to a given one."""
    ids = [uuid7() for _ in range(fork.MAX_FORKED)]
    size = await services.database.read(fork.size_of_fork, user, session_id, body.message_id)
    await services.storage.take(user, size)
    return await services.database.run(fork.fork_session, user, session_id, body.message_id, uuid7(), ids)


@router.patch("/{session_id}", responses=documented(400, 401, 404, 413, 422, 503))
async def update_session(session_id: SessionId, body: SessionChanges, user: CurrentUser, services: Services) -> Session:
    """Change the title of a session."""
    return await services.database.run(sessions.update_session, user, session_id, body)


@router.delete("/{session_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 404, 422, 503))
async def delete_session(session_id: SessionId, user: CurrentUser, services: Services) -> None:
    """Delete a session and its messages."""
    questions = await services.database.run(approvals.delete_session, user, session_id)
    services.relay.stop_asking(user, questions)
    services.signals.session_changed(session_id)
