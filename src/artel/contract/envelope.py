"""Messages on the bus: CloudEvents 1.0 in JSON. Unknown fields are ignored, for compatibility between versions."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import from_json

from artel.errors import ArtelError, Kind
from artel.ids import uuid7

MAX_BYTES = 1024 * 1024

MessageType = Literal["ai.team.command", "ai.team.result", "ai.team.error", "ai.team.event", "ai.team.control"]
ErrorCode = Literal[
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
]
Severity = Literal["debug", "info", "warning", "error", "critical"]
ControlType = Literal["stop", "pause", "resume", "shutdown", "config"]

Name = Annotated[str, Field(min_length=1, max_length=255)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, Field(ge=0, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0)]
Dollars = Annotated[float, Field(ge=0)]


class InvalidMessage(ArtelError, kind=Kind.INVALID, code="invalid_message"):
    """A received or outgoing message is not valid."""


class Part(BaseModel, defer_build=True):
    """Base of message parts: immutable, without NaN and Infinity."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)


class Requirements(Part):
    """Capabilities that a node needs for a command."""

    capabilities: tuple[Name, ...] = ()


class CommandLimits(Part):
    """Cost and time limits of a command."""

    cost_usd: Dollars | None = None
    timeout_ms: Count | None = None


class CommandContext(Part):
    """Process and step that a command belongs to."""

    process_id: str | None = None  # of a worker space: the turn
    task_id: str | None = None  # of a worker space: the same in all commands of a task
    step: str | None = None
    parent_task_id: str | None = None
    limits: CommandLimits | None = None
    user_id: Count | None = None  # the tenant, if a worker space sent it
    project_id: Count | None = None


class RetryPolicy(Part):
    """How often a failed command is retried."""

    max_retries: Count = 3
    backoff_seconds: Annotated[float, Field(ge=0)] = 1


class Command(Part):
    """A request to perform an action."""

    action: Name
    params: dict[str, JsonValue] = Field(default_factory=dict)
    target_node: Name | None = None
    requirements: Requirements | None = None
    context: CommandContext | None = None
    timeout_seconds: Seconds | None = None
    idempotency_key: Name | None = None
    retry_policy: RetryPolicy | None = None


class Metrics(Part):
    """Resources used by a command."""

    llm_calls: Count = 0
    tool_calls: Count = 0
    cost_usd: Dollars | None = None  # not known, or not told: a message has no nulls
    model: str = ""
    input_tokens: Count = 0
    output_tokens: Count = 0


NOTHING_USED = Metrics(cost_usd=0)


class Result(Part):
    """The result of a successful command."""

    status: Literal["SUCCESS"] = "SUCCESS"
    output: JsonValue = None
    execution_time_ms: Count = 0
    metrics: Metrics = Metrics()


class ErrorInfo(Part):
    """An error with a code of google.rpc.Code."""

    code: ErrorCode
    message: str
    retryable: bool = False
    details: dict[str, JsonValue] = Field(default_factory=dict)


class Error(Part):
    """The result of a failed command."""

    error: ErrorInfo
    execution_time_ms: Count = 0
    metrics: Metrics = Metrics()


class Event(Part):
    """A notification of something that happened."""

    event_type: Name
    event_data: dict[str, JsonValue] = Field(default_factory=dict)
    severity: Severity = "info"
    tags: tuple[str, ...] = ()


class Control(Part):
    """A control signal to nodes, with priority over commands."""

    control_type: ControlType
    reason: str | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


Data = Command | Result | Error | Event | Control

_DATA: dict[MessageType, type[Data]] = {
    "ai.team.command": Command,
    "ai.team.result": Result,
    "ai.team.error": Error,
    "ai.team.event": Event,
    "ai.team.control": Control,
}
_TYPES: dict[type[Data], MessageType] = {data: name for name, data in _DATA.items()}


class Envelope(Part):
    """A message with its CloudEvents attributes."""

    specversion: Literal["1.0"] = "1.0"
    id: Name = Field(default_factory=uuid7)
    source: Name
    type: MessageType
    time: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    subject: str | None = Field(default=None, max_length=255, description="Id of the task.")
    traceparent: str | None = Field(default=None, max_length=255)
    nodeuid: str | None = Field(default=None, max_length=255, description="The instance of the node that sent it.")
    nodeepoch: Epoch | None = Field(default=None, description="The epoch of its name, which the registry gave it.")
    datacontenttype: Annotated[str, Field(pattern=r"^application/json(;.*)?$")] = "application/json"
    data: Data

    @field_validator("data", mode="before")
    @classmethod
    def _of_its_type(cls, value: Any, info: ValidationInfo) -> Data:
        """Validate the data with the model of `type`."""
        if (name := info.data.get("type")) is None:
            raise ValueError("can't be read without a known type")
        return _DATA[name].model_validate(value)

    @classmethod
    def of(
        cls,
        data: Data,
        *,
        source: str,
        subject: str | None = None,
        traceparent: str | None = None,
        message_id: str | None = None,
        nodeuid: str | None = None,
        nodeepoch: int | None = None,
    ) -> Self:
        """Wrap data in a message; pass `message_id` to send a message again."""
        return cls(
            id=message_id or uuid7(),
            source=source,
            type=_TYPES[type(data)],
            subject=subject,
            traceparent=traceparent,
            nodeuid=nodeuid,
            nodeepoch=nodeepoch,
            data=data,
        )

    def to_bytes(self) -> bytes:
        """Serialize the message; raise InvalidMessage if it is too large or not valid JSON."""
        try:
            body = self.model_dump_json(exclude_none=True).encode()
        except (ValueError, RecursionError) as problem:
            raise InvalidMessage(f"The message can't be written as JSON: {problem}") from problem
        _check_size(body)
        return body

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Parse a message or raise InvalidMessage."""
        _check_size(body)
        try:
            return cls.model_validate(from_json(body, allow_inf_nan=False))
        except ValidationError as problem:
            errors = (
                f"{'.'.join(map(str, error['loc'])) or 'message'}: {error['msg']}" for error in problem.errors()[:5]
            )
            raise InvalidMessage(f"The message is not valid: {'; '.join(errors)}") from problem
        except (ValueError, RecursionError) as problem:
            raise InvalidMessage(f"The message is not JSON: {problem}") from problem


def _check_size(body: bytes) -> None:
    if len(body) > MAX_BYTES:
        raise InvalidMessage(f"The message has {len(body)} bytes; at most {MAX_BYTES} are allowed.")
