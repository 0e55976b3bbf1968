"""What happened in a session, as a user sees it again."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from artel.contract.chat import ChatMessage
from artel.contract.http import Answer

Kind = Literal["message", "tool_call", "approval", "plan", "file_change", "notice"]


class TimelineToolCall(Answer):
    """A call of a tool that changed no file of the user."""

    agent_id: int | None
    agent: str = Field(examples=["agent_coder"])
    tool: str = Field(examples=["tool_read_file"])
    arguments: dict[str, Any] = Field(description="Long values are shortened; contents are kept as size and hash.")
    status: str = Field(description="sent, done, unchanged, failed, refused, unknown or cancelled", examples=["done"])
    error: str | None
    approval_id: str | None


class TimelineApproval(Answer):
    """What the user was asked, and what they decided."""

    kind: str = Field(description="tool, plan or budget", examples=["tool"])
    agent_id: int | None
    tool: str = Field(examples=["tool_write_file"])
    arguments: dict[str, Any] = Field(description="Long values are shortened.")
    details: dict[str, Any] = Field(description="What the user was shown, such as the diff; long values are shortened.")
    risk: str
    status: str = Field(description="pending, approved, used, rejected, expired or withdrawn", examples=["used"])
    holds: str | None = Field(description="For how long such writes were approved.")
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
    cost: float | None = Field(description="In dollars; null when a price is not known.")


class FileOutcome(Answer):
    """What became of a file that was to be put back."""

    path: str
    outcome: str = Field(examples=["restored"])


class TimelineFileChange(Answer):
    """A file of the user that an agent has changed, or that the user has put back."""

    agent: str = Field(description="Empty for what the user has put back.", examples=["agent_coder"])
    action: Literal["write", "edit", "delete", "undo"]
    path: str | None = Field(description="None if all changes of the turn were put back.", examples=["src/app.py"])
    status: str = Field(description="done; of an undo also sent, failed, refused, unknown", examples=["done"])
    added: int | None = Field(description="Lines, if the user was shown what would change.")
    removed: int | None = Field(description="Lines, if the user was shown what would change.")
    undone: bool = Field(description="Whether it was put back since.")
    files: list[FileOutcome] = Field(description="Of an undo: what became of each file.")
    approval_id: str | None


class TimelineNotice(Answer):
    """Why a message has no answer, or only a part of one."""

    code: str | None = Field(description="interrupted, cancelled, timeout, budget_exceeded, …", examples=["cancelled"])


class TimelineItem(Answer):
    """Something that happened; the field that is called like its kind has the rest."""

    id: str
    kind: Kind
    at: datetime
    turn_id: str | None
    text: str = Field(description="What happened, in words.", examples=["agent_coder wrote src/app.py."])
    message: ChatMessage | None = None
    tool_call: TimelineToolCall | None = None
    approval: TimelineApproval | None = None
    plan: TimelinePlan | None = None
    file_change: TimelineFileChange | None = None
    notice: TimelineNotice | None = None
