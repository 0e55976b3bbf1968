"""Messages on the bus: CloudEvents 1.0 in JSON. Unknown fields are ignored: two versions may run side by side."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
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
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0)]
Dollars = Annotated[float, Field(ge=0)]


class InvalidMessage(ArtelError):
    """What came, or was to be sent, is no message of ours."""

    kind = Kind.INVALID
    code = "invalid_message"


class Part(BaseModel):
    """A piece of a message: it can't be changed, and takes no number that JSON can't write."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)


class Requirements(Part):
    """What a node must be able to do to take a command."""

    capabilities: tuple[Name, ...] = ()


class Limits(Part):
    """What a command may cost."""

    cost_usd: Dollars | None = None
    timeout_ms: Count | None = None


class CommandContext(Part):
    """Where in a larger piece of work a command belongs."""

    process_id: str | None = None
    step: str | None = None
    parent_task_id: str | None = None
    limits: Limits | None = None


class RetryPolicy(Part):
    """How often the sender wants a failed command to be tried again."""

    max_retries: Count = 3
    backoff_seconds: Annotated[float, Field(ge=0)] = 1


class Command(Part):
    """Do something."""

    action: Name
    params: dict[str, JsonValue] = Field(default_factory=dict)
    target_node: Name | None = None
    requirements: Requirements | None = None
    context: CommandContext | None = None
    timeout_seconds: Seconds | None = None
    idempotency_key: Name | None = None
    retry_policy: RetryPolicy | None = None


class Metrics(Part):
    """What a command has used."""

    llm_calls: Count = 0
    tool_calls: Count = 0
    cost_usd: Dollars = 0


class Result(Part):
    """It is done."""

    status: Literal["SUCCESS"] = "SUCCESS"
    output: JsonValue = None
    execution_time_ms: Count = 0
    metrics: Metrics = Metrics()


class ErrorInfo(Part):
    """What went wrong, with a name from google.rpc.Code."""

    code: ErrorCode
    message: str
    retryable: bool = False
    details: dict[str, JsonValue] = Field(default_factory=dict)


class Error(Part):
    """It could not be done."""

    error: ErrorInfo
    execution_time_ms: Count = 0


class Event(Part):
    """Something has happened."""

    event_type: Name
    event_data: dict[str, JsonValue] = Field(default_factory=dict)
    severity: Severity = "info"
    tags: tuple[str, ...] = ()


class Control(Part):
    """A signal to nodes, which overtakes their work."""

    control_type: ControlType
    reason: str | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


Data = Command | Result | Error | Event | Control

_DATA: Mapping[MessageType, type[Data]] = MappingProxyType(
    {
        "ai.team.command": Command,
        "ai.team.result": Result,
        "ai.team.error": Error,
        "ai.team.event": Event,
        "ai.team.control": Control,
    }
)
_TYPES: Mapping[type[Data], MessageType] = MappingProxyType({data: name for name, data in _DATA.items()})


class Envelope(Part):
    """One message: who says what, when, about which task."""

    specversion: Literal["1.0"] = "1.0"
    id: Name = Field(default_factory=uuid7)
    source: Name
    type: MessageType
    time: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    subject: str | None = Field(default=None, description="The id of the task.")
    traceparent: str | None = None
    datacontenttype: Annotated[str, Field(pattern=r"^application/json(;.*)?$")] = "application/json"
    data: Data

    @field_validator("data", mode="before")
    @classmethod
    def _of_its_type(cls, value: Any, info: ValidationInfo) -> Data:
        """Read the data as what `type` says that it is, and as nothing that merely looks alike."""
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
    ) -> Self:
        """Wrap data into a message: a new one, unless the id of one that is sent again is given."""
        return cls(
            id=message_id or uuid7(),
            source=source,
            type=_TYPES[type(data)],
            subject=subject,
            traceparent=traceparent,
            data=data,
        )

    def to_bytes(self) -> bytes:
        """Write the message; raise InvalidMessage when it is too large or holds what JSON can't."""
        try:
            body = self.model_dump_json(exclude_none=True).encode()
        except (ValueError, RecursionError) as problem:
            raise InvalidMessage(f"The message can't be written as JSON: {problem}") from problem
        _check_size(body)
        return body

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read a message; whatever is wrong with it, raise InvalidMessage."""
        _check_size(body)
        try:
            return cls.model_validate(from_json(body, allow_inf_nan=False))
        except ValidationError as problem:
            raise InvalidMessage(f"The message is not valid: {_places(problem)}") from problem
        except (ValueError, RecursionError) as problem:
            raise InvalidMessage(f"The message is no JSON: {problem}") from problem


def _check_size(body: bytes) -> None:
    if len(body) > MAX_BYTES:
        raise InvalidMessage(f"The message has {len(body)} bytes; at most {MAX_BYTES} are allowed.")


def _places(problem: ValidationError) -> str:
    places = (f"{'.'.join(map(str, error['loc'])) or 'message'}: {error['msg']}" for error in problem.errors()[:5])
    return "; ".join(places)
