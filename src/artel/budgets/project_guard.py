"""Who pays for the calls of a turn."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.commitments import promised
from artel.budgets.money import dollars, micros
from artel.budgets.repository import BudgetRepository, reserve, settle
from artel.budgets.user_month import UserMonth
from artel.db.engine import Database
from artel.errors import BudgetExceeded
from artel.ids import uuid7
from artel.turns.repository import TurnRepository
from artel.turns.transactions import TurnOver


class ProjectBudgetGuard:
    """Pays out of budgets, of all of them for each call; raises BudgetExceeded when one has not enough left.

    What is promised to plans that run is not there for others. `spends` is told what each call has cost, in millionths,
    as the budgets count it.
    """

    keeps_promises: ClassVar[bool] = True

    def __init__(
        self,
        database: Database,
        principal: Principal,
        project_id: int,
        turn_id: str,
        budgets: Sequence[str],
        spends: Callable[[int], None] = lambda _: None,
        user_month: UserMonth | None = None,
    ) -> None:
        self._database = database
        self._principal = principal
        self._place = project_id, turn_id
        self._budgets = list(budgets)
        self._spends = spends
        self._user_month = user_month
        self._reserved: dict[str, int] = {}  # by calls that are being made

    async def reserve(self, amount: float) -> str:
        """Take an amount out of every budget; who is cancelled meanwhile has taken nothing."""
        name, most, loop = uuid7(), micros(amount), asyncio.get_running_loop()
        wanted = _Wanted(name, self._budgets, *self._place, most, self._user_month)
        taking = loop.create_task(self._database.run(_reserve, self._principal, wanted, self.keeps_promises))
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


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a call may cost, and what pays for it."""

    name: str
    budgets: Sequence[str]
    project_id: int
    turn_id: str
    amount: int
    user_month: UserMonth | None


def _reserve(connection: Connection, principal: Principal, wanted: _Wanted, keeps_promises: bool) -> None:
    """Reserve for a turn that goes on: one that has ended was settled, and nobody would settle this."""
    if not TurnRepository(connection, principal).keep_unfinished(wanted.turn_id):
        raise TurnOver
    place = wanted.name, wanted.budgets, wanted.project_id, wanted.turn_id
    reserve(connection, principal, *place, wanted.amount, wanted.user_month)
    if keeps_promises:
        _keep_promises(connection, principal, wanted.budgets, wanted.project_id, wanted.amount)


def _keep_promises(
    connection: Connection, principal: Principal, budgets: Sequence[str], project_id: int, amount: int
) -> None:
    """Raise BudgetExceeded if less is left now than the plans that run may still spend.

    Plans that begin wait for the budgets, which this transaction has changed: the one who comes second knows of the
    first.
    """
    kept = promised(connection, principal, project_id)
    for budget_id in budgets if kept else ():
        budget = BudgetRepository(connection, principal).get(budget_id)
        if budget is not None and budget.left_micros < kept:
            free, whole = max(0, budget.left_micros + amount - kept), budget.limit_micros
            raise BudgetExceeded(
                f"The next call may cost ${dollars(amount):.4f}, and of the ${dollars(whole):.2f} for the project in "
                f"{budget.scope} only ${dollars(free):.4f} are left beside what is promised to plans that run.",
                budget_id=budget_id,
            )
