"""A run that waits for the user, as it is stored with its turn or task. Any server resumes it, after an upgrade too."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from artel.contract.chat import ContextItem, UsageShown
from artel.contract.node_messages import NodeToolCall, NodeToolResult

VERSION = 1


class _Stored(BaseModel, defer_build=True):
    """A part of the stored document; fields of newer servers are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ParkedCall(_Stored):
    """A tool call that the model requested; `arguments` is its JSON text."""

    id: str
    name: str
    arguments: str


class ParkedFile(_Stored):
    """A file that the user attached to the next message; images are read again when the run is resumed."""

    id: str
    name: str
    media_type: str
    size: int
    lines: int | None = None
    width: int | None = None
    height: int | None = None


class ParkedMessage(_Stored):
    """A message of the conversation with the model."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ParkedCall, ...] = ()
    tool_call_id: str | None = None
    part: str = ""
    file: ParkedFile | None = None


class ParkedState(_Stored):
    """The state of the agent loop."""

    messages: tuple[ParkedMessage, ...]
    notes: tuple[ParkedMessage, ...] = ()
    exchange: tuple[ParkedMessage, ...] = ()
    calls: tuple[ParkedCall, ...] = ()
    draft: str = ""
    finish_reason: str = ""
    sent_back: tuple[ParkedMessage, ...] = ()
    iterations: Annotated[int, Field(ge=0)] = 0
    tool_calls: Annotated[int, Field(ge=0)] = 0
    phases: tuple[str, ...] = ()
    is_announced: bool = False
    # Of AGT-05.6; runs that earlier versions stored lack them.
    action: str = ""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    context: dict[str, JsonValue] | None = None
    phase: str = ""
    understanding: str = ""
    plan: tuple[str, ...] = ()
    tool_results: tuple[dict[str, JsonValue], ...] = ()
    critique: str = ""
    result: JsonValue = None
    error: str | None = None
    llm_calls: int = 0
    start_time: float = 0.0


class SingleCall(_Stored):
    """The only call of a run without a model: its approval had expired, and was requested again."""

    tool: str
    arguments: dict[str, JsonValue]
    id: str | None = None


class ParkedNodeRun(_Stored):
    """The run of an agent on a node, which asked for tools of the worker space or for a person's approval.

    Without a state it goes on from its commands: nothing was asked for yet, or a host was interrupted.
    """

    node: str = ""
    node_type: str = ""  # nodes of the type can go on with its tasks
    step: int = 0  # of the command that asked
    state: str = ""  # the node's own
    calls: tuple[NodeToolCall, ...] = ()  # without a result
    results: tuple[NodeToolResult, ...] = ()
    tool_calls: int = 0  # of the task so far
    is_announced: bool = False


class UsageShare(_Stored):
    """Usage of one agent and model; no agent means the orchestrator."""

    agent_id: int | None
    agent: str
    usage: UsageShown


class ParkedRun(_Stored):
    """Everything that is needed to resume a run.

    The run of an agent has `state`, `single` or `node`; the turn of a plan has `workflow_id`, and its tasks have their
    own.
    """

    version: int = VERSION
    state: ParkedState | None = None
    single: SingleCall | None = None
    node: ParkedNodeRun | None = None
    child: "ParkedRun | None" = None  # the run of the agent's child that waits
    agent_id: int | None = None
    task_id: str | None = None  # of a child
    context: tuple[ContextItem, ...] = ()
    hashes: dict[str, str] = Field(default_factory=dict)  # of the files that the agent has read, by path
    seconds: float = 0.0  # that it has run
    message_id: str | None = None  # of the answer
    approval_id: str | None = None  # that a task of a plan waits for
    needs_micros: int | None = None  # that a task of a plan needs for its next call
    workflow_id: str | None = None
    usage: UsageShown | None = None
    shares: tuple[UsageShare, ...] = ()

    @classmethod
    def load(cls, document: Mapping[str, Any]) -> "ParkedRun":
        """Return the run of a stored document, also of one that has no version yet."""
        return cls.model_validate(_upgrade(document))

    def dump(self) -> dict[str, JsonValue]:
        """Return the document to store.

        Fields without a value are left out, and the child is called `inner`: servers of the previous release read the
        document during a rolling upgrade.
        """
        dumped = self.model_dump(mode="json", exclude={"child"})
        document: dict[str, JsonValue] = {name: value for name, value in dumped.items() if value is not None}
        return document | {"inner": self.child.dump()} if self.child else document


def _upgrade(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the current version; documents without a version are of the release before it."""
    fields = {name: value for name, value in document.items() if value is not None} | {"version": VERSION}
    if not fields.get("state"):  # without a version, a single call has an empty one
        fields.pop("state", None)
    if inner := fields.pop("inner", None):
        fields["child"] = _upgrade(inner)
    if "workflow_id" in fields and "shares" not in fields and "usage" in fields:  # usage was not stored by agent
        fields["shares"] = [{"agent_id": None, "agent": "", "usage": fields["usage"]}]
    return fields
