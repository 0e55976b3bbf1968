"""Budget guards for the model calls of a turn and of a plan."""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from sqlalchemy import Connection

from artel import kill_points
from artel.auth.principal import Principal
from artel.budgets.money import dollars, micros
from artel.budgets.month import Month, committed_micros
from artel.budgets.repository import BudgetRepository, Reservation, UserMonth, reserve, settle
from artel.contract.approvals import BudgetDetails
from artel.db.engine import Database
from artel.errors import BudgetExceeded
from artel.ids import uuid7
from artel.tools.consent import NeedsApproval, Question
from artel.turns.repository import TurnRepository
from artel.turns.transactions import TurnOver

BUDGET = "budget"
NEEDS_MICROS = "needs_micros"


class ProjectBudgetGuard:
    """Reserves each call's cost in all of its budgets; raises BudgetExceeded when one has too little left.

    Money committed to running plans is not available to other turns. `on_spent` is called with the cost of each call
    in micros.
    """

    respects_commitments: ClassVar[bool] = True

    def __init__(
        self,
        database: Database,
        principal: Principal,
        project_id: int,
        turn_id: str,
        budgets: Sequence[str],
        on_spent: Callable[[int], None] = lambda _: None,
        user_month: UserMonth | None = None,
    ) -> None:
        self._database = database
        self._principal = principal
        self._project_id = project_id
        self._turn_id = turn_id
        self._budgets = list(budgets)
        self._on_spent = on_spent
        self._user_month = user_month
        self._reserved: dict[str, int] = {}  # by call id

    async def reserve(self, amount: float) -> str:
        """Reserve an amount in every budget and return the call id; undo the reservation if cancelled meanwhile."""
        call_id, max_cost, loop = uuid7(), micros(amount), asyncio.get_running_loop()
        reservation = Reservation(call_id, self._budgets, self._project_id, self._turn_id, max_cost, self._user_month)
        task = loop.create_task(self._database.run(_reserve, self._principal, reservation, self.respects_commitments))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.shield(loop.create_task(self._release(call_id, task)))
            raise
        self._reserved[call_id] = max_cost
        return call_id

    async def _release(self, call_id: str, task: asyncio.Task[None]) -> None:
        """Wait for the reservation of a cancelled call, then release it."""
        await asyncio.wait({task})
        if task.exception() is None:
            await self._database.run(settle, self._principal, call_id, 0)

    async def settle(self, call_id: str, amount: float | None) -> None:
        """Replace a call's reservation with its cost; None (unknown) counts the whole reservation."""
        reserved = self._reserved.pop(call_id)
        spent = reserved if amount is None else micros(amount)
        self._on_spent(spent)
        await self._database.run(settle, self._principal, call_id, spent)


@kill_points.transaction("money.reserve")
def _reserve(
    connection: Connection, principal: Principal, reservation: Reservation, respects_commitments: bool
) -> None:
    """Reserve for an unfinished turn; raise TurnOver if it has ended, because nobody would settle the reservation."""
    if not TurnRepository(connection, principal).keep_unfinished(reservation.turn_id):
        raise TurnOver
    reserve(connection, principal, reservation)
    if respects_commitments:
        _check_commitments(connection, principal, reservation)


def _check_commitments(connection: Connection, principal: Principal, reservation: Reservation) -> None:
    """Raise BudgetExceeded if less is left than is committed to running plans.

    This transaction has already locked the budgets by updating them, so a plan that starts concurrently waits for it.
    """
    committed = committed_micros(connection, principal, reservation.project_id)
    for budget_id in reservation.budget_ids if committed else ():
        budget = BudgetRepository(connection, principal).get(budget_id)
        if budget is not None and budget.left_micros < committed:
            available = max(0, budget.left_micros + reservation.micros - committed)
            raise BudgetExceeded(
                f"Monthly budget exceeded: the next call may cost ${dollars(reservation.micros):.4f}, and "
                f"${dollars(available):.4f} of ${dollars(budget.limit_micros):.2f} for {budget.scope} is available "
                "(the rest is spent or committed to running plans). Raise the budget in the project's settings.",
                budget_id=budget_id,
            )


class PlanBudgetGuard(ProjectBudgetGuard):
    """Reserves from a plan's budget and others; asks the user for more when the plan's is used up."""

    respects_commitments = False  # what is committed is the plan's own budget

    def __init__(
        self,
        database: Database,
        principal: Principal,
        project_id: int,
        turn_id: str,
        budget_id: str,
        month: Month | None,
        on_spent: Callable[[int], None],
    ) -> None:
        budgets = [budget_id, month.budget_id] if month else [budget_id]
        user_month = month.user if month else None
        super().__init__(database, principal, project_id, turn_id, budgets, on_spent, user_month)
        self._budget_id = budget_id

    async def reserve(self, amount: float) -> str:
        """Reserve an amount in every budget; raise NeedsApproval if the plan's has too little left."""
        try:
            return await super().reserve(amount)
        except BudgetExceeded as exceeded:
            if exceeded.budget_id != self._budget_id:
                raise
            question = Question(BUDGET, {NEEDS_MICROS: micros(amount)}, details=BudgetDetails(reason=exceeded.detail))
            raise NeedsApproval(question) from None
