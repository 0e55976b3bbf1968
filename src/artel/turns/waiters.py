"""How turns end, for those who wait for it."""

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

LOOK_SECONDS = 1.0
SELDOM_SECONDS = 5.0  # where whoever runs the turn tells us anyway


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn with its end: the answer, or what went wrong."""

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
    """Return how a turn ended; None while it goes on."""
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
    """Return the message of a turn that has ended, and the turn, to be sent again."""
    turn = TurnRepository(connection, principal).get(session_id, turn_id)
    if not turn.status.is_terminal:
        raise TurnNotOver("The turn goes on. Cancel it first, or wait for its end.")
    if question := MessageRepository(connection, principal).question_of(session_id, turn_id):
        return question.content, turn
    if workflow := WorkflowRepository(connection, principal).of_turn(turn_id):  # it took up an earlier turn's plan
        return workflow.request, turn
    raise TurnNotOver("This turn has no message of its own. Send the message again.")


@dataclass(eq=False, slots=True)
class _Waiter:
    session_id: str
    runs_here: bool
    ended: Ended | None = None
    gone: Exception | None = None
    parked: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        """Wait for news, but not for long."""
        try:
            async with asyncio.timeout(SELDOM_SECONDS if self.runs_here else LOOK_SECONDS):
                await self.news.wait()
        except TimeoutError:
            return


class TurnWaiters:
    """Those who wait for the end of turns in this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[_Waiter]] = {}
        self._closed = False

    def tell(self, ended: Ended) -> None:
        """Say how a turn ended."""
        for waiter in self._waiting.get(ended.turn_id, ()):
            waiter.ended = waiter.ended or ended
            waiter.news.set()

    def give_up(self, turn_id: str, reason: Exception) -> None:
        """Say that a turn has no end that could be told: it was deleted."""
        for waiter in self._waiting.get(turn_id, ()):
            waiter.gone = reason
            waiter.news.set()

    def parked(self, turn_id: str) -> None:
        """Say that a turn waits for a person: nobody else should wait for it."""
        for waiter in self._waiting.get(turn_id, ()):
            waiter.parked = True
            waiter.news.set()

    def session_changed(self, session_id: str) -> None:
        """Let those look again who wait for turns of the session, which another process runs."""
        for waiters in self._waiting.values():
            for waiter in waiters:
                if waiter.session_id == session_id and not waiter.runs_here:
                    waiter.news.set()

    def let_go(self) -> None:
        """Let nobody wait any more: what has not ended goes on after the next start."""
        self._closed = True
        for waiters in self._waiting.values():
            for waiter in waiters:
                waiter.news.set()

    async def wait(
        self, principal: Principal, session_id: str, turn_id: str, seconds: float, *, runs_here: bool
    ) -> Ended | None:
        """Return how a turn ends, or None if it goes on for longer; whoever runs it here says so by `tell`.

        The database is asked all the same, now and then: a space that is here may be lost to another process.
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
            waiter.news.clear()
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
        except DatabaseUnavailable:  # whoever waits has patience: it may be back in time
            return None, False


def _ended_or_waiting(
    connection: Connection, principal: Principal, session_id: str, turn_id: str
) -> tuple[Ended | None, bool]:
    ended = read_ended(connection, principal, session_id, turn_id)
    waits = TurnRepository(connection, principal).get(session_id, turn_id).status is TurnStatus.WAITING
    return ended, waits
