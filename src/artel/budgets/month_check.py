"""Checks whether a project's monthly budget covers a plan, after what is committed to running plans."""

from dataclasses import dataclass

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.commitments import committed_micros
from artel.budgets.money import dollars
from artel.budgets.month import ensure_month_budget, monthly_limit
from artel.budgets.repository import BudgetRepository
from artel.errors import BudgetExceeded
from artel.plans.workflow import Workflow
from artel.projects.transactions import project_settings


@dataclass(frozen=True, slots=True)
class Shortage:
    """A plan may cost more than is available of the monthly budget."""

    needs_micros: int
    left_micros: int  # neither spent, nor reserved, nor committed to running plans
    is_used_up: bool  # even without commitments: no call can be paid for

    @property
    def month_left(self) -> float:
        """The available amount in dollars."""
        return dollars(self.left_micros)

    @property
    def reason(self) -> str:
        """The reason why the user is asked."""
        return (
            f"The plan may cost up to ${dollars(self.needs_micros):.4f}, but only ${self.month_left:.4f} "
            f"of the project's monthly budget is available: it may end partly done."
        )

    def refuse_if_used_up(self) -> None:
        """Raise BudgetExceeded if nothing is left of the monthly budget."""
        if self.is_used_up:
            raise BudgetExceeded(
                f"Monthly budget exceeded: the plan may cost ${dollars(self.needs_micros):.4f}, and nothing is left. "
                "Raise the budget in the project's settings."
            )


def shortage(connection: Connection, principal: Principal, workflow: Workflow, needs_micros: int) -> Shortage | None:
    """Return the shortage if the monthly budget may not cover a plan; None if it does, or has no limit.

    The lock on the budget serializes plans that start concurrently, so that each sees the commitments of the others.
    """
    limit = monthly_limit(project_settings(connection, principal, workflow.project_id))
    if limit is None or needs_micros <= 0:
        return None
    budgets = BudgetRepository(connection, principal)
    month = budgets.lock(ensure_month_budget(connection, principal, workflow.project_id, limit))
    left = max(0, month.left_micros - committed_micros(connection, principal, workflow.project_id, workflow.id))
    return Shortage(needs_micros, left, month.left_micros <= 0) if needs_micros > left else None
