"""Tasks of a plan whose next calls may cost more than is left of its budget, and when they may go on unasked."""

from collections.abc import Sequence

from artel.budgets.repository import Budget
from artel.plans.workflow import WorkflowTask


class LackOfMoney:
    """Says for which tasks there is enough now; none is tried twice as things stand, so that the user is asked once."""

    def __init__(self) -> None:
        self._tried: dict[str, tuple[int, int, int]] = {}  # how things stood when a task went on

    def enough_for(self, waiting: Sequence[WorkflowTask], budget: Budget, ended: int) -> list[WorkflowTask]:
        """Return those of the waiting tasks that may go on at once, with how many tasks have ended by now.

        Others have cost less than they might, or the limit was raised.
        """
        stands = budget.limit_micros, budget.spent_micros, ended
        left, found = budget.left_micros, []
        for task in waiting:
            needs = (task.parked.needs_micros or 0) if task.parked else 0
            if needs <= left and self._tried.get(task.id) != stands:
                left -= needs
                self._tried[task.id] = stands
                found.append(task)
        return found
