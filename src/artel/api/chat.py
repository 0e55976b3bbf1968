"""Endpoints for messages, turns and events of a session."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response, status
from fastapi.responses import JSONResponse

from artel.api.dependencies import CurrentUser, Limit, Offset, Services, SessionId, TurnId
from artel.api.event_stream import HEARTBEAT_SECONDS, EventStream
from artel.api.problems import documented
from artel.approvals.timeline import read_timeline
from artel.approvals.transactions import cancel_turn, pending_of
from artel.auth.principal import Principal
from artel.brain.errors import ContextTooLarge
from artel.brain.tokens import count_tokens, is_ready
from artel.container import Container
from artel.contract.chat import (
    ChatMessage,
    Found,
    IdempotencyKey,
    MessageAccepted,
    MessageResponse,
    NewMessage,
    TurnState,
    Usage,
)
from artel.contract.http import Page
from artel.contract.timeline import TimelineItem
from artel.errors import (
    AgentFailed,
    AgentInError,
    AgentNotFound,
    AgentNotRegistered,
    ArtelError,
    BudgetExceeded,
    PlanRejected,
    SearchTooLong,
    StorageFull,
    TaskStopped,
    TooManySearches,
    TurnCancelledByUser,
    TurnTimedOut,
)
from artel.events.hub import TURN_ENDS, Delta, Item
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans.commands import workflow_of_turn
from artel.plans.transactions import add_workflow
from artel.runs.host import Job
from artel.sessions import history
from artel.spaces.agent_figures import ERROR_SECONDS
from artel.turns.cancel import CANCELLED
from artel.turns.transactions import NewTurn, TurnOver, accept_message, was_accepted
from artel.turns.turn import Mode, Turn, TurnStatus
from artel.turns.waiters import Ended, get_turn, message_to_repeat, read_ended

WAIT_SECONDS = 35.0
MAX_WAIT_SECONDS = 600.0
LONG_TEXT = 10_000
MAX_DIGITS = 9
MAX_SEARCHES = 4  # per user, running and queued
_WAIT = re.compile(r"\bwait\s*=\s*(\d{1,6})")

router = APIRouter(tags=["chat"])

log = get_logger(__name__)

Role = Annotated[str | None, Query(pattern="^(user|assistant|system)$", description="Only messages of this role.")]
Last = Annotated[int | None, Query(ge=1, le=100, description="Only the newest N messages.")]
After = Annotated[
    int | None, Query(ge=0, le=2**31 - 1, description="Start after this event number; 0 is the beginning.")
]
LastEventId = Annotated[
    str | None, Header(description="The same as `after`; EventSource clients send it when they reconnect.")
]
Words = Annotated[
    str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$", examples=["landing page"])
]


@router.post(
    "/my/chat/{session_id}/message",
    responses={
        200: {"model": MessageResponse, "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        202: {"model": MessageAccepted},
        **documented(400, 401, 404, 409, 413, 422, 429, 502, 503, 504),
    },
)
async def send_message(
    session_id: SessionId,
    body: NewMessage,
    user: CurrentUser,
    services: Services,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    prefer: Annotated[str, Header(description="`respond-async`, or `wait=N` (seconds).")] = "",
    idempotency_key: Annotated[IdempotencyKey | None, Header()] = None,
) -> Response:
    """Send a message to an agent, or without `target_agent` to the orchestrator.

    A direct message waits for the answer; with `Accept: text/event-stream` the answer is streamed.
    """
    _refuse_if_too_many_streams(services, user, accept)
    target = None if body.target_agent is None else str(body.target_agent)
    turn = await _accept(services, user, session_id, body.content, target, body.idempotency_key or idempotency_key)
    return await _respond(services, user, turn, accept, prefer)


@router.post(
    "/my/chat/{session_id}/turns/{turn_id}/retry",
    responses={
        200: {"model": MessageResponse, "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        202: {"model": MessageAccepted},
        **documented(401, 404, 409, 422, 429, 502, 503, 504),
    },
)
async def retry(
    session_id: SessionId,
    turn_id: TurnId,
    user: CurrentUser,
    services: Services,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    prefer: Annotated[str, Header(description="`respond-async`, or `wait=N` (seconds).")] = "",
    idempotency_key: Annotated[IdempotencyKey | None, Header()] = None,
) -> Response:
    """Send the message of a finished turn again as a new turn, to the same agent or the orchestrator.

    The response is that of sending a message. Later prompts omit the earlier question and answer.
    """
    _refuse_if_too_many_streams(services, user, accept)
    content, turn = await services.database.read(message_to_repeat, user, session_id, turn_id)
    target = None if turn.mode is Mode.ORCHESTRATED else str(turn.agent_id)
    new_turn = await _accept(services, user, session_id, content, target, idempotency_key, retry_of=turn_id)
    return await _respond(services, user, new_turn, accept, prefer)


def _refuse_if_too_many_streams(services: Container, user: Principal, accept: str) -> None:
    """Raise if the answer is to be streamed and the stream limit is reached, before the message is accepted."""
    if "text/event-stream" in accept:
        services.hub.refuse_if_full(user)


async def _respond(services: Container, user: Principal, turn: Turn, accept: str, prefer: str) -> Response:
    """Return the answer to a turn, its stream, or 202 if the client does not wait for it."""
    session_id = turn.session_id
    if "text/event-stream" in accept:
        return EventStream(_turn_events(services, user, turn), session_id)
    seconds = _wait_seconds(prefer, turn.mode)
    ended = await _wait_for_end(services, user, turn, seconds) if seconds else None
    if ended is not None:
        return _answer_response(ended)
    approval_id = workflow_id = None
    if seconds:
        turn, approval_id = await services.database.read(pending_of, user, session_id, turn.id)
    if turn.mode is Mode.ORCHESTRATED:
        workflow_id = await services.database.read(workflow_of_turn, user, turn.id)
    return _accepted_response(turn, approval_id, workflow_id)


@router.get("/my/chat/{session_id}/messages", responses=documented(401, 404, 422, 503))
async def list_messages(
    session_id: SessionId,
    user: CurrentUser,
    services: Services,
    limit: Limit = 50,
    offset: Offset = 0,
    role: Role = None,
    last: Last = None,
) -> Page[ChatMessage]:
    """List messages, oldest first; with `last` only the newest ones."""
    if last is not None:
        return await services.database.read(history.newest_messages, user, session_id, role, last)
    return await services.database.read(history.list_messages, user, session_id, role, limit, offset)


@router.get("/my/chat/{session_id}/timeline", responses=documented(401, 404, 422, 503))
async def show_timeline(
    session_id: SessionId,
    user: CurrentUser,
    services: Services,
    limit: Limit = 50,
    offset: Offset = 0,
    last: Last = None,
) -> Page[TimelineItem]:
    """List what happened in a session, oldest first: messages, tool calls, approvals, plans, file changes, notices."""
    return await services.database.read(read_timeline, user, session_id, limit, offset, last)


@router.get(
    "/my/chat/{session_id}/events",
    response_class=Response,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **documented(401, 404, 422, 429, 503),
    },
)
async def follow_session(
    session_id: SessionId, user: CurrentUser, services: Services, after: After = None, last_event_id: LastEventId = None
) -> EventStream:
    """Stream the events of a session, from now or after an event number."""
    services.hub.refuse_if_full(user)
    newest = await services.database.read(history.last_event, user, session_id)
    start = event_number(after, last_event_id, newest)
    return EventStream(services.hub.follow(user, session_id, start, HEARTBEAT_SECONDS), session_id)


@router.get("/my/chat/{session_id}/turns/{turn_id}", responses=documented(401, 404, 422, 503))
async def show_turn(session_id: SessionId, turn_id: TurnId, user: CurrentUser, services: Services) -> TurnState:
    """Show the state of a turn."""
    return _state(await services.database.read(get_turn, user, session_id, turn_id))


@router.post("/my/chat/{session_id}/turns/{turn_id}/cancel", responses=documented(401, 404, 422, 503))
async def cancel(session_id: SessionId, turn_id: TurnId, user: CurrentUser, services: Services) -> TurnState:
    """Cancel a queued or running turn; a finished turn does not change."""
    try:
        partial_answer = services.hub.partial_answer(session_id, turn_id)
        turn, questions = await services.database.run(
            cancel_turn, user, session_id, turn_id, uuid7(), count_tokens(CANCELLED), partial_answer
        )
    except TurnOver:  # it ended concurrently
        return await show_turn(session_id, turn_id, user, services)
    services.signals.session_changed(session_id)
    services.signals.cancelled(turn_id)
    services.relay.stop_asking(user, questions)
    ended = await services.database.read(read_ended, user, session_id, turn_id)
    if ended is not None:
        services.turn_waiters.tell(ended)
    return _state(turn)


@router.get("/my/search", responses=documented(401, 422, 429, 503, 504))
async def search(user: CurrentUser, services: Services, q: Words, limit: Limit = 50, offset: Offset = 0) -> Page[Found]:
    """Search your sessions and messages."""
    if services.searches.count(user.user_id) >= MAX_SEARCHES:
        raise TooManySearches(
            f"You already have {MAX_SEARCHES} searches running. Try again in a moment.", retry_after=5
        )
    seconds = services.settings.search_seconds
    try:
        async with services.searches.lock(user.user_id):
            return await services.database.read_within(seconds, history.search, user, q, limit, offset)
    except TimeoutError:
        raise SearchTooLong(
            f"The search timed out after {seconds:g} seconds, because you have very many messages. "
            "Delete old sessions, or ask the operator to raise search_seconds."
        ) from None


def event_number(after: int | None, last_event_id: str | None, newest: int) -> int:
    """Return the event number after which a stream starts; an invalid `last_event_id` is ignored."""
    if after is not None:
        return after
    if last_event_id and last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= MAX_DIGITS:
        return int(last_event_id)
    return newest


async def _accept(
    services: Container,
    user: Principal,
    session_id: str,
    content: str,
    target: str | None,
    key: str | None,
    retry_of: str | None = None,
) -> Turn:
    size = await _take_storage(services, user, session_id, len(content.encode()), key)
    if is_ready() and len(content) <= LONG_TEXT:
        tokens = count_tokens(content)
    else:
        tokens = await asyncio.to_thread(count_tokens, content)
    new = NewTurn(uuid7(), uuid7(), content, tokens, target, key, retry_of)
    is_planned = new.mode is Mode.ORCHESTRATED
    also = partial(add_workflow, workflow_id=uuid7(), request=content) if is_planned else None
    try:
        turn = await services.database.run(accept_message, user, session_id, new, services.refuse_if_unable, also)
    except ArtelError:
        services.storage.give_back(user, size)
        raise
    if turn.id != new.turn_id:
        services.storage.give_back(user, size)
    log.info("mode_chosen", session_id=session_id, mode=turn.mode, turn_id=turn.id)
    if turn.id == new.turn_id:
        services.signals.session_changed(session_id)
        if services.host is not None:
            services.host.take(Job(user, turn, content))
        services.signals.work(turn.project_id)
    return turn


async def _take_storage(services: Container, user: Principal, session_id: str, size: int, key: str | None) -> int:
    """Reserve storage for a message and return its bytes; 0 for a repeated request that was already accepted."""
    try:
        await services.storage.take(user, size)
    except StorageFull:
        if key is None or not await services.database.read(was_accepted, user, session_id, key):
            raise
        return 0
    return size


def _wait_seconds(prefer: str, mode: Mode) -> float:
    """Return how many seconds the response waits for the answer."""
    wait = _WAIT.search(prefer)
    if wait:
        return min(float(wait[1]), MAX_WAIT_SECONDS)
    if "respond-async" in prefer or mode is Mode.ORCHESTRATED:
        return 0.0
    return WAIT_SECONDS


async def _wait_for_end(services: Container, user: Principal, turn: Turn, seconds: float) -> Ended | None:
    if turn.status is not TurnStatus.QUEUED:  # the same request was sent before
        ended = await services.database.read(read_ended, user, turn.session_id, turn.id)
        if ended is not None:
            return ended
    runs_here = services.host is not None and services.host.runs_here(turn.project_id)
    return await services.turn_waiters.wait(user, turn.session_id, turn.id, seconds, runs_here=runs_here)


def _answer_response(ended: Ended) -> Response:
    if ended.error_code is not None:
        raise _error(ended)
    return _json(
        MessageResponse(
            session_id=ended.session_id,
            turn_id=ended.turn_id,
            message_id=ended.message_id or "",
            mode=ended.mode,
            agent_id=ended.agent_id,
            agent=ended.agent,
            content=ended.content,
            context=ended.context,
            usage=Usage(**ended.usage),
            duration_ms=ended.duration_ms,
        ).model_dump_json(),
        status.HTTP_200_OK,
    )


def _error(ended: Ended) -> ArtelError:
    if ended.status is TurnStatus.TIMEOUT:
        return TurnTimedOut(ended.content)
    if ended.status is TurnStatus.CANCELLED:
        return TurnCancelledByUser(ended.content)
    retryable = {error.code: error for error in (AgentInError, AgentNotRegistered, AgentNotFound, TaskStopped)}
    refusals: dict[str, type[ArtelError]] = {error.code: error for error in (BudgetExceeded, ContextTooLarge)}
    if ended.error_code in refusals:
        return refusals[ended.error_code](ended.content)
    if ended.status is TurnStatus.REJECTED:
        return PlanRejected(ended.content)
    if ended.error_code in retryable:
        return retryable[ended.error_code](ended.content, retry_after=ERROR_SECONDS)
    return AgentFailed(ended.content)


def _accepted_response(turn: Turn, approval_id: str | None, workflow_id: str | None) -> Response:
    accepted = MessageAccepted(
        session_id=turn.session_id,
        turn_id=turn.id,
        workflow_id=workflow_id,
        approval_id=approval_id,
        mode=turn.mode,
        status=turn.status,
    )
    return _json(accepted.model_dump_json(exclude_none=True), status.HTTP_202_ACCEPTED)


def _json(text: str, code: int) -> Response:
    return Response(text, code, media_type=JSONResponse.media_type)


async def _turn_events(services: Container, user: Principal, turn: Turn) -> AsyncIterator[Item | None]:
    """Yield the events of one turn until it ends."""
    async for item in services.hub.follow(user, turn.session_id, turn.number - 1, HEARTBEAT_SECONDS):
        if item is None:
            yield item
        elif isinstance(item, Delta):
            if item.owner_turn_id == turn.id:
                yield item
        elif item.turn_id == turn.id:
            yield item
            if item.type in TURN_ENDS:
                return


def _state(turn: Turn) -> TurnState:
    return TurnState(
        id=turn.id,
        session_id=turn.session_id,
        mode=turn.mode,
        agent_id=turn.agent_id,
        status=turn.status,
        error_code=turn.error_code,
        error=turn.error,
        usage=Usage(**turn.usage) if turn.usage else None,
        created_at=turn.created_at,
        started_at=turn.started_at,
        finished_at=turn.finished_at,
        duration_ms=turn.duration_ms,
        retry_of=turn.retry_of,
    )
