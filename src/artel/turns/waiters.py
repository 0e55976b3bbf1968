"""How turns ended, and the requests of this process that wait for the end of one."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection

from artel.attachments.repository import StoredAttachment
from artel.auth.principal import Principal
from artel.contract.chat import ContextItem, UsageShown
from artel.errors import TurnNotOver
from artel.plans.repository import WorkflowRepository
from artel.sessions.message_repository import MessageRepository
from artel.turns.repository import TurnRepository
from artel.turns.turn import Mode, Turn, TurnStatus


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished turn: its answer, or its error."""

    session_id: str
    turn_id: str
    mode: Mode
    status: TurnStatus
    message_id: str  # empty if there is none
    agent_id: int | None
    agent: str | None
    content: str
    context: Sequence[ContextItem]  # memories in the prompt
    usage: UsageShown | None
    duration_ms: int
    error_code: str | None
    waited_ms: int = 0  # of the duration, for decisions of the user


def read_turn(
    connection: Connection, principal: Principal, session_id: str, turn_id: str
) -> tuple[TurnStatus, Ended | None]:
    """Return the status of a turn, and its end if it is finished."""
    turn = TurnRepository(connection, principal).get(session_id, turn_id)
    if not turn.status.is_terminal:
        return turn.status, None
    message = MessageRepository(connection, principal).answer_to(session_id, turn_id)
    ended = Ended(
        session_id=session_id,
        turn_id=turn_id,
        mode=turn.mode,
        status=turn.status,
        message_id=message.id if message else "",
        agent_id=message.agent_id if message else turn.agent_id,
        agent=message.agent if message else None,
        content=message.content if message else "",
        context=turn.context or (),
        usage=turn.usage,
        duration_ms=turn.duration_ms,
        error_code=turn.error_code,
    )
    return turn.status, ended


def get_turn(connection: Connection, principal: Principal, session_id: str, turn_id: str) -> Turn:
    return TurnRepository(connection, principal).get(session_id, turn_id)


@dataclass(frozen=True, slots=True)
class Repeated:
    """The message of a finished turn, which is sent again."""

    content: str
    turn: Turn
    attachments: tuple[StoredAttachment, ...] = ()


def message_to_repeat(connection: Connection, principal: Principal, session_id: str, turn_id: str) -> Repeated:
    """Return the message of a finished turn, for a retry."""
    turn = TurnRepository(connection, principal).get(session_id, turn_id)
    if not turn.status.is_terminal:
        raise TurnNotOver("The turn is still running. Cancel it first, or wait for its end.")
    if question := MessageRepository(connection, principal).question_of(session_id, turn_id):
        return Repeated(question.content, turn, question.attachments)
    if workflow := WorkflowRepository(connection, principal).of_turn(turn_id):  # it retried the plan of an earlier turn
        return Repeated(workflow.request, turn)
    if turn.continues:
        raise TurnNotOver("This turn goes on with an earlier answer. Retry the turn of that answer, or continue again.")
    raise TurnNotOver("This turn has no message of its own. Send the message again.")


@dataclass(eq=False, slots=True)
class Waiter:
    """A request that waits for the end of a turn; `changed` is set when it should look at the other fields."""

    session_id: str
    runs_here: bool
    ended: Ended | None = None
    gone: Exception | None = None
    parked: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class TurnWaiters:
    """The requests of this process that wait for the end of a turn."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[Waiter]] = {}
        self.closed = False

    @contextmanager
    def waiter(self, turn: Turn, *, runs_here: bool) -> Iterator[Waiter]:
        waiter = Waiter(turn.session_id, runs_here)
        waiters = self._waiting.setdefault(turn.id, set())
        waiters.add(waiter)
        try:
            yield waiter
        finally:
            waiters.discard(waiter)
            if not waiters:
                self._waiting.pop(turn.id, None)

    def tell(self, ended: Ended) -> None:
        """Wake those who wait for this turn."""
        for waiter in self._wake(ended.turn_id):
            waiter.ended = waiter.ended or ended

    def give_up(self, turn_id: str, reason: Exception) -> None:
        """Raise the error at those who wait for a turn that was deleted."""
        for waiter in self._wake(turn_id):
            waiter.gone = reason

    def parked(self, turn_id: str) -> None:
        """Wake those who wait for a turn that is parked for the user."""
        for waiter in self._wake(turn_id):
            waiter.parked = True

    def _wake(self, turn_id: str) -> Iterable[Waiter]:
        waiters = self._waiting.get(turn_id, set())
        for waiter in waiters:
            waiter.changed.set()
        return waiters

    def session_changed(self, session_id: str) -> None:
        """Wake those who wait for turns of a session that another process runs, to poll."""
        for waiters in self._waiting.values():
            for waiter in waiters:
                if waiter.session_id == session_id and not waiter.runs_here:
                    waiter.changed.set()

    def stop_waiting(self) -> None:
        """Wake everybody at shutdown: unfinished turns go on after the next start."""
        self.closed = True
        for waiters in self._waiting.values():
            for waiter in waiters:
                waiter.changed.set()
