"""A node's passport: what it is, what it can do and how it is, as it registers and as the registry shows it."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

LEASE_SECONDS = 30
NOT_READY_SECONDS = 15.0
OFFLINE_SECONDS = 30.0
FORGOTTEN_SECONDS = 90.0  # 60 s after it went offline
LOOP_BLOCKED = "LoopBlocked"  # reason of the condition Ready: a call in the node's event loop does not return
BLOCKED_METRIC = "loop_blocked_seconds"

Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    """A part of a passport; unknown fields are ignored, for compatibility between versions."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, populate_by_name=True)


class NodeState(StrEnum):
    """How the registry sees a node, by the age of its last heartbeat."""

    ALIVE = "ALIVE"
    NOT_READY = "NOT_READY"
    OFFLINE = "OFFLINE"


class Metadata(_Part):
    """Who the node is; `uid` is new with each start."""

    uid: str = Field(min_length=1, max_length=100)
    name: str = Field(min_length=1, max_length=255)
    node_type: str = Field(alias="nodeType", min_length=1, max_length=63)
    labels: dict[str, str] = {}
    creation_timestamp: AwareDatetime = Field(alias="creationTimestamp", default_factory=lambda: datetime.now(UTC))
    version: str = "1.0.0"


class PassportCapability(_Part):
    """A capability as others may use it."""

    name: str = Field(min_length=1, max_length=63)
    version: str = "1.0"
    description: str = ""
    parameters: dict[str, Any] = {}
    input_schema: dict[str, Any] | None = Field(alias="inputSchema", default=None)
    output_schema: dict[str, Any] | None = Field(alias="outputSchema", default=None)


class Endpoint(_Part):
    """Where its commands go."""

    protocol: Literal["amqp", "local"] = "amqp"
    queue: str


class Resources(_Part):
    """Declared limits by name (max_memory_mb, max_execution_time_seconds, …)."""

    limits: dict[str, float] = {}


class Spec(_Part):
    """What the node can do."""

    capabilities: tuple[PassportCapability, ...] = ()
    endpoint: Endpoint
    resources: Resources = Resources()
    display_name: str = Field(alias="displayName", default="")
    description: str = ""
    avatar: str = ""
    model: str = ""
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        alias="maxTokens", default=None
    )  # of an answer
    tools: tuple[str, ...] = ()
    max_concurrent_tasks: int = Field(alias="maxConcurrentTasks", default=1, ge=1, le=1_000)
    # Between two reports of progress of a task; None if it sends none.
    progress_interval_seconds: Annotated[float, Field(gt=0, le=3_600)] | None = Field(
        alias="progressIntervalSeconds", default=None
    )


class Condition(_Part):
    """One condition, such as Ready."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str = ""


class NodeLease(_Part):
    """Until when others may count on the node."""

    holder_identity: str = Field(alias="holderIdentity")
    acquire_time: AwareDatetime = Field(alias="acquireTime", default_factory=lambda: datetime.now(UTC))
    renew_time: AwareDatetime = Field(alias="renewTime", default_factory=lambda: datetime.now(UTC))
    lease_duration_seconds: int = Field(alias="leaseDurationSeconds", default=LEASE_SECONDS)


class CurrentTask(_Part):
    """A task that the node works on."""

    task_id: str = Field(alias="taskId")
    action: str = ""
    phase: str = ""
    elapsed_seconds: float = Field(alias="elapsedSeconds", default=0.0, ge=0)
    idle_seconds: float = Field(alias="idleSeconds", default=0.0, ge=0)  # since the loop last moved


class Status(_Part):
    """How the node is."""

    phase: Literal["Running", "Paused", "Draining", "Stopped"] = "Running"
    conditions: tuple[Condition, ...] = (Condition(type="Ready", status="True"),)
    lease: NodeLease
    current_tasks: tuple[CurrentTask, ...] = Field(alias="currentTasks", default=())
    total_tasks_processed: Count = Field(alias="totalTasksProcessed", default=0)
    uptime: float = Field(default=0.0, ge=0)  # seconds
    metrics: dict[str, float] = {}  # what it measured of itself: memory_mb, cpu_percent

    @property
    def is_ready(self) -> bool:
        """Whether it takes commands, by what it says."""
        return self.phase == "Running" and all(
            condition.status == "True" for condition in self.conditions if condition.type == "Ready"
        )

    @property
    def is_blocked(self) -> bool:
        """Whether its event loop stands still, by what it says: it can't even be stopped."""
        return any(condition.type == "Ready" and condition.reason == LOOP_BLOCKED for condition in self.conditions)


class Passport(_Part):
    """The passport of a node."""

    metadata: Metadata
    spec: Spec
    status: Status

    def dump(self) -> dict[str, Any]:
        """Return the passport as JSON, with the names of the contract."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
