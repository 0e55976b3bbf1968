"""Endpoints for sessions, their messages, turns and events."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response, status
from fastapi.responses import JSONResponse

from artel.api.dependencies import CurrentUser, MessageId, Paging, Services, SessionId, TurnId
from artel.api.download import Download, downloaded
from artel.api.event_stream import HEARTBEAT_SECONDS, STREAMED, After, EventStream
from artel.api.problems import documented
from artel.approvals.timeline import read_timeline
from artel.auth.principal import Principal
from artel.container import Container
from artel.contract.chat import (
    ChatMessage,
    Failure,
    Fork,
    Found,
    IdempotencyKey,
    MessageAccepted,
    MessageChanges,
    MessageResponse,
    NewFeedback,
    NewMessage,
    Retry,
    SessionWithMessages,
    TimelineItem,
    TurnContext,
    TurnState,
)
from artel.contract.http import MAX_ID, NewSession, Page, Session, SessionChanges
from artel.ids import id_of, uuid7
from artel.sessions import transactions as sessions
from artel.sessions.export import Format
from artel.turns import failures
from artel.turns.turn import Mode, Turn, TurnStatus

WAIT_SECONDS = 35.0
MAX_WAIT_SECONDS = 600.0
_WAIT = re.compile(r"\bwait\s*=\s*(\d{1,6})")

router = APIRouter(tags=["chat"], responses=documented(401, 422, 503))
sessions_router = APIRouter(prefix="/my/chat/sessions", tags=["chat"], responses=documented(401, 404, 422, 503))

Role = Annotated[str | None, Query(pattern="^(user|assistant|system)$", description="Only messages of this role.")]
Last = Annotated[int | None, Query(ge=1, le=100, description="Only the newest N messages.")]
Before = Annotated[
    str | None,
    Query(max_length=64, pattern=r"^[^\x00]*$", description="Only the `limit` items before the one with this id."),
]
Words = Annotated[
    str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$", examples=["landing page"])
]
InProject = Annotated[int | None, Query(ge=0, le=MAX_ID, description="Only sessions of this project.", examples=[1])]
InSession = Annotated[
    str | None, Query(max_length=64, pattern=r"^[0-9a-zA-Z-]+$", description="Only messages of this session.")
]
Days = Annotated[int, Query(ge=1, le=90, description="Only of the last N days.")]
Archived = Annotated[bool, Query(description="List archived sessions instead.")]
_STATUS = "|".join(TurnStatus)
Statuses = Annotated[
    str,
    Query(
        alias="status",
        pattern=f"^({_STATUS})(,({_STATUS})){{0,9}}$",
        description="Statuses, separated by commas.",
        examples=["queued,running"],
    ),
]
ExportFormat = Annotated[Format, Query(alias="format", description="Format of the file.")]
Accept = Annotated[str, Header(include_in_schema=False)]
Prefer = Annotated[str, Header(description="`respond-async`, or `wait=N` (seconds).")]
Key = Annotated[IdempotencyKey | None, Header()]
_EXPORTED_SESSION = {
    "type": "object",
    "required": ["exported_at", "session", "items"],
    "properties": {
        "exported_at": {"type": "string", "format": "date-time"},
        "session": {"$ref": "#/components/schemas/Session"},
        "items": {"type": "array", "items": {"type": "object"}},
    },
}
_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {"model": MessageResponse} | STREAMED[200],
    202: {"model": MessageAccepted},
}


@router.post("/my/chat/{session_id}/message", responses=_REPLIES | documented(400, 404, 409, 413, 429, 502, 504))
async def send_message(
    session_id: SessionId,
    body: NewMessage,
    user: CurrentUser,
    services: Services,
    accept: Accept = "",
    prefer: Prefer = "",
    idempotency_key: Key = None,
) -> Response:
    """Send a message to an agent, or without `target_agent` to the orchestrator.

    A direct message waits for the answer; with `Accept: text/event-stream` the answer is streamed.
    """
    _refuse_if_too_many_streams(services, user, accept)
    target = None if body.target_agent is None else str(body.target_agent)
    key = body.idempotency_key or idempotency_key
    turn = await services.chat.send(user, session_id, body.content, target, key, attachments=body.attachments)
    return await _respond(services, user, turn, accept, prefer)


@router.post("/my/chat/{session_id}/turns/{turn_id}/retry", responses=_REPLIES | documented(404, 409, 429, 502, 504))
async def retry(
    session_id: SessionId,
    turn_id: TurnId,
    user: CurrentUser,
    services: Services,
    body: Retry | None = None,
    accept: Accept = "",
    prefer: Prefer = "",
    idempotency_key: Key = None,
) -> Response:
    """Send the message of a finished turn again as a new turn, as it was, in other words, or to another agent.

    The response is that of sending a message. Later prompts omit the earlier question and answer.
    """
    _refuse_if_too_many_streams(services, user, accept)
    turn = await services.chat.retry(user, session_id, turn_id, idempotency_key, body)
    return await _respond(services, user, turn, accept, prefer)


@router.post("/my/chat/{session_id}/turns/{turn_id}/continue", responses=_REPLIES | documented(404, 409, 429, 502, 504))
async def continue_answer(
    session_id: SessionId,
    turn_id: TurnId,
    user: CurrentUser,
    services: Services,
    accept: Accept = "",
    prefer: Prefer = "",
    idempotency_key: Key = None,
) -> Response:
    """Go on with the answer of a turn that was cut off, in a new turn of the same agent.

    The response is that of sending a message: the rest of the answer, as one new message.
    """
    _refuse_if_too_many_streams(services, user, accept)
    turn = await services.chat.go_on(user, session_id, turn_id, idempotency_key)
    return await _respond(services, user, turn, accept, prefer)


def _refuse_if_too_many_streams(services: Container, user: Principal, accept: str) -> None:
    """Raise if the answer is to be streamed and the stream limit is reached, before the message is accepted."""
    if "text/event-stream" in accept:
        services.hub.readers.refuse_if_full(user)


async def _respond(services: Container, user: Principal, turn: Turn, accept: str, prefer: str) -> Response:
    """Return the answer to a turn, its stream, or 202 if the client does not wait for it."""
    if "text/event-stream" in accept:
        return EventStream(services.chat.events(user, turn, HEARTBEAT_SECONDS), turn.session_id)
    if wait := _WAIT.search(prefer):
        seconds = min(float(wait[1]), MAX_WAIT_SECONDS)
    else:
        seconds = 0.0 if "respond-async" in prefer or turn.mode is Mode.ORCHESTRATED else WAIT_SECONDS
    reply = await services.chat.reply(user, turn, seconds)
    is_accepted = isinstance(reply, MessageAccepted)
    code = status.HTTP_202_ACCEPTED if is_accepted else status.HTTP_200_OK
    return Response(reply.model_dump_json(exclude_none=is_accepted), code, media_type=JSONResponse.media_type)


@router.get("/my/chat/{session_id}/messages", responses=documented(404))
async def list_messages(
    session_id: SessionId,
    user: CurrentUser,
    services: Services,
    paging: Paging,
    role: Role = None,
    last: Last = None,
) -> Page[ChatMessage]:
    """List messages, oldest first; with `last` only the newest ones."""
    return await services.database.read(sessions.list_messages, user, session_id, role, paging, last)


@router.post("/my/chat/{session_id}/messages/{message_id}/feedback", responses=documented(400, 404, 409, 413))
async def rate_answer(
    session_id: SessionId, message_id: MessageId, body: NewFeedback, user: CurrentUser, services: Services
) -> ChatMessage:
    """Rate an answer; the agents that wrote it remember your feedback. A new rating replaces the one before."""
    return await services.sessions.rate(user, session_id, message_id, body)


@router.get("/my/chat/{session_id}/timeline", responses=documented(404))
async def show_timeline(
    session_id: SessionId,
    user: CurrentUser,
    services: Services,
    paging: Paging,
    last: Last = None,
    before: Before = None,
) -> Page[TimelineItem]:
    """List what happened in a session, oldest first: messages, tool calls, approvals, plans, file changes, notices."""
    return await services.database.read(read_timeline, user, session_id, paging, last, before)


@router.get("/my/chat/{session_id}/events", response_class=Response, responses=STREAMED | documented(404, 429))
async def follow_session(session_id: SessionId, user: CurrentUser, services: Services, after: After) -> EventStream:
    """Stream the events of a session, from now or after an event number."""
    services.hub.readers.refuse_if_full(user)
    newest = await services.database.read(sessions.last_event, user, session_id)
    start = newest if after is None else after
    return EventStream(services.hub.follow(user, session_id, start, HEARTBEAT_SECONDS), session_id)


@router.get("/my/chat/{session_id}/turns", responses=documented(404))
async def list_turns(
    session_id: SessionId,
    user: CurrentUser,
    services: Services,
    paging: Paging,
    turn_status: Statuses = "queued,running,waiting",
) -> Page[TurnState]:
    """List the turns of a session with some statuses, oldest first; by default those that have not ended."""
    return await services.chat.list(user, session_id, turn_status.split(","), paging)


@router.patch("/my/chat/{session_id}/turns/{turn_id}", responses=documented(400, 404, 409, 413))
async def change_message(
    session_id: SessionId, turn_id: TurnId, body: MessageChanges, user: CurrentUser, services: Services
) -> TurnState:
    """Change the message of a turn that is queued and has not begun."""
    return await services.chat.change(user, session_id, turn_id, body.content)


@router.get("/my/chat/{session_id}/turns/{turn_id}", responses=documented(404))
async def show_turn(session_id: SessionId, turn_id: TurnId, user: CurrentUser, services: Services) -> TurnState:
    """Show the state of a turn."""
    return await services.chat.show(user, session_id, turn_id)


@router.get("/my/chat/{session_id}/turns/{turn_id}/context", responses=documented(404))
async def show_context(session_id: SessionId, turn_id: TurnId, user: CurrentUser, services: Services) -> TurnContext:
    """Show the memories that were added to the prompt of a turn, with their scores; empty until the turn has ended."""
    return await services.chat.context(user, session_id, turn_id)


@router.post("/my/chat/{session_id}/turns/{turn_id}/cancel", responses=documented(404))
async def cancel(session_id: SessionId, turn_id: TurnId, user: CurrentUser, services: Services) -> TurnState:
    """Cancel a queued or running turn; a finished turn does not change."""
    return await services.chat.cancel(user, session_id, turn_id)


@router.get("/my/failures")
async def list_failures(user: CurrentUser, services: Services, paging: Paging, days: Days = 7) -> Page[Failure]:
    """List what failed in all your projects, newest first: sessions whose last turn failed or ran out of time.

    Archived sessions are left out. A session is listed until a later turn of it ends well, or you stop one.
    """
    return await services.database.read(failures.list_failures, user, days, paging)


@router.get("/my/search", responses=documented(404, 429, 504))
async def search(
    user: CurrentUser,
    services: Services,
    q: Words,
    paging: Paging,
    session_id: InSession = None,
) -> Page[Found]:
    """Search your sessions and messages, or the messages of one session, without regard to case.

    It finds the newest 1,000 messages; one or two letters are looked for in the newest 5,000.
    """
    return await services.sessions.search(user, q, session_id, paging)


@sessions_router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 409, 413))
async def create_session(body: NewSession, user: CurrentUser, services: Services) -> Session:
    """Create a session in a project, by default in your default project."""
    key = body.idempotency_key
    session_id = uuid7() if key is None else id_of("session", user.user_id, key)
    return await services.database.of(user).run(sessions.create_session, session_id, body, services.project_rules)


@sessions_router.get("")
async def list_sessions(
    user: CurrentUser,
    services: Services,
    paging: Paging,
    project_id: InProject = None,
    archived: Archived = False,
) -> Page[Session]:
    """List your sessions of all projects or one, most recently used first, without archived ones."""
    return await services.database.read(sessions.list_sessions, user, project_id, archived, paging)


@sessions_router.get("/{session_id}")
async def get_session(session_id: SessionId, user: CurrentUser, services: Services) -> SessionWithMessages:
    """Show a session with its latest messages."""
    return await services.database.read(sessions.get_session, user, session_id)


@sessions_router.get(
    "/{session_id}/export",
    response_class=Response,
    responses=downloaded(markdown={"type": "string"}, json=_EXPORTED_SESSION),
)
async def export_session(
    session_id: SessionId, user: CurrentUser, services: Services, wanted: ExportFormat = "markdown"
) -> Download:
    """Download a session: messages, tool calls, approvals, plans with their tasks, file changes and notices."""
    name, content = await services.export.open(user, session_id, wanted)
    media_type = "application/json" if wanted == "json" else "text/markdown; charset=utf-8"
    return Download(name, media_type, content)


@sessions_router.post("/{session_id}/fork", status_code=status.HTTP_201_CREATED, responses=documented(400, 409, 413))
async def fork_session(session_id: SessionId, body: Fork, user: CurrentUser, services: Services) -> Session:
    """Create a new session with the messages up to a given one."""
    return await services.sessions.fork(user, session_id, body.message_id)


@sessions_router.patch("/{session_id}", responses=documented(400, 413))
async def update_session(session_id: SessionId, body: SessionChanges, user: CurrentUser, services: Services) -> Session:
    """Rename a session, pin or archive it, or set to whom its next message goes by default."""
    return await services.database.of(user).run(sessions.update_session, session_id, body)


@sessions_router.delete("/{session_id}", status_code=status.HTTP_204_NO_CONTENT)
async def delete_session(session_id: SessionId, user: CurrentUser, services: Services) -> None:
    """Delete a session and its messages."""
    await services.sessions.delete(user, session_id)
