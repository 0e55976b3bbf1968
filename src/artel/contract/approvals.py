"""What the HTTP API says of approvals, of calls of tools, and of taking back what they did."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Holds = Literal["once", "session", "always"]


class TaskChange(BaseModel):
    """What the user wants otherwise in one task of a plan."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=64, examples=["2"])
    drop: bool = Field(False, description="Leave the task out.")
    agent: str | None = Field(None, max_length=63, examples=["agent_writer"])
    description: str | None = Field(None, max_length=4_000)


class ApprovalChanges(BaseModel):
    """What else the user decides with an approval."""

    model_config = ConfigDict(extra="forbid")

    tasks: list[TaskChange] = Field(default_factory=list, max_length=20, description="For plans: what to change.")

    holds: Holds = Field("once", description="For how long writes like this one are approved, at the connector.")


class NewDecision(BaseModel):
    """The user's decision."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["approve", "reject"] = Field(examples=["approve"])
    feedback: str = Field("", max_length=2_000, description="What the agent should know, when it is refused.")
    instruction: str = Field("", max_length=2_000, description="For plans: what every task should know.")
    changes: ApprovalChanges = Field(default_factory=ApprovalChanges)


class ApprovalState(BaseModel):
    """What the user is asked, and what they said."""

    id: str
    project_id: int
    session_id: str
    turn_id: str
    agent_id: int | None
    kind: str
    tool: str
    arguments: dict[str, Any]
    details: dict[str, Any]
    risk: str
    status: str
    feedback: str | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None


class AuditedCall(BaseModel):
    """A call of a tool, as it is on record; contents are kept as size and hash."""

    id: str
    session_id: str | None
    turn_id: str | None
    agent_id: int | None
    agent: str
    tool: str
    arguments: dict[str, Any]
    level: str
    status: str
    error: str | None
    connector_id: str | None
    approval_id: str | None
    created_at: datetime
    finished_at: datetime | None


class NewUndo(BaseModel):
    """What to take back: what a turn has changed, the newest change of a file, or the newest turn."""

    model_config = ConfigDict(extra="forbid")

    turn_id: str | None = Field(None, max_length=64, pattern=r"^[0-9a-zA-Z-]+$", description="Of this turn.")
    path: str | None = Field(
        None, min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$", description="Only this file."
    )


class UndoneFile(BaseModel):
    """What became of a file that an agent had changed."""

    path: str
    turn_id: str
    outcome: Literal["restored", "removed", "changed_since", "not_kept", "failed"] = Field(
        description="It is as it was; it was made by the agent and is gone; or it stays as it is, and why."
    )


class Undone(BaseModel):
    """What was taken back, file by file."""

    files: list[UndoneFile]


class ToolShown(BaseModel):
    """A tool that agents of the project can have."""

    name: str
    level: str
    description: str
    enabled: bool
    problem: str | None = None  # why no tool can be used: stored settings that must be corrected
    requires_approval: bool
    parameters: dict[str, Any]
