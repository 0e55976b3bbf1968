"""Whether a project's month can pay for a plan, beside what was promised to the plans that run."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.commitments import promised
from artel.budgets.money import dollars
from artel.budgets.month import month_of, monthly_limit
from artel.budgets.repository import BudgetRepository
from artel.errors import BudgetExceeded
from artel.plans.workflow import Workflow
from artel.projects.service import project_settings


@dataclass(frozen=True, slots=True)
class Shortage:
    """A plan may need more than is left of the month."""

    needs_micros: int
    left_micros: int  # neither spent, nor reserved, nor promised
    is_used_up: bool  # whatever is promised: no call can be paid for

    @property
    def details(self) -> dict[str, Any]:
        """What the user is told with the plan."""
        return {
            "month_left": dollars(self.left_micros),
            "reason": (
                f"The plan may still cost ${dollars(self.needs_micros):.4f}, and of the project's month "
                f"${dollars(self.left_micros):.4f} are left that no other plan was promised: it may end partly done."
            ),
        }

    def refuse_if_used_up(self) -> None:
        """Raise BudgetExceeded if there is nothing to begin with."""
        if self.is_used_up:
            raise BudgetExceeded(
                f"The plan may cost ${dollars(self.needs_micros):.4f}, and nothing is left of the project's month."
            )


def shortage(connection: Connection, principal: Principal, workflow: Workflow, needs_micros: int) -> Shortage | None:
    """Return what is missing if the month may not pay for a plan to its end; None if it does, or has no limit.

    Plans that are begun at the same time wait for each other here, so that the second one knows of the first.
    """
    limit = monthly_limit(project_settings(connection, principal, workflow.project_id))
    if limit is None or needs_micros <= 0:
        return None
    budgets = BudgetRepository(connection, principal)
    month = budgets.lock(month_of(connection, principal, workflow.project_id, limit))
    left = max(0, month.left_micros - promised(connection, principal, workflow.project_id, workflow.id))
    return Shortage(needs_micros, left, month.left_micros <= 0) if needs_micros > left else None
