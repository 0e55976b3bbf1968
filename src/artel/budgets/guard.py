"""The budget guard of a turn's model calls."""

import asyncio
from collections.abc import Callable

from artel import kill_points
from artel.budgets.money import dollars, micros
from artel.budgets.month import Month, committed_micros
from artel.budgets.repository import BudgetRepository, Reservation, reserve, settle
from artel.contract.approvals import BudgetDetails
from artel.db.engine import UserDatabase
from artel.db.tx import Tx
from artel.errors import BudgetExceeded
from artel.ids import uuid7
from artel.tools.consent import NeedsApproval, Question
from artel.turns.repository import TurnRepository
from artel.turns.transactions import TurnOver
from artel.turns.turn import Turn

BUDGET = "budget"
NEEDS_MICROS = "needs_micros"


class TurnBudgetGuard:
    """Reserves each call's cost in all budgets of a turn; raises BudgetExceeded when one has too little left.

    With a plan's budget, NeedsApproval is raised when that one has too little left. Without, money committed to
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
        call_id, max_cost, loop = uuid7(), micros(amount), asyncio.get_running_loop()
        ids = self._turn.project_id, self._turn.id
        reservation = Reservation(call_id, self._budget_ids, *ids, max_cost, self._user_month)
        # What is committed to plans includes the plan's own budget.
        respects_commitments = self._plan_budget_id is None
        task = loop.create_task(self._database.run(_reserve, reservation, respects_commitments))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.shield(loop.create_task(self._release(call_id, task)))
            raise
        except BudgetExceeded as exceeded:
            if self._plan_budget_id is None or exceeded.budget_id != self._plan_budget_id:
                raise
            question = Question(BUDGET, {NEEDS_MICROS: max_cost}, details=BudgetDetails(reason=exceeded.detail))
            raise NeedsApproval(question) from None
        self._reserved[call_id] = max_cost
        return call_id

    async def _release(self, call_id: str, task: asyncio.Task[None]) -> None:
        """Wait for the reservation of a cancelled call, then release it."""
        await asyncio.wait({task})
        if task.exception() is None:
            await self._database.run(settle, call_id, 0)

    async def settle(self, call_id: str, amount: float | None) -> None:
        """Replace a call's reservation with its cost; None (unknown) counts the whole reservation."""
        reserved = self._reserved.pop(call_id)
        spent = reserved if amount is None else micros(amount)
        self._on_spent(spent)
        await self._database.run(settle, call_id, spent)


@kill_points.transaction("money.reserve")
def _reserve(tx: Tx, reservation: Reservation, respects_commitments: bool) -> None:
    """Reserve for an unfinished turn; raise TurnOver if it has ended, because nobody would settle the reservation."""
    if TurnRepository(tx).lock_unfinished(reservation.turn_id) is None:
        raise TurnOver
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
