"""What a worker space and a node tell each other beyond the envelope: parameters, outputs and events by name.

Every node has two actions besides its capabilities. `answer` takes a text, and maybe the capability that is wanted.
`continue` goes on with a task that needed tools of the worker space.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from artel.contract.envelope import ControlType, Epoch

ANSWER = "answer"
CONTINUE = "continue"

SERVER = "artel"  # the source of what worker spaces send
REGISTRY = "registry"  # the name that nodes send their requests to
REGISTER = "register"
DEREGISTER = "deregister"
NODE_REGISTERED = "node.registered"
NODE_HEARTBEAT = "node.heartbeat"
NODE_DEREGISTERED = "node.deregistered"
NODE_OVER_LIMIT = "node.over_limit"
NODE_CONTROL_APPLIED = "node.control_applied"
TASK_PROGRESS = "task.progress"
ALERT_RAISED = "alert.raised"
ALERT_RESOLVED = "alert.resolved"
TENANT_DELETED = "tenant.deleted"

MAX_STATE_CHARACTERS = 500_000
MAX_GIVEN_UP = 1_000
MAX_HEARTBEAT_SECONDS = 12  # between two heartbeats: a node is not ready after 15 seconds without one

Seconds = Annotated[float, Field(ge=0, le=10**9)]
LimitName = Literal["max_memory_mb", "max_cpu_percent", "max_execution_time_seconds"]  # as in the agent's file


class _Part(BaseModel, defer_build=True):
    """Base of the parts; unknown fields are ignored, for compatibility between versions."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class SpaceTool(_Part):
    """A tool of the worker space, which the node may ask for but never runs."""

    name: str
    description: str
    parameters: dict[str, Any]


class SpaceMessage(_Part):
    """A message before the task: memories, guidance or conversation."""

    role: Literal["system", "user", "assistant"]
    content: str
    part: str = ""


class AnswerParams(_Part):
    """Parameters of `answer`: the task as text, and what the worker space knows."""

    text: Annotated[str, Field(min_length=1)]
    capability: str | None = None  # None: the node answers as itself
    messages: tuple[SpaceMessage, ...] = ()
    tools: tuple[SpaceTool, ...] = ()


class NodeToolCall(_Part):
    """A tool call that the worker space is asked for.

    `kind` is `space` for a tool of the worker space, and `approval` for a tool of the node itself, which it calls only
    if a person approves exactly these arguments.
    """

    id: str
    name: str
    arguments: str  # the model's JSON text
    kind: Literal["space", "approval"] = "space"


class ToolCallsOutput(_Part):
    """Output of a RESULT that is not the end of the task."""

    kind: Literal["tool_calls"] = "tool_calls"
    calls: tuple[NodeToolCall, ...] = Field(min_length=1)
    state: str  # the node's own JSON, returned as it is


class AnswerOutput(_Part):
    """Output of a RESULT of `answer`: the text for people, and the output of the capability if one was wanted."""

    kind: Literal["answer"] = "answer"
    text: str
    output: JsonValue = None


class CallApproval(_Part):
    """That a person has approved one call, signed with the key of the server and its nodes."""

    signature: Annotated[str, Field(max_length=64)]  # HMAC-SHA256, hexadecimal
    expires: Annotated[int, Field(ge=0, le=10**11)]  # seconds since 1970


class NodeToolResult(_Part):
    """What became of one call: the result for the model, or whether a person approved it."""

    id: str
    text: str = ""  # for `space`: the JSON that the model reads
    success: bool = True
    approved: bool | None = None  # for `approval`
    approval: CallApproval | None = None  # if it was approved
    feedback: str = ""


class ContinueParams(_Part):
    """Parameters of `continue`."""

    state: str
    results: tuple[NodeToolResult, ...]


class RegistrationResult(_Part):
    """Output of the RESULT of `register`: the epoch of the node, and the ids of commands that nobody waits for."""

    epoch: Epoch
    given_up: tuple[str, ...] = ()


