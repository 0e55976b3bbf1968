"""The input, listener and result of an agent's loop."""

from dataclasses import dataclass
from typing import Protocol

from artel.agent_loop.parking import Phase
from artel.brain import prices
from artel.brain.brain import Request, TokenSink, ToolCall, Usage
from artel.brain.images import image_tokens
from artel.brain.tokens import count_tokens
from artel.tools.tool import ToolResult

MAX_ITERATIONS = 5
MAX_TOOL_CALLS = 10
# The upper limit of every agent, unless the operator sets another one.
MOST_TOOL_CALLS = 20


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The optional phases of an agent (all but execute, tool_call and finish), and its limits."""

    understand: bool = False
    plan: bool = False
    critique: bool = False
    max_iterations: int = MAX_ITERATIONS
    max_tool_calls: int = MAX_TOOL_CALLS
    most_tool_calls: int = MOST_TOOL_CALLS

    @property
    def tool_calls(self) -> int:
        """The effective limit of tool calls."""
        return min(self.max_tool_calls, self.most_tool_calls)

    @property
    def first_phase(self) -> Phase:
        """The phase that a new run starts with."""
        return "understand" if self.understand else "plan" if self.plan else "execute"

    @property
    def needs_graph(self) -> bool:
        """Whether a run has optional phases, and so more than one way through its phases."""
        return self.understand or self.plan or self.critique


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The settings of an agent that its loop uses."""

    name: str
    model: str
    temperature: float
    max_tokens: int
    fallback_model: str | None = None
    loop: LoopSettings = LoopSettings()
    max_context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The answer and its usage; `iterations` counts rejected drafts, `phases` are those that ran, in order."""

    content: str
    usage: Usage
    iterations: int
    tool_calls: int
    phases: tuple[str, ...]


class Listener(TokenSink, Protocol):
    """Receives the events of a loop; the tokens since the last restart are the answer so far."""

    def phase(self, name: str) -> None:
        """Handle the start of a phase."""

    def tool_called(self, call: ToolCall) -> None:
        """Handle a tool call of the model."""

    def tool_result(self, call: ToolCall, result: ToolResult) -> None:
        """Handle the result of a tool call, or the reason why it was not executed."""


class Tally:
    """The usage of a run so far; the caller owns it, so that it survives an exception or a cancellation."""

    def __init__(self, model: str) -> None:
        self.usage = Usage(model)
        # The model call in progress; still set after the run if the call was interrupted and its usage is unknown.
        self.pending: Request | None = None

    def settle(self, written: str) -> None:
        """Add an interrupted call, with its usage estimated from the request and the text streamed so far."""
        if self.pending is not None:
            model = self.pending.model
            sent = sum(count_tokens(message.content, model) for message in self.pending.messages)
            sent += sum(image_tokens(message.file, model) for message in self.pending.messages)
            sent = min(sent, self.pending.max_context_tokens or sent)
            received = count_tokens(written, model)
            self.add(Usage(model, sent, received, prices.cost(model, sent, received), calls=1))

    def add(self, usage: Usage) -> None:
        """Add the usage of the finished call."""
        self.usage = self.usage.plus(usage) if self.usage.calls else usage
        self.pending = None
