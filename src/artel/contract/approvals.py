"""What the HTTP API says of approvals and of calls of tools."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Holds = Literal["once", "session", "always"]


class ApprovalChanges(BaseModel):
    """What else the user decides with an approval."""

    model_config = ConfigDict(extra="forbid")

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


class ToolShown(BaseModel):
    """A tool that agents of the project can have."""

    name: str
    level: str
    description: str
    enabled: bool
    requires_approval: bool
    parameters: dict[str, Any]
