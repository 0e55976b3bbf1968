"""The one interface to whatever answers for an agent, and what goes in and comes out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from pydantic import JsonValue

Role = Literal["system", "user", "assistant", "tool"]
# What a message is to its agent: the less a part matters, the sooner it goes when not all fits (`brain/window.py`).
Part = Literal["", "history", "memory", "guidance", "note"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants to have called; `arguments` is JSON text as the model wrote it, good or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `tool_call_id` says which call a tool message answers."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    part: Part = field(default="", compare=False)  # never sent


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: "Mapping[str, JsonValue]"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a structured answer must look like; the name (plan, critique, understanding, steps) goes to the model."""

    name: str
    schema: "Mapping[str, JsonValue]"


class BudgetGuard(Protocol):
    """Whoever pays for calls."""

    async def reserve(self, amount: float) -> str:
        """Take so many dollars out of what is left, and return a name for that; raise if there is not enough."""

    async def settle(self, name: str, amount: float | None) -> None:
        """Say what the call has cost; None: it can't be told, so all that was reserved."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model, to be answered before `deadline` (seconds of `time.monotonic()`)."""

    model: str
    messages: tuple[Message, ...]
    temperature: float
    max_tokens: int
    deadline: float
    tools: tuple[ToolSchema, ...] = ()
    response_format: Schema | None = None
    fallback_model: str | None = None
    purse: BudgetGuard | None = None  # who pays, if that is counted
    max_context_tokens: int | None = None  # of all that is sent
    mends: bool = True  # whether a structured answer that is not as asked is asked for once more


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent, on all calls that it took; `cost_usd` is None when a price is not known."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    calls: int = 0

    def plus(self, later: "Usage") -> "Usage":
        """Return the sum, in the name of the later model."""
        unknown = self.cost_usd is None or later.cost_usd is None
        return Usage(
            later.model,
            self.input_tokens + later.input_tokens,
            self.output_tokens + later.output_tokens,
            None if unknown else (self.cost_usd or 0.0) + (later.cost_usd or 0.0),
            self.calls + later.calls,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer; `parsed` is set when a structured one was asked for."""

    content: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    parsed: "JsonValue" = None


class TokenSink(Protocol):
    """Takes an answer while it is written."""

    def token(self, text: str) -> None:
        """Take the next piece of the answer."""

    def restart(self) -> None:
        """Forget every piece so far: the answer is begun again."""


class Brain(Protocol):
    """Return requests; every failure is a `ModelError`."""

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the request; with `stream`, hand over the text while it is written."""

    async def close(self) -> None:
        """Close the connections; nothing may be asked afterwards."""
