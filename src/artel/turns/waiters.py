"""How turns ended, and the requests of this process that wait for the end of one."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.db.engine import Database
from artel.errors import DatabaseUnavailable, TurnNotOver
from artel.plans.repository import WorkflowRepository
from artel.sessions.message_repository import MessageRepository
from artel.turns.repository import TurnRepository
from artel.turns.turn import Mode, Turn, TurnStatus

POLL_SECONDS = 1.0
LOCAL_POLL_SECONDS = 5.0  # of a turn that runs in this process, which notifies its waiters


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished turn: its answer, or its error."""

    session_id: str
    turn_id: str
    mode: Mode
    status: TurnStatus
    message_id: str | None
    agent_id: int | None
    agent: str | None
    content: str
    context: list[dict[str, Any]]
    usage: dict[str, Any]
    duration_ms: int
    error_code: str | None


def read_ended(connection: Connection, principal: Principal, session_id: str, turn_id: str) -> Ended | None:
    """Return a finished turn; None while it is unfinished."""
    turn = TurnRepository(connection, principal).get(session_id, turn_id)
    if not turn.status.is_terminal:
        return None
    message = MessageRepository(connection, principal).answer_to(session_id, turn_id)
    return Ended(
        session_id=session_id,
        turn_id=turn_id,
        mode=turn.mode,
        status=turn.status,
        message_id=message.id if message else None,
        agent_id=message.agent_id if message else turn.agent_id,
        agent=message.agent if message else None,
        content=message.content if message else "",
        context=turn.context or [],
        usage=turn.usage or {},
        duration_ms=turn.duration_ms,
        error_code=turn.error_code,
    )


def get_turn(connection: Connection, principal: Principal, session_id: str, turn_id: str) -> Turn:
    """Return one turn."""
    return TurnRepository(connection, principal).get(session_id, turn_id)


def message_to_repeat(connection: Connection, principal: Principal, session_id: str, turn_id: str) -> tuple[str, Turn]:
    """Return the message of a finished turn and the turn, for a retry."""
    turn = TurnRepository(connection, principal).get(session_id, turn_id)
    if not turn.status.is_terminal:
        raise TurnNotOver("The turn is still running. Cancel it first, or wait for its end.")
    if question := MessageRepository(connection, principal).question_of(session_id, turn_id):
        return question.content, turn
    if workflow := WorkflowRepository(connection, principal).of_turn(turn_id):  # it retried the plan of an earlier turn
        return workflow.request, turn
    raise TurnNotOver("This turn has no message of its own. Send the message again.")


@dataclass(eq=False, slots=True)
class _Waiter:
    session_id: str
    runs_here: bool
    ended: Ended | None = None
    gone: Exception | None = None
    parked: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        """Wait for a change, or until it is time to poll the database."""
        try:
            async with asyncio.timeout(LOCAL_POLL_SECONDS if self.runs_here else POLL_SECONDS):
                await self.changed.wait()
        except TimeoutError:
            return


class TurnWaiters:
    """The requests of this process that wait for the end of a turn."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[_Waiter]] = {}
        self._closed = False

    def tell(self, ended: Ended) -> None:
        """Wake those who wait for this turn."""
        for waiter in self._waiting.get(ended.turn_id, ()):
            waiter.ended = waiter.ended or ended
            waiter.changed.set()

    def give_up(self, turn_id: str, reason: Exception) -> None:
        """Raise the error at those who wait for a turn that was deleted."""
        for waiter in self._waiting.get(turn_id, ()):
            waiter.gone = reason
            waiter.changed.set()

    def parked(self, turn_id: str) -> None:
        """Wake those who wait for a turn that is parked for the user."""
        for waiter in self._waiting.get(turn_id, ()):
            waiter.parked = True
            waiter.changed.set()

    def session_changed(self, session_id: str) -> None:
        """Wake those who wait for turns of a session that another process runs, to poll."""
        for waiters in self._waiting.values():
            for waiter in waiters:
                if waiter.session_id == session_id and not waiter.runs_here:
                    waiter.changed.set()

    def let_go(self) -> None:
        """Wake everybody at shutdown: unfinished turns go on after the next start."""
        self._closed = True
        for waiters in self._waiting.values():
            for waiter in waiters:
                waiter.changed.set()

    async def wait(
        self, principal: Principal, session_id: str, turn_id: str, seconds: float, *, runs_here: bool
    ) -> Ended | None:
        """Return the finished turn, or None after `seconds`.

        The database is polled even if the turn runs here: another process may take the space over.
        """
        waiter = _Waiter(session_id, runs_here)
        self._waiting.setdefault(turn_id, set()).add(waiter)
        try:
            async with asyncio.timeout(seconds):
                return await self._look(principal, turn_id, waiter)
        except TimeoutError:
            return None
        finally:
            waiters = self._waiting[turn_id]
            waiters.discard(waiter)
            if not waiters:
                del self._waiting[turn_id]

    async def _look(self, principal: Principal, turn_id: str, waiter: _Waiter) -> Ended | None:
        look = not waiter.runs_here
        while waiter.ended is None and not waiter.parked:
            if waiter.gone is not None:
                raise waiter.gone
            waiter.changed.clear()
            if look or self._closed:
                ended, waits = await self._read(principal, waiter.session_id, turn_id)
                if ended is not None or waits or self._closed:
                    return ended
            await waiter.wait()
            look = True
        return waiter.ended

    async def _read(self, principal: Principal, session_id: str, turn_id: str) -> tuple[Ended | None, bool]:
        try:
            return await self._database.read(_ended_or_waiting, principal, session_id, turn_id)
        except DatabaseUnavailable:  # it may be back before the deadline
            return None, False


def _ended_or_waiting(
    connection: Connection, principal: Principal, session_id: str, turn_id: str
) -> tuple[Ended | None, bool]:
    ended = read_ended(connection, principal, session_id, turn_id)
    waits = TurnRepository(connection, principal).get(session_id, turn_id).status is TurnStatus.WAITING
    return ended, waits