class Progress(_Part):
    """`event_data` of task.progress."""

    task_id: str
    state: Literal["working"] = "working"
    elapsed_seconds: float
    phase: str = ""
    idle_seconds: Seconds = 0.0  # since the loop last moved
    blocked_seconds: Seconds = 0.0  # since the event loop of the node last ran
    node: str = ""
    epoch: Epoch = 0


class Heartbeat(_Part):
    """`event_data` of node.heartbeat: the whole status, so that one lost event does no harm."""

    name: str
    uid: str
    epoch: Epoch
    status: dict[str, JsonValue]  # passport.Status
    passport: dict[str, JsonValue] | None = None  # while the node has no epoch, and now and then


class OverLimit(_Part):
    """`event_data` of node.over_limit: once when a declared limit is exceeded, and once when it no longer is."""

    node: str
    uid: str
    epoch: Epoch
    limit: LimitName
    value: float
    allowed: float
    over: bool = True
    task_id: str = ""  # of a task that takes too long


class NodeAlert(_Part):
    """`event_data` of alert.raised and alert.resolved."""

    node: str
    uid: str
    epoch: Epoch
    kind: str
    message: str
    task_id: str = ""


class TenantDeleted(_Part):
    """`event_data` of tenant.deleted: a project is gone, and nodes forget what they keep of it."""

    user_id: int
    project_id: int


class SignalParams(BaseModel, defer_build=True):
    """Parameters of a control signal, and nothing else; `pause` and `resume` have none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StopParams(SignalParams):
    """Parameters of `stop`: one task; all by default."""

    task_id: str | None = Field(default=None, max_length=255)


class ShutdownParams(SignalParams):
    """Parameters of `shutdown`: how long running tasks may take; by default as long as the agent's file allows.

    A node always lets its tasks end first, so `drain` says nothing new.
    """

    grace_seconds: float | None = Field(default=None, ge=0, le=86_400)
    drain: Literal[True] | None = None


class ConfigParams(SignalParams):
    """Parameters of `config`: what may change while a node runs."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    max_concurrent_tasks: int | None = Field(default=None, ge=1, le=100)
    heartbeat_interval_seconds: float | None = Field(default=None, ge=0.1, le=MAX_HEARTBEAT_SECONDS)
    progress_interval_seconds: float | None = Field(default=None, ge=0.1, le=3_600)


TARGET_NODE = "target_node"  # a parameter of all signals: others ignore it
_SIGNALS: dict[ControlType, type[SignalParams]] = {
    "stop": StopParams,
    "pause": SignalParams,
    "resume": SignalParams,
    "shutdown": ShutdownParams,
    "config": ConfigParams,
}


def ignored_parameters(control_type: ControlType, parameters: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the names that a node ignores, for compatibility between versions.

    There are none for `stop` and `config`: with a misspelt name they would mean something else.
    """
    if control_type in ("stop", "config"):
        return ()
    known = {TARGET_NODE, *_SIGNALS[control_type].model_fields}
    return tuple(name for name in parameters if name not in known)


def signal_parameters(control_type: ControlType, parameters: Mapping[str, JsonValue]) -> SignalParams:
    """Return the parameters of a control signal; raise ValueError with what is wrong and what can be given."""
    model = _SIGNALS[control_type]
    given = {name: value for name, value in parameters.items() if name != TARGET_NODE and value is not None}
    can_be_given = f"Parameters of {control_type}: {', '.join(model.model_fields) or 'none'}."
    try:
        read = model.model_validate(given)
    except ValidationError as problem:
        errors = "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in problem.errors()[:5])
        raise ValueError(f"{errors}. {can_be_given}") from None
    if control_type == "config" and not given:
        raise ValueError(f"Nothing to change. {can_be_given}")
    return read


class ControlApplied(_Part):
    """`event_data` of node.control_applied: what a node did about a control signal."""

    node: str
    uid: str
    epoch: Epoch
    control_type: str
    message_id: str  # of the signal
    applied: bool
    detail: str = ""  # what was done, or why it was refused
