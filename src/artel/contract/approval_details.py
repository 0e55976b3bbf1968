"""Details of an approval by kind: what helps the user to decide."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, JsonValue


class ApprovalDetails(BaseModel, defer_build=True):
    """Details of any kind, shown to the user and stored. Only fields that were set are shown, also of newer servers."""

    model_config = ConfigDict(frozen=True, extra="allow")

    version: ClassVar[int] = 1
    reason: str | None = None  # why the user is asked

    def shown(self) -> dict[str, JsonValue]:
        """Return the details as HTTP and events show them."""
        return self.model_dump(mode="json", exclude_unset=True)

    def dump(self) -> dict[str, JsonValue]:
        """Return the details as they are stored."""
        return self.shown() | {"version": self.version}


class ToolDetails(ApprovalDetails):
    """Details of a tool call."""

    diff: str | None = None
    warning: str | None = None
    notice: str | None = None
    old_sha256: str | None = None  # of the file as it was shown, "" if there was none
    new_sha256: str | None = None
    ask_id: str | None = None  # the connector's id for the question, if it asks too
    where: str | None = None  # "terminal" if only the connector takes the answer
    grant: str | None = None  # what else the approval may hold for
    node: str | None = None  # whose own tool it is
    workflow_id: str | None = None
    task_id: str | None = None

    def without_connector(self) -> "ToolDetails":
        """Return the details without those of the connector's question: it does not ask any more."""
        return ToolDetails(**self.model_dump(exclude={"ask_id", "where", "grant"}, exclude_unset=True))


class PricedDetails(ApprovalDetails):
    """Details of a plan or its budget; amounts are in dollars."""

    estimated_cost: float | None = None  # None: a price is unknown
    estimated_cost_high: float | None = None
    estimated_duration: float = 0.0
    month_left: float | None = None  # set if the project's monthly budget may not cover the plan


class PlanDetails(PricedDetails):
    """Details of a plan."""

    estimated_cost_low: float | None = None
    unknown_prices: tuple[str, ...] = ()
    graph: str | None = None
    changed: tuple[str, ...] = ()


class BudgetDetails(PricedDetails):
    """Details of a plan that is about to cost more than was agreed."""

    agreed_cost: float | None = None
    spent: float | None = None


_KINDS: dict[str, type[ApprovalDetails]] = {"tool": ToolDetails, "plan": PlanDetails, "budget": BudgetDetails}


def load_details(kind: str, document: Mapping[str, Any]) -> ApprovalDetails:
    """Return the stored details of an approval; documents without a version have the same fields."""
    fields = {name: value for name, value in document.items() if name != "version"}
    return _KINDS.get(kind, ApprovalDetails).model_validate(fields)
