"""The `Brain` interface to language models, with its request and response types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from pydantic import JsonValue

Role = Literal["system", "user", "assistant", "tool"]
# The purpose of a message: the less important ones are dropped first when a request is too long (`brain/window.py`).
Part = Literal["", "history", "memory", "guidance", "note", "attachment"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that the model requests; `arguments` is the model's JSON text, which may be invalid."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that the user attached to the message that follows, which quotes the content of a text.

    An image is sent with its message; `image` is empty if it was not read again after a run was parked.
    """

    id: str
    name: str
    media_type: str
    size: int
    lines: int | None = None
    width: int | None = None
    height: int | None = None
    image: bytes = field(default=b"", compare=False, repr=False)

    @property
    def is_image(self) -> bool:
        return self.width is not None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `tool_call_id` names the call whose result a tool message holds.

    A message with a `file` is part of the user's message that follows, and is sent with it as one.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    part: Part = field(default="", compare=False)  # never sent
    file: AttachedFile | None = None


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: "Mapping[str, JsonValue]"


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON schema of a structured answer; the name (plan, critique, understanding, steps) is sent to the model."""

    name: str
    schema: "Mapping[str, JsonValue]"


class BudgetGuard(Protocol):
    """Reserves and counts the cost of model calls."""

    async def reserve(self, amount: float) -> str:
        """Reserve an amount in dollars and return the reservation's name; raise if the budget is too small."""

    async def settle(self, name: str, amount: float | None) -> None:
        """Record the cost of the call; None means unknown, and counts the whole reservation."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model, to be finished before `deadline` (seconds of `time.monotonic()`)."""

    model: str
    messages: tuple[Message, ...]
    temperature: float
    max_tokens: int
    deadline: float
    tools: tuple[ToolSchema, ...] = ()
    response_format: Schema | None = None
    fallback_model: str | None = None
    budget_guard: BudgetGuard | None = None  # None: the cost is not limited
    max_context_tokens: int | None = None  # limit for everything that is sent
    repair_invalid: bool = True  # whether to ask once more when a structured answer breaks its schema


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of all calls of a request; `cost_usd` is None if a price is unknown."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    calls: int = 0

    def plus(self, later: "Usage") -> "Usage":
        """Return the sum, with the model of the later usage."""
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
    """A complete answer; `parsed` holds the JSON value of a structured one."""

    content: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    parsed: "JsonValue" = None


class TokenSink(Protocol):
    """Receives an answer while it is streamed."""

    def token(self, text: str) -> None:
        """Receive the next chunk of text."""

    def restart(self) -> None:
        """Discard all chunks so far: the answer starts again."""


class Brain(Protocol):
    """Sends requests to models; every failure is a `ModelError`."""

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer; pass its text to `stream` as it arrives."""

    async def close(self) -> None:
        """Close the connections; no request may follow."""
