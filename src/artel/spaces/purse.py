"""Who pays for the calls of a turn."""

import asyncio
from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.budget_repository import reserve, settle
from artel.budgets.money import micros
from artel.db.engine import Database
from artel.ids import uuid7
from artel.turns.transactions import TurnOver
from artel.turns.turn_repository import TurnRepository


class BudgetPurse:
    """Pays out of budgets, of all of them for each call; raises BudgetExceeded when one has not enough left.

    `spends` is told what each call has cost, in millionths, as the budgets count it.
    """

    def __init__(
        self,
        database: Database,
        principal: Principal,
        project_id: int,
        turn_id: str,
        budgets: Sequence[str],
        spends: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._principal = principal
        self._place = project_id, turn_id
        self._budgets = list(budgets)
        self._spends = spends
        self._reserved: dict[str, int] = {}  # by calls that are being made

    async def reserve(self, amount: float) -> str:
        """Take an amount out of every budget; who is cancelled meanwhile has taken nothing."""
        name, most, loop = uuid7(), micros(amount), asyncio.get_running_loop()
        place = self._principal, name, self._budgets, *self._place
        taking = loop.create_task(self._database.run(_reserve, *place, most))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.shield(loop.create_task(self._put_back(name, taking)))
            raise
        self._reserved[name] = most
        return name

    async def _put_back(self, name: str, taking: asyncio.Task[None]) -> None:
        """Put back what is being reserved for a call that nobody makes any more."""
        await asyncio.wait({taking})
        if taking.exception() is None:
            await self._database.run(settle, self._principal, name, 0)

    async def settle(self, name: str, amount: float | None) -> None:
        """Count what a call has cost."""
        reserved = self._reserved.pop(name)
        spent = reserved if amount is None else micros(amount)
        self._spends(spent)
        await self._database.run(settle, self._principal, name, spent)


def _reserve(
    connection: Connection,
    principal: Principal,
    name: str,
    budgets: Sequence[str],
    project_id: int,
    turn_id: str,
    amount: int,
) -> None:
    """Reserve for a turn that goes on: one that has ended was settled, and nobody would settle this."""
    if not TurnRepository(connection, principal).keep_unfinished(turn_id):
        raise TurnOver
    reserve(connection, principal, name, budgets, project_id, turn_id, amount)
