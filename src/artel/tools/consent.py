"""Questions that the user must answer before a tool is called, and the decisions."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from artel.contract.approval_details import ApprovalDetails, ToolDetails
from artel.contract.parked_run import ParkedRun
from artel.tools.policy import Risk, arguments_hash


@dataclass(frozen=True, slots=True)
class Question:
    """The question whether exactly this call may be made."""

    tool: str
    arguments: Mapping[str, Any]
    risk: Risk = "normal"
    # What helps to decide (a diff), and the connector's id of the question if it asks too.
    details: ApprovalDetails = field(default_factory=ToolDetails)

    @property
    def hash(self) -> str:
        """The hash of tool and arguments that the decision is bound to."""
        return arguments_hash(self.tool, self.arguments)


class NeedsUser(Exception):
    """A run can't go on without a decision of the user: it is parked."""

    is_agents_fault = False
    child: ParkedRun | None = None  # the run of a child agent that needs the decision


class NeedsApproval(NeedsUser):
    """A call needs the user's approval first."""

    def __init__(self, question: Question, child: ParkedRun | None = None) -> None:
        super().__init__(question.tool)
        self.question = question
        self.child = child


class NeedsBudget(NeedsUser):
    """The budget of a plan has too little left for the next call."""

    def __init__(self, micros: int) -> None:
        super().__init__(micros)
        self.micros = micros


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's decision, or that none was made in time."""

    approval_id: str
    outcome: Literal["approved", "rejected", "expired"]
    feedback: str = ""
    holds: str = "once"
    # Hashes of what the user was shown: the file ("" if there was none), and its new content; None if unknown.
    old_sha256: str | None = None
    new_sha256: str | None = None


class Consent:
    """The decisions that a run was given; each holds for one call."""

    def __init__(
        self,
        decisions: Mapping[str, Decision] | None = None,
        use: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        self._decisions = dict(decisions or {})
        self._use = use

    async def use(self, decision: Decision) -> bool:
        """Mark an approval as used; return False if it was used before."""
        return self._use is None or await self._use(decision.approval_id)

    def take(self, tool: str, arguments: Mapping[str, Any]) -> Decision | None:
        """Remove and return the decision about a call."""
        return self._decisions.pop(arguments_hash(tool, arguments), None)
