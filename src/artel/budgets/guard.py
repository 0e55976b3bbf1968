"""The budget guard of a turn's model calls."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from artel import kill_points
from artel.budgets.money import dollars, micros
from artel.budgets.month import Month, committed_micros
from artel.budgets.repository import (
    BudgetRepository,
    Reservation,
    ReservationRepository,
    UserBudgetRepository,
    left_of_user,
    reserve,
    settle,
)
from artel.db.engine import UserDatabase
from artel.db.tx import Tx
from artel.errors import BudgetExceeded
from artel.ids import uuid7
from artel.tools.consent import NeedsBudget
from artel.turns.repository import TurnRepository
from artel.turns.transactions import TurnOver
from artel.turns.turn import Turn


class TurnBudgetGuard:
    """Reserves each call's cost in all budgets of a turn; raises BudgetExceeded when one has too little left.

    With a plan's budget, NeedsBudget is raised when that one has too little left. Without, money committed to
    running plans is not available. `on_spent` is called with the cost of each call in micros.
    """

    def __init__(
        self,
        database: UserDatabase,
        turn: Turn,
        month: Month | None,
        on_spent: Callable[[int], None] = lambda _: None,
        plan_budget_id: str | None = None,
    ) -> None:
        self._database = database
        self._turn = turn
        self._budget_ids = [budget_id for budget_id in (plan_budget_id, month and month.budget_id) if budget_id]
        self._user_month = month.user if month else None
        self._on_spent = on_spent
        self._plan_budget_id = plan_budget_id
        self._reserved: dict[str, int] = {}  # by call id

    async def reserve(self, amount: float) -> str:
        """Reserve an amount in every budget and return the call id; undo the reservation if cancelled meanwhile."""
        call_id = uuid7()
        await self._reserve(call_id, micros(amount), _reserve)
        return call_id

    async def reserve_at_most(self, call_id: str, most: float, least: float) -> float:
        """Reserve as much as every budget has left, from `least` to `most`, and return it.

        A call that was reserved for before keeps its reservation: the host that made it may have crashed.
        """
        reserve = partial(_reserve_at_most, least=min(micros(least), micros(most)))
        return dollars(await self._reserve(call_id, micros(most), reserve))

    async def expect(self, call_id: str, most: float) -> float:
        """Reserve nothing for a call that is free or has no known price, and return what it may cost: what is left.

        No budget refuses it, but what it costs all the same, as a fallback model may, is charged. Since nothing is
        reserved, calls at the same time may each cost what is left.
        """
        if not self._budget_ids:
            return most
        reservation = Reservation(call_id, self._budget_ids, self._turn.project_id, self._turn.id, 0, self._user_month)
        left = await self._database.run(_expect, reservation, self._plan_budget_id is None)
        return max(0.0, min(most, dollars(left)))

    async def _reserve(self, call_id: str, max_cost: int, transaction: Callable[[Tx, Reservation, bool], int]) -> int:
        loop, ids = asyncio.get_running_loop(), (self._turn.project_id, self._turn.id)
        reservation = Reservation(call_id, self._budget_ids, *ids, max_cost, self._user_month)
        # What is committed to plans includes the plan's own budget.
        respects_commitments = self._plan_budget_id is None
        task = loop.create_task(self._database.run(transaction, reservation, respects_commitments))
        try:
            reserved = await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.shield(loop.create_task(self._release(call_id, task)))
            raise
        except BudgetExceeded as exceeded:
            if self._plan_budget_id is None or exceeded.budget_id != self._plan_budget_id:
                raise
            raise NeedsBudget(max_cost) from None
        self._reserved[call_id] = reserved
        return reserved

    async def _release(self, call_id: str, task: asyncio.Task[int]) -> None:
        """Wait for the reservation of a cancelled call, then release it."""
        await asyncio.wait({task})
        if task.exception() is None:
            await self._database.run(settle, call_id, 0)

    async def settle(self, call_id: str, amount: float | None) -> None:
        """Replace a call's reservation with its cost; None (unknown) counts the whole reservation.

        It may be the reservation of a host that crashed.
        """
        reserved = self._reserved.pop(call_id, None)
        spent = reserved if amount is None else micros(amount)
        self._on_spent(spent or 0)
        await self._database.run(settle, call_id, spent)


class PrepaidBudgetGuard:
    """Pays the most that a call may cost before it is made, and takes back what it did not cost.

    For calls outside of turns: a reservation without a turn would stay forever if the process crashes.
    """

    def __init__(self, database: UserDatabase, project_id: int, month: Month) -> None:
        self._database = database
        self._project_id = project_id
        self._month = month
        self._paid: dict[str, int] = {}  # by call id

    async def reserve(self, amount: float) -> str:
        """Pay an amount and return the call id; raise BudgetExceeded if a budget has too little left."""
        call_id, paid = uuid7(), micros(amount)
        reservation = Reservation(call_id, [self._month.budget_id], self._project_id, "", paid, self._month.user)
        await self._database.run(_prepay, reservation)
        self._paid[call_id] = paid
        return call_id

    async def settle(self, call_id: str, amount: float | None) -> None:
        """Take back what the call did not cost; None (unknown) takes back nothing."""
        paid = self._paid.pop(call_id, 0)
        if amount is not None:
            await self._database.run(_correct, self._month, micros(amount) - paid)


def _prepay(tx: Tx, reservation: Reservation) -> None:
    _reserve_in_budgets(tx, reservation, respects_commitments=True)
    settle(tx, reservation.call_id, None)


def _correct(tx: Tx, month: Month, difference: int) -> None:
    BudgetRepository(tx).settle(month.budget_id, 0, difference)
    if month.user is not None:
        UserBudgetRepository(tx).spend({month.user.scope: difference})


@kill_points.transaction("money.reserve")
def _reserve(tx: Tx, reservation: Reservation, respects_commitments: bool) -> int:
    """Reserve for an unfinished turn and return the amount.

    Raise TurnOver if it has ended, because nobody would settle the reservation.
    """
    if TurnRepository(tx).lock_unfinished(reservation.turn_id) is None:
        raise TurnOver
    return _reserve_in_budgets(tx, reservation, respects_commitments=respects_commitments)


def _reserve_in_budgets(tx: Tx, reservation: Reservation, *, respects_commitments: bool) -> int:
    reserve(tx, reservation)
    # The budgets are locked now, because they were updated: a plan that starts concurrently waits for this transaction.
    committed = committed_micros(tx, reservation.project_id) if respects_commitments else 0
    for budget_id in reservation.budget_ids if committed else ():
        budget = BudgetRepository(tx).get(budget_id)
        if budget is not None and budget.left_micros < committed:
            available = max(0, budget.left_micros + reservation.micros - committed)
            raise BudgetExceeded(
                f"Monthly budget exceeded: the next call may cost ${dollars(reservation.micros):.4f}, and "
                f"${dollars(available):.4f} of ${dollars(budget.limit_micros):.2f} for {budget.scope} is available "
                "(the rest is spent or committed to running plans). Raise the budget in the project's settings.",
                budget_id=budget_id,
            )
    return reservation.micros


def _expect(tx: Tx, reservation: Reservation, respects_commitments: bool) -> int:
    """Store a reservation of nothing, which makes the settlement find the budgets, and only once; return what is left.

    Raise TurnOver.
    """
    if TurnRepository(tx).lock_unfinished(reservation.turn_id) is None:
        raise TurnOver
    left = _left(tx, reservation, respects_commitments)
    rows = ReservationRepository(tx)
    if rows.amount_of(reservation.call_id) is None:
        rows.add(reservation)
    return left


def _reserve_at_most(tx: Tx, reservation: Reservation, respects_commitments: bool, *, least: int) -> int:
    """Reserve what is left, from `least` to the reservation's amount, and return it."""
    if (reserved := ReservationRepository(tx).amount_of(reservation.call_id)) is not None:
        return reserved
    if TurnRepository(tx).lock_unfinished(reservation.turn_id) is None:
        raise TurnOver
    amount = max(least, min(reservation.micros, _left(tx, reservation, respects_commitments)))
    return _reserve(tx, replace(reservation, micros=amount), respects_commitments)


def _left(tx: Tx, reservation: Reservation, respects_commitments: bool) -> int:
    """Lock the budgets of a call and return what the one with the least has left."""
    # Locked in the order of `_reserve`: budgets, then the user's month.
    left = min(BudgetRepository(tx).lock(budget_id).left_micros for budget_id in reservation.budget_ids)
    left -= committed_micros(tx, reservation.project_id) if respects_commitments else 0
    return left if reservation.user_month is None else min(left, left_of_user(tx, reservation.user_month))
