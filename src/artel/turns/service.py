"""Messages and their turns: accepting, waiting for the answer, cancelling, repeating."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from artel import kill_points
from artel.approvals.transactions import pending_of
from artel.attachments.repository import StoredAttachment
from artel.auth.principal import Principal
from artel.brain.errors import ContextTooLarge
from artel.brain.tokens import count_in_background
from artel.contract.chat import MessageAccepted, MessageResponse, Retry, TurnContext, TurnState
from artel.contract.http import Page, PageRequest
from artel.errors import (
    AccountBudgetExceeded,
    AgentFailed,
    AgentInError,
    AgentNotFound,
    AgentNotRegistered,
    AgentUnavailable,
    ArtelError,
    BudgetExceeded,
    DatabaseUnavailable,
    PlanRejected,
    StorageFull,
    TaskStopped,
    TurnCancelledByUser,
    TurnTimedOut,
)
from artel.events.hub import TURN_ENDS, Delta, Item
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans.commands import workflow_of_turn
from artel.plans.transactions import add_workflow
from artel.runs.host import Host
from artel.spaces.figures import ERROR_SECONDS
from artel.spaces.services import SpaceServices
from artel.spaces.spaces import Spaces
from artel.turns.end import cancel_turn
from artel.turns.sent_messages import change_message, continue_answer, list_turns
from artel.turns.transactions import NewAttachments, NewTurn, TurnOver, accept_message, was_accepted
from artel.turns.turn import Mode, Turn, TurnStatus
from artel.turns.waiters import Ended, get_turn, message_to_repeat, read_turn

POLL_SECONDS = 1.0
LOCAL_POLL_SECONDS = 5.0  # of a turn that runs in this process, which notifies its waiters

_ENDS: dict[TurnStatus, type[ArtelError]] = {
    TurnStatus.TIMEOUT: TurnTimedOut,
    TurnStatus.CANCELLED: TurnCancelledByUser,
}
_REFUSALS: dict[str, type[ArtelError]] = {
    error.code: error for error in (AccountBudgetExceeded, BudgetExceeded, ContextTooLarge)
}
_RETRYABLE: dict[str, type[ArtelError]] = {
    error.code: error for error in (AgentInError, AgentNotRegistered, AgentNotFound, AgentUnavailable, TaskStopped)
}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Resent:
    """What a message has from an earlier one that it repeats: its turn and files."""

    turn_id: str | None = None
    attachments: Sequence[StoredAttachment] = ()
    sets_recipient: bool = True  # whether the next message goes to the same agent by default


class ChatService:
    """Accepts messages and returns their answers; `host` and `spaces` are None in a process that runs no turns."""

    def __init__(self, services: SpaceServices, host: Host | None, spaces: Spaces | None) -> None:
        self._services = services
        self._database = services.database
        self._host = host
        self._spaces = spaces

    async def send(
        self,
        user: Principal,
        session_id: str,
        content: str,
        target: str | None,
        key: str | None,
        attachments: Sequence[str] = (),
        resent: Resent | None = None,
    ) -> Turn:
        """Store a message and queue its turn; return the earlier turn if the idempotency key was used before."""
        size = len(content.encode())
        step = user, session_id, content, target, key, attachments, resent or Resent()
        try:
            async with self._services.storage.reserved(user, size):
                turn, is_new = await self._accept(*step)
        except StorageFull:
            if key is None or not await self._database.read(was_accepted, user, session_id, key):
                raise
            turn, _ = await self._accept(*step)  # the same request was accepted before
        else:
            if not is_new:
                self._services.storage.give_back(user, size)
        log.info("mode_chosen", session_id=session_id, mode=turn.mode, turn_id=turn.id)
        return turn

    async def _accept(
        self,
        user: Principal,
        session_id: str,
        content: str,
        target: str | None,
        key: str | None,
        attachments: Sequence[str],
        resent: Resent,
    ) -> tuple[Turn, bool]:
        """Store a message and queue its turn, or find the earlier one; return the turn and whether it is new."""
        tokens, files = await count_in_background(content), None
        if attachments or resent.attachments:
            files = NewAttachments(self._services.brain.takes_images, tuple(attachments), tuple(resent.attachments))
        what = uuid7(), uuid7(), content, tokens, target, key
        new = NewTurn(*what, resent.turn_id, files, resent.sets_recipient)
        is_planned = new.mode is Mode.ORCHESTRATED
        also = partial(add_workflow, workflow_id=uuid7(), request=content) if is_planned else None
        turn = await self._database.of(user).run(accept_message, session_id, new, self._refuse_if_unable, also)
        return turn, turn.id == new.turn_id

    async def retry(
        self, user: Principal, session_id: str, turn_id: str, key: str | None, changes: Retry | None = None
    ) -> Turn:
        """Send the message of a finished turn again as a new turn, with other words or to another agent if wanted."""
        repeated = await self._database.read(message_to_repeat, user, session_id, turn_id)
        target = None if repeated.turn.mode is Mode.ORCHESTRATED else str(repeated.turn.agent_id)
        changed = changes.model_dump(exclude_unset=True) if changes else {}
        if is_redirected := "target_agent" in changed:
            target = None if changed["target_agent"] is None else str(changed["target_agent"])
        content = changed.get("content", repeated.content)
        resent = Resent(turn_id, repeated.attachments, sets_recipient=is_redirected)
        return await self.send(user, session_id, content, target, key, resent=resent)

    async def go_on(self, user: Principal, session_id: str, turn_id: str, key: str | None) -> Turn:
        """Queue a turn that continues the cut-off answer of another."""
        step = session_id, turn_id, uuid7(), key, self._refuse_if_unable
        return await self._database.of(user).run(continue_answer, *step)

    async def change(self, user: Principal, session_id: str, turn_id: str, content: str) -> TurnState:
        """Change the message of a queued turn."""
        async with self._services.storage.reserved(user, len(content.encode())):
            tokens = await count_in_background(content)
            turn, replaced = await self._database.of(user).run(change_message, session_id, turn_id, content, tokens)
        self._services.storage.give_back(user, replaced)
        return _state(turn)

    async def list(
        self, user: Principal, session_id: str, statuses: Sequence[str], paging: PageRequest
    ) -> Page[TurnState]:
        """Return a page of the turns of a session with these statuses, oldest first."""
        turns, total = await self._database.read(list_turns, user, session_id, statuses, paging)
        return paging.page([_state(turn) for turn in turns], total)

    async def reply(self, user: Principal, turn: Turn, seconds: float) -> MessageResponse | MessageAccepted:
        """Wait for the answer to a turn and return it; after `seconds`, or if the user must decide, return the turn."""
        approval_id = workflow_id = None
        if seconds:
            ended = await self._wait(user, turn, seconds)
            if ended is not None:
                kill_points.reached("turn.response")
                return _answer(ended)
            turn, approval_id = await self._database.read(pending_of, user, turn.session_id, turn.id)
        if turn.mode is Mode.ORCHESTRATED:
            workflow_id = await self._database.read(workflow_of_turn, user, turn.id)
        return MessageAccepted.of(turn, turn_id=turn.id, workflow_id=workflow_id, approval_id=approval_id)

    async def events(self, user: Principal, turn: Turn, heartbeat_seconds: float) -> AsyncIterator[Item | None]:
        """Yield the events of one turn until it ends, and None as a heartbeat."""
        async for item in self._services.hub.follow(user, turn.session_id, turn.number - 1, heartbeat_seconds):
            if item is None:
                yield item
            elif isinstance(item, Delta):
                if item.owner_turn_id == turn.id:
                    yield item
            elif item.turn_id == turn.id:
                yield item
                if item.type in TURN_ENDS:
                    return

    async def show(self, user: Principal, session_id: str, turn_id: str) -> TurnState:
        return _state(await self._database.read(get_turn, user, session_id, turn_id))

    async def context(self, user: Principal, session_id: str, turn_id: str) -> TurnContext:
        turn = await self._database.read(get_turn, user, session_id, turn_id)
        return TurnContext(items=list(turn.context or ()))

    async def cancel(self, user: Principal, session_id: str, turn_id: str) -> TurnState:
        partial_answer = self._services.hub.partial_answer(session_id, turn_id)
        try:
            return _state(await self._database.of(user).run(cancel_turn, session_id, turn_id, partial_answer))
        except TurnOver:  # it ended concurrently
            return await self.show(user, session_id, turn_id)

    def _refuse_if_unable(self, project_id: int, agent_id: int) -> None:
        """Raise if this process knows that the agent can't take a message now."""
        space = self._spaces.peek(project_id) if self._spaces else None
        if space is not None:
            space.bus.refuse_if_unable(agent_id)

    async def _wait(self, user: Principal, turn: Turn, seconds: float) -> Ended | None:
        """Return how the turn ended; None after `seconds`, if it waits for the user, or if the server stops.

        The database is polled even if the turn runs here: another process may take the space over.
        """
        waiters = self._services.turn_waiters
        runs_here = self._host is not None and self._host.runs_here(turn.project_id)
        look = not runs_here or turn.status is not TurnStatus.QUEUED  # the same request was sent before
        with suppress(TimeoutError), waiters.waiter(turn, runs_here=runs_here) as waiter:
            async with asyncio.timeout(seconds):
                while waiter.ended is None and not waiter.parked:
                    if waiter.gone is not None:
                        raise waiter.gone
                    waiter.changed.clear()
                    if look or waiters.closed:
                        status = ended = None
                        with suppress(DatabaseUnavailable):  # it may be back before the deadline
                            status, ended = await self._database.read(read_turn, user, turn.session_id, turn.id)
                        if ended is not None or status is TurnStatus.WAITING or waiters.closed:
                            return ended
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOCAL_POLL_SECONDS if runs_here else POLL_SECONDS):
                            await waiter.changed.wait()
                    look = True
                return waiter.ended
        return None


def _answer(ended: Ended) -> MessageResponse:
    """Return the answer of a finished turn or raise its error."""
    if ended.error_code is None:
        return MessageResponse.of(ended)
    error = (
        _ENDS.get(ended.status)
        or _REFUSALS.get(ended.error_code)
        or (PlanRejected if ended.status is TurnStatus.REJECTED else None)
    )
    if error is not None:
        raise error(ended.content)
    if ended.error_code in _RETRYABLE:
        raise _RETRYABLE[ended.error_code](ended.content, retry_after=ERROR_SECONDS)
    raise AgentFailed(ended.content)


def _state(turn: Turn) -> TurnState:
    return TurnState.of(turn, usage=turn.usage or None)
