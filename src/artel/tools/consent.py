"""What a person must be asked before a tool is called, and what they have said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from artel.tools.policy import Risk, arguments_hash


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: whether this very call may be made."""

    tool: str
    arguments: Mapping[str, Any]
    risk: Risk = "normal"
    # What helps to decide (a diff), and the name under which the connector asks too.
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """What the answer is bound to."""
        return arguments_hash(self.tool, self.arguments)


class NeedsApproval(Exception):
    """A call can't be made before a person has approved it: the run parks."""

    is_agents_fault = False

    def __init__(self, question: Question) -> None:
        super().__init__(question.tool)
        self.question = question


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person has said, or that nobody has said anything in time."""

    approval_id: str
    outcome: Literal["approved", "rejected", "expired"]
    feedback: str = ""
    holds: str = "once"


class Consent:
    """The decisions that a run was given; each is good for one call."""

    def __init__(self, decisions: Mapping[str, Decision] | None = None) -> None:
        self._decisions = dict(decisions or {})

    def take(self, tool: str, arguments: Mapping[str, Any]) -> Decision | None:
        """Answer what was decided about a call, once."""
        return self._decisions.pop(arguments_hash(tool, arguments), None)
