"""An approval as the rest of the server sees it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from artel.contract.approval_details import ApprovalDetails, PlanDetails, ToolDetails
from artel.contract.approvals import PlanArguments


class ApprovalStatus(StrEnum):
    """The status of an approval."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    USED = "used"  # the call that it was for was made
    WITHDRAWN = "withdrawn"  # the turn was cancelled


@dataclass(frozen=True, slots=True)
class Approval:
    """What the user is asked, and the decision."""

    id: str
    project_id: int
    session_id: str
    turn_id: str
    agent_id: int | None
    kind: str
    tool: str
    arguments: dict[str, Any]
    arguments_hash: str
    details: ApprovalDetails
    risk: str
    seconds: int
    status: ApprovalStatus
    holds: str | None
    feedback: str | None
    created_at: datetime
    warned_at: datetime | None
    expires_at: datetime
    decided_at: datetime | None
    used_at: datetime | None

    @property
    def tool_details(self) -> ToolDetails:
        """The details of a tool call; empty for other kinds."""
        return self.details if isinstance(self.details, ToolDetails) else ToolDetails()

    @property
    def plan_details(self) -> PlanDetails:
        """The details of a plan; empty for other kinds."""
        return self.details if isinstance(self.details, PlanDetails) else PlanDetails()

    @property
    def plan_arguments(self) -> PlanArguments:
        """What is to be approved of a plan or its budget; other kinds have none."""
        return PlanArguments.model_validate(self.arguments)

    @property
    def ask_id(self) -> str | None:
        """The connector's id for the question, if it asks too."""
        return self.tool_details.ask_id
