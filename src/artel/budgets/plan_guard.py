"""Budget guard for the model calls of a plan."""

from collections.abc import Callable, Sequence

from artel.auth.principal import Principal
from artel.budgets.money import micros
from artel.budgets.project_guard import ProjectBudgetGuard
from artel.budgets.user_month import UserMonth
from artel.contract.approval_details import BudgetDetails
from artel.db.engine import Database
from artel.errors import BudgetExceeded
from artel.tools.consent import NeedsApproval, Question

BUDGET = "budget"
NEEDS_MICROS = "needs_micros"


class PlanBudgetGuard(ProjectBudgetGuard):
    """Reserves from a plan's budget and others; asks the user for more when the plan's is used up."""

    respects_commitments = False  # what is committed is the plan's own budget

    def __init__(
        self,
        database: Database,
        principal: Principal,
        project_id: int,
        turn_id: str,
        plan: str,
        others: Sequence[str],
        on_spent: Callable[[int], None],
        user_month: UserMonth | None = None,
    ) -> None:
        super().__init__(database, principal, project_id, turn_id, [plan, *others], on_spent, user_month)
        self._plan = plan

    async def reserve(self, amount: float) -> str:
        """Reserve an amount in every budget; raise NeedsApproval if the plan's has too little left."""
        try:
            return await super().reserve(amount)
        except BudgetExceeded as exceeded:
            if exceeded.budget_id != self._plan:
                raise
            question = Question(BUDGET, {NEEDS_MICROS: micros(amount)}, details=BudgetDetails(reason=exceeded.detail))
            raise NeedsApproval(question) from None
