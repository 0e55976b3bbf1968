"""Money committed to a project's running plans: the unspent rest of their budgets."""

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.repository import BudgetRepository
from artel.plans.repository import WorkflowRepository


def committed_micros(
    connection: Connection, principal: Principal, project_id: int, excluded_workflow_id: str | None = None
) -> int:
    """Return the amount in micros committed to the project's running plans, without the excluded workflow."""
    running = WorkflowRepository(connection, principal).begun(project_id) - {excluded_workflow_id}
    if not running:
        return 0
    budgets = BudgetRepository(connection, principal).of_plans(project_id, running)
    return sum(max(0, budget.left_micros) for budget in budgets)
