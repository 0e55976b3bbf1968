"""Timeline of a session: messages, tool calls, approvals, plans, file changes, notices."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from artel.contract.chat import ChatMessage
from artel.contract.http import Answer

Kind = Literal["message", "tool_call", "approval", "plan", "file_change", "notice"]


class TimelineToolCall(Answer):
    """A tool call that changed no file of the user."""

    agent_id: int | None
    agent: str = Field(examples=["agent_coder"])
    tool: str = Field(examples=["tool_read_file"])
    arguments: dict[str, Any] = Field(description="Long values are shortened; contents are stored as size and hash.")
    status: str = Field(description="sent, done, unchanged, failed, refused, unknown or cancelled", examples=["done"])
    error: str | None
    approval_id: str | None


class TimelineApproval(Answer):
    """An approval and the user's decision."""

    kind: str = Field(description="tool, plan or budget", examples=["tool"])
    agent_id: int | None
    tool: str = Field(examples=["tool_write_file"])
    arguments: dict[str, Any] = Field(description="Long values are shortened.")
    details: dict[str, Any] = Field(
        description="Details shown to the user, such as the diff; long values are shortened."
    )
    risk: str
    status: str = Field(description="pending, approved, used, rejected, expired or withdrawn", examples=["used"])
    holds: str | None = Field(description="How long similar writes were approved.")
    feedback: str | None
    where: str | None = Field(description="Where the user was asked: terminal, browser or both.")
    expires_at: datetime
    decided_at: datetime | None


class TimelinePlan(Answer):
    """A plan of the orchestrator."""

    workflow_id: str
    status: str = Field(examples=["completed"])
    tasks: int = Field(examples=[3])
    tasks_done: int = Field(examples=[3])
    cost: float | None = Field(description="In dollars; null if a price is unknown.")


class FileOutcome(Answer):
    """Result of an undo for one file."""

    path: str
    outcome: str = Field(examples=["restored"])


class TimelineFileChange(Answer):
    """A change of a user's file by an agent, or its undo by the user."""

    agent: str = Field(description="Empty for an undo by the user.", examples=["agent_coder"])
    action: Literal["write", "edit", "delete", "undo"]
    path: str | None = Field(description="Null if all changes of the turn were undone.", examples=["src/app.py"])
    status: str = Field(description="done; for an undo also sent, failed, refused, unknown", examples=["done"])
    added: int | None = Field(description="Number of lines, if a diff was shown.")
    removed: int | None = Field(description="Number of lines, if a diff was shown.")
    undone: bool = Field(description="Whether the change was undone later.")
    files: list[FileOutcome] = Field(description="For an undo: the result per file.")
    approval_id: str | None


class TimelineNotice(Answer):
    """Why an answer is missing or incomplete."""

    code: str | None = Field(description="interrupted, cancelled, timeout, budget_exceeded, …", examples=["cancelled"])


class TimelineItem(Answer):
    """An entry of the timeline; the field with the name of its kind has the details."""

    id: str
    kind: Kind
    at: datetime
    turn_id: str | None
    text: str = Field(description="Description of the entry.", examples=["agent_coder wrote src/app.py."])
    message: ChatMessage | None = None
    tool_call: TimelineToolCall | None = None
    approval: TimelineApproval | None = None
    plan: TimelinePlan | None = None
    file_change: TimelineFileChange | None = None
    notice: TimelineNotice | None = None
