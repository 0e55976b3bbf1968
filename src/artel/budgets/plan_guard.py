"""Who pays for the calls of a plan."""

from collections.abc import Callable, Sequence

from artel.auth.principal import Principal
from artel.budgets.money import micros
from artel.budgets.project_guard import ProjectBudgetGuard
from artel.budgets.user_month import UserMonth
from artel.db.engine import Database
from artel.errors import BudgetExceeded
from artel.tools.consent import NeedsApproval, Question

BUDGET = "budget"
NEEDS_MICROS = "needs_micros"


class PlanBudgetGuard(ProjectBudgetGuard):
    """Pays out of a plan's budget, and others; when the plan's is used up the user is asked for more."""

    keeps_promises = False  # what is promised is its own

    def __init__(
        self,
        database: Database,
        principal: Principal,
        project_id: int,
        turn_id: str,
        plan: str,
        others: Sequence[str],
        spends: Callable[[int], None],
        user_month: UserMonth | None = None,
    ) -> None:
        super().__init__(database, principal, project_id, turn_id, [plan, *others], spends, user_month)
        self._plan = plan

    async def reserve(self, amount: float) -> str:
        """Take an amount out of every budget."""
        try:
            return await super().reserve(amount)
        except BudgetExceeded as short:
            if short.budget_id != self._plan:
                raise
            question = Question(BUDGET, {NEEDS_MICROS: micros(amount)}, details={"reason": short.detail})
            raise NeedsApproval(question) from None
