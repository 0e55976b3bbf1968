"""A user whose model calls are reserved from a budget."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection, text

from artel.budgets.guard import TurnBudgetGuard
from artel.budgets.month import Month
from artel.budgets.repository import Budget, BudgetRepository
from artel.ids import uuid7
from tests.actors.chat_user import ChatUser
from tests.deadlines import FIRST_POLL_SECONDS

DOLLAR = 1_000_000


class Payer(ChatUser):
    """A user with a turn whose calls are reserved."""

    session_id: str
    turn_id: str
    month: str

    async def begin(self) -> TurnBudgetGuard:
        """Start a turn and return the budget guard of its calls."""
        self.session_id = await self.session()
        self.turn_id = (await self.accept(self.session_id)).id
        assert await self.start(self.session_id, self.turn_id)
        budget = Budget(uuid7(), self.project_id, "month", "2026-01", DOLLAR, 0, 0)
        await self.database.run(lambda c: BudgetRepository(c, self.user).add(budget))
        self.month = budget.id
        turn = await self.turn(self.session_id, self.turn_id)
        return TurnBudgetGuard(self.database.of(self.user), turn, Month(budget.id, None))

    async def stands(self) -> tuple[int, int]:
        """Return what is spent and what is reserved."""
        found = await self.database.read(lambda c: BudgetRepository(c, self.user).get(self.month))
        assert found is not None
        return found.spent_micros, found.reserved_micros

    @asynccontextmanager
    async def held(self, step: Callable[[Connection], object]) -> AsyncIterator[Callable[[], None]]:
        """Make a step whose transaction is committed when it is released, at the end at the latest."""
        loop, done, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def transaction(connection: Connection) -> None:
            step(connection)
            loop.call_soon_threadsafe(done.set)
            assert release.wait(60)

        running = loop.create_task(self.database.run(transaction))
        await done.wait()
        try:
            yield release.set
        finally:
            release.set()
            await running

    async def is_waiting(self) -> bool:
        """Return whether a transaction waits for another one."""
        if self.database.is_sqlite:
            return True  # they all wait for the one that writes
        query = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(await self.database.read(lambda c: c.execute(query).scalar_one()))

    async def has_done_or_waits(self, step: "asyncio.Future[Any]") -> None:
        """Wait until a step is made, or waits for another transaction."""
        await asyncio.sleep(0)
        while not step.done() and not await self.is_waiting():
            await asyncio.wait({step}, timeout=FIRST_POLL_SECONDS)
