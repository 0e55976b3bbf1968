"""Sessions of the chat."""

from typing import Annotated

from fastapi import APIRouter, Query, status

from artel.api.dependencies import CurrentUser, Limit, Offset, Parts, SessionId
from artel.api.problems import documented
from artel.approvals import service as approvals
from artel.contract.chat import Fork, SessionWithMessages
from artel.contract.http import MAX_ID, NewSession, Page, Session, SessionChanges
from artel.ids import uuid7
from artel.sessions import history
from artel.sessions import service as sessions
from artel.turns import fork

InProject = Annotated[int | None, Query(ge=0, le=MAX_ID, description="Only those of this project.", examples=[1])]

router = APIRouter(prefix="/my/chat/sessions", tags=["chat"])


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 404, 409, 413, 422, 503))
async def create_session(body: NewSession, user: CurrentUser, parts: Parts) -> Session:
    """Begin a session, in a project of yours or else in your default project."""
    return await parts.database.run(sessions.create_session, user, uuid7(), body, parts.project_rules)


@router.get("", responses=documented(401, 404, 422, 503))
async def list_sessions(
    user: CurrentUser, parts: Parts, limit: Limit = 50, offset: Offset = 0, project_id: InProject = None
) -> Page[Session]:
    """List your sessions, or those of one project, the one that was used last first."""
    return await parts.database.read(sessions.list_sessions, user, project_id, limit, offset)


@router.get("/{session_id}", responses=documented(401, 404, 422, 503))
async def get_session(session_id: SessionId, user: CurrentUser, parts: Parts) -> SessionWithMessages:
    """Show a session with its latest messages."""
    return await parts.database.read(history.get_session, user, session_id)


@router.post(
    "/{session_id}/fork",
    status_code=status.HTTP_201_CREATED,
    responses=documented(400, 401, 404, 409, 413, 422, 503),
)
async def fork_session(session_id: SessionId, body: Fork, user: CurrentUser, parts: Parts) -> Session:
    """Begin another session with what was said up to a message."""
    ids = [uuid7() for _ in range(fork.MAX_FORKED)]
    size = await parts.database.read(fork.size_of_fork, user, session_id, body.message_id)
    await parts.storage.take(user, size)
    return await parts.database.run(fork.fork_session, user, session_id, body.message_id, uuid7(), ids)


@router.patch("/{session_id}", responses=documented(400, 401, 404, 413, 422, 503))
async def update_session(session_id: SessionId, body: SessionChanges, user: CurrentUser, parts: Parts) -> Session:
    """Give a session another title."""
    return await parts.database.run(sessions.update_session, user, session_id, body)


@router.delete("/{session_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 404, 422, 503))
async def delete_session(session_id: SessionId, user: CurrentUser, parts: Parts) -> None:
    """Delete a session with everything that was said in it."""
    asked = await parts.database.run(approvals.delete_session, user, session_id)
    parts.relay.stop_asking(user, asked)
    parts.signals.session_changed(session_id)
