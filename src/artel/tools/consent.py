"""What a person must be asked before a tool is called, and what they have said."""

from collections.abc import Awaitable, Callable, Mapping
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

    def __init__(self, question: Question, inner: Mapping[str, Any] | None = None) -> None:
        """Take what is asked; `inner` is how far somebody had come who works for the caller and must wait."""
        super().__init__(question.tool)
        self.question = question
        self.inner = inner


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person has said, or that nobody has said anything in time."""

    approval_id: str
    outcome: Literal["approved", "rejected", "expired"]
    feedback: str = ""
    holds: str = "once"
    # What the user was shown, as hashes: of the file ("" if there was none), and of what it is to be; None if unknown.
    old_sha256: str | None = None
    new_sha256: str | None = None


async def _nobody_minds(_approval_id: str) -> bool:
    return True


class Consent:
    """The decisions that a run was given; each is good for one call."""

    def __init__(
        self,
        decisions: Mapping[str, Decision] | None = None,
        use: Callable[[str], Awaitable[bool]] = _nobody_minds,
    ) -> None:
        self._decisions = dict(decisions or {})
        self._use = use

    async def use(self, decision: Decision) -> bool:
        """Use an approval up; say whether it could be."""
        return await self._use(decision.approval_id)

    def take(self, tool: str, arguments: Mapping[str, Any]) -> Decision | None:
        """Return what was decided about a call, once."""
        return self._decisions.pop(arguments_hash(tool, arguments), None)
