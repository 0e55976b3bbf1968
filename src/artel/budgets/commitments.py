"""What is promised to the plans of a project that run: the rest of what was agreed for them."""

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.repository import BudgetRepository
from artel.plans.repository import WorkflowRepository


def promised(connection: Connection, principal: Principal, project_id: int, but_for: str | None = None) -> int:
    """Return how much that is, in millionths, without one of the workflows if it is named."""
    begun = WorkflowRepository(connection, principal).begun(project_id) - {but_for}
    if not begun:
        return 0
    return sum(max(0, one.left_micros) for one in BudgetRepository(connection, principal).of_plans(project_id, begun))
