"""What an agent's loop is given, what it tells while it runs, and what comes of it."""

from dataclasses import dataclass
from typing import Protocol

from artel.brain import prices
from artel.brain.brain import Request, TokenSink, ToolCall, Usage
from artel.brain.tokens import count_tokens
from artel.tools.tool import ToolResult

MAX_ITERATIONS = 5
MAX_TOOL_CALLS = 10
# For every agent, whatever its own limit is.
MOST_TOOL_CALLS = 20


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Which phases an agent goes through beside execute, tool_call and finish, and how often."""

    understand: bool = False
    plan: bool = False
    critique: bool = False
    max_iterations: int = MAX_ITERATIONS
    max_tool_calls: int = MAX_TOOL_CALLS

    @property
    def tool_calls(self) -> int:
        """How many tool calls there may be: the lower of the agent's limit and everybody's."""
        return min(self.max_tool_calls, MOST_TOOL_CALLS)


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """What the loop needs to know of an agent."""

    name: str
    model: str
    temperature: float
    max_tokens: int
    fallback_model: str | None = None
    loop: LoopSettings = LoopSettings()
    max_context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The answer, and what it took; `iterations` is how often a draft was sent back, `phases` the way taken."""

    content: str
    usage: Usage
    iterations: int
    tool_calls: int
    phases: tuple[str, ...]


class Listener(TokenSink, Protocol):
    """Hears what a loop does; the pieces since the last restart are the answer so far."""

    def phase(self, name: str) -> None:
        """A phase begins."""

    def tool_called(self, call: ToolCall) -> None:
        """The model asks for a tool."""

    def tool_result(self, call: ToolCall, result: ToolResult) -> None:
        """The call was answered, by the tool or with the reason why it was not called."""


class Tally:
    """What a run has spent so far. It belongs to the caller, so that it is there however the run ends."""

    def __init__(self, model: str) -> None:
        self.usage = Usage(model)
        # The call that is being made: one that is still here after the end was cut off, and nobody knows its price.
        self.pending: Request | None = None

    def begin(self, request: Request) -> None:
        """Note that a model is asked."""
        self.pending = request

    def settle(self, written: str) -> None:
        """Count a call that was cut off, by what was sent and what had been written until then."""
        if self.pending is not None:
            model = self.pending.model
            sent = sum(count_tokens(message.content, model) for message in self.pending.messages)
            sent = min(sent, self.pending.max_context_tokens or sent)
            got = count_tokens(written, model)
            self.add(Usage(model, sent, got, prices.cost(model, sent, got), calls=1))

    def add(self, usage: Usage) -> None:
        """Count what the call took."""
        self.usage = self.usage.plus(usage) if self.usage.calls else usage
        self.pending = None
