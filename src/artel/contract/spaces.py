"""Response bodies for worker spaces, connectors, task workspaces and usage."""

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from artel.contract.connector import Ask
from artel.contract.http import Page, ResponseBody


class AgentStatusAnswer(ResponseBody):
    """Status of an agent."""

    agent_id: int = Field(examples=[2])
    status: str = Field(description="idle, processing, at_capacity or error", examples=["idle"])
    registered: bool
    active_tasks: int
    queued_tasks: int
    concurrency_limit: int = Field(examples=[3])
    node_lost: bool = Field(
        default=False, description="The agent runs on nodes, and none that can do its tasks is alive."
    )


class AgentFiguresAnswer(ResponseBody):
    """Statistics of an agent since its worker space started."""

    agent_id: int = Field(examples=[2])
    tasks_processed: int
    tasks_failed: int
    avg_processing_time: float = Field(description="Seconds.")
    last_activity: datetime | None
    error_rate: float = Field(description="0 to 1")


class SpaceSample(ResponseBody):
    """Statistics of a worker space at one point in time."""

    at: datetime
    active_tasks: int
    queued_tasks: int
    total_tasks_processed: int


class SpaceState(ResponseBody):
    """Statistics of a worker space."""

    user_id: int
    project_id: int
    user_prefix: str = Field(examples=["user1_project1"])
    active_agents: int = Field(examples=[4])
    cache_size: int = Field(examples=[4])
    queued_tasks: int
    active_tasks: int
    total_tasks_processed: int
    uptime: float = Field(description="Seconds.")
    is_healthy: bool
    direct_calls_count: int
    orchestrated_calls_count: int
    direct_average_ms: float = Field(description="Without the time spent waiting for decisions of the user.")
    orchestrated_average_ms: float = Field(description="Without the time spent waiting for decisions of the user.")
    history: list[SpaceSample] = Field(
        description="Samples of the last hour, every 30 seconds while the space is in use."
    )


class HealthDetail(ResponseBody):
    """A health problem."""

    part: str = Field(examples=["agent_error"])
    severity: str = Field(examples=["warning"])
    message: str


class SpaceHealth(ResponseBody):
    """Health of a worker space."""

    status: Literal["healthy", "degraded", "unhealthy"]
    details: list[HealthDetail]
    notes: list[str] = Field(description="Hints that do not affect the status.")


class Alert(ResponseBody):
    """An alert of a project."""

    id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    project_id: int = Field(examples=[1])
    kind: str = Field(examples=["agent_error"])
    severity: str = Field(examples=["warning"])
    message: str = Field(examples=["Agent 2 has failed several times in a row."])
    raised_at: datetime
    resolved_at: datetime | None = Field(description="Null while the alert is open.")


class ConnectorState(ResponseBody):
    """State of a project's connector, for `GET /my/projects/{id}/connector`."""

    online: bool
    connector_id: str | None = None
    workspace_name: str | None = None
    read_only: bool | None = None
    mode: str | None = Field(default=None, description="read-only, yes, terminal, browser or both")
    ask: Ask | None = Field(default=None, description="Where writes are approved; null if they are not asked about.")
    commands: list[str] = Field(default=[], description="Names of the commands that agents may run.")
    since: str | None = None
    machine: str | None = Field(default=None, description="Name of the computer.", examples=["laptop"])


class ConnectorChange(BaseModel):
    """Another mode for a connector, which may refuse it; what is not given stays."""

    model_config = ConfigDict(extra="forbid")

    ask: Ask | None = Field(default=None, description="Where to ask before writes.")
    read_only: bool | None = Field(default=None, description="Whether all writes are refused.")


class GrantShown(ResponseBody):
    """A permission that the user gave agents of a connected folder."""

    id: str = Field(examples=["9f60d8d3f6a1b2c0"])
    what: Literal["write", "run"]
    glob: str = Field(description="Paths, or the command line.", examples=["src/*.py"])
    since: datetime | None
    lasts: Literal["session", "always"] = Field(description="session: until the connector ends")


class FileName(ResponseBody):
    """A file or folder of the connected folder."""

    path: str = Field(examples=["src/app.py"])
    type: Literal["file", "directory"]


class FileNames(ResponseBody):
    """Files and folders whose path contains a text, best matches first."""

    items: list[FileName]
    truncated: bool = Field(description="Whether there are, or may be, more.")


class WorkspaceRecord(ResponseBody):
    """Record of a task workspace, available as soon as it is assigned."""

    workspace_id: int = Field(serialization_alias="workspaceId", description="Id of the agent that owns it.")
    workspace_path: str = Field(
        serialization_alias="workspacePath",
        description="Path relative to the server's data folder.",
        examples=["workspaces/2"],
    )
    created_at: datetime = Field(serialization_alias="createdAt", description="Time of assignment.")
    lazy_created: bool = Field(
        serialization_alias="lazyCreated", description="Whether the folder exists, which the first write creates."
    )


class WorkspaceInfo(ResponseBody):
    """Content statistics of a task workspace."""

    agent_id: int = Field(description="Agent that owns the task workspace: the agent itself or an ancestor.")
    file_count: int = Field(examples=[2])
    dir_count: int = Field(examples=[1])
    total_size: int = Field(description="Bytes of all files.", examples=[2048])
    last_modified: datetime | None = Field(description="Time of the last write; null if there are no files.")
    record: WorkspaceRecord


class WorkspaceFile(ResponseBody):
    """A file or folder in a task workspace."""

    name: str = Field(examples=["plan.md"])
    path: str = Field(description="Relative to the task workspace.", examples=["notes/plan.md"])
    type: Literal["file", "directory", "link", "other"]
    size: int = Field(description="Bytes; 0 if it is not a file.", examples=[1024])
    modified: datetime


class UsageSum(ResponseBody):
    """Number, tokens and cost of model calls."""

    calls: int = Field(examples=[12])
    input_tokens: int = Field(examples=[15_300])
    output_tokens: int = Field(examples=[2_400])
    cost_usd: float = Field(description="Cost of the calls with a known price.", examples=[0.42])
    unpriced_calls: int = Field(description="Calls without a known price.", examples=[0])


class UsageGroup(UsageSum):
    """Usage of one group; fields that are not grouped by are null."""

    day: date | None = Field(default=None, description="Day on which the turn ended (UTC).")
    project_id: int | None = None
    agent_id: int | None = None
    agent: str | None = Field(default=None, description="Empty for the orchestrator.", examples=["agent_coder"])
    model: str | None = Field(default=None, examples=["gpt-4o"])


class UsageReport(Page[UsageGroup]):
    """Your usage by group and in total."""

    first_day: date
    last_day: date
    sum: UsageSum = Field(description="Total of all groups on all pages.")
