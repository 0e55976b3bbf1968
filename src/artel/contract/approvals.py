"""Approvals, audited tool calls and undo in the HTTP API."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from artel.contract.http import Answer

Holds = Literal["once", "session", "always"]


class TaskChange(BaseModel):
    """The user's change of one task of a plan."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=64, examples=["2"])
    drop: bool = Field(False, description="Remove the task from the plan.")
    agent: str | None = Field(None, max_length=63, examples=["agent_writer"])
    description: str | None = Field(None, max_length=4_000)


class ApprovalChanges(BaseModel):
    """Additional choices with an approval."""

    model_config = ConfigDict(extra="forbid")

    tasks: list[TaskChange] = Field(default_factory=list, max_length=20, description="For plans: changes of tasks.")

    holds: Holds = Field("once", description="For connector writes: how long similar writes are approved.")


class NewDecision(BaseModel):
    """The user's decision."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["approve", "reject"] = Field(examples=["approve"])
    feedback: str = Field("", max_length=2_000, description="Message to the agent on rejection.")
    instruction: str = Field("", max_length=2_000, description="For plans: instruction for every task.")
    changes: ApprovalChanges = Field(default_factory=ApprovalChanges)


class ApprovalState(Answer):
    """An approval and the user's decision."""

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


class AuditedCall(Answer):
    """A tool call in the audit log; contents are stored as size and hash."""

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
    """What to undo: a turn's changes, the last change of a file, or by default the last turn."""

    model_config = ConfigDict(extra="forbid")

    turn_id: str | None = Field(
        None, max_length=64, pattern=r"^[0-9a-zA-Z-]+$", description="Undo the changes of this turn."
    )
    path: str | None = Field(
        None, min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$", description="Undo only this file."
    )


class UndoneFile(BaseModel):
    """Result of the undo for one file."""

    path: str
    turn_id: str
    outcome: Literal["restored", "removed", "changed_since", "not_kept", "failed"] = Field(
        description="restored; removed (the agent had created it); or why the file was not touched."
    )


class Undone(BaseModel):
    """Result of an undo, per file."""

    files: list[UndoneFile]


class ToolShown(BaseModel):
    """A tool that is available to the project's agents."""

    name: str
    level: str
    description: str
    enabled: bool
    problem: str | None = None  # why all tools are disabled: the stored settings are invalid
    requires_approval: bool
    parameters: dict[str, Any]
