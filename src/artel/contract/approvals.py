"""Approvals, audited tool calls and undo."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from artel.contract.connector import Holds
from artel.contract.events import AgreedTask, PlanTask
from artel.contract.http import ResponseBody


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TaskChange(_Request):
    """The user's change of one task of a plan, or a new task: one with a new id, an agent and a description."""

    id: str = Field(max_length=64, examples=["2"])
    drop: bool = Field(False, description="Remove the task; its dependants then depend on its dependencies.")
    agent: str | None = Field(None, max_length=63, examples=["agent_writer"])
    description: str | None = Field(None, max_length=4_000)
    depends_on: list[Annotated[str, Field(max_length=64)]] | None = Field(
        None, max_length=20, description="Ids of the tasks that must end first; replaces those of the plan."
    )


class ApprovalChanges(_Request):
    """Additional choices with an approval."""

    tasks: list[TaskChange] = Field(
        default_factory=list, max_length=40, description="For plans: changed, removed and new tasks."
    )
    holds: Holds = Field("once", description="For connector writes: how long similar writes are approved.")
    limit_usd: float | None = Field(
        None,
        gt=0,
        le=1_000_000,
        description="For plans: stop and ask again at this cost, if it is less than the estimate allows. With changed "
        "tasks: what is agreed to, so that a higher price of the changed plan asks nothing before that.",
        examples=[1.0],
    )


class NewDecision(_Request):
    """The user's decision."""

    decision: Literal["approve", "reject"] = Field(examples=["approve"])
    feedback: str = Field("", max_length=2_000, description="Message to the agent on rejection.")
    instruction: str = Field("", max_length=2_000, description="For plans: instruction for every task.")
    changes: ApprovalChanges = Field(default_factory=ApprovalChanges)


class NewExtension(_Request):
    """More time for the user's decision."""

    seconds: int = Field(1_800, ge=60, le=86_400, description="At most 24 hours from now in all.")


class PlanChanges(_Request):
    """Changes of a plan whose price is wanted."""

    changes: ApprovalChanges = Field(default_factory=ApprovalChanges)


class WorkflowRetry(_Request):
    """Changes of the tasks that did not succeed, before they are tried again."""

    tasks: list[TaskChange] = Field(
        default_factory=list,
        max_length=40,
        description="Tasks to leave out, to give to another agent or to describe in other words, and new ones.",
        examples=[[{"id": "2", "agent": "agent_writer"}, {"id": "3", "drop": True}]],
    )


class PlanPrice(ResponseBody):
    """A changed plan and its price in dollars; nothing is stored."""

    tasks: list[PlanTask]
    estimated_cost: float | None = Field(description="Null if the price of a model is unknown.")
    estimated_cost_low: float
    estimated_cost_high: float
    estimated_duration: float = Field(description="Seconds.")
    unknown_prices: list[str] = Field(description="Models whose price is unknown.")


class ApprovalState(ResponseBody):
    """An approval and the user's decision."""

    id: str
    project_id: int
    project_name: str | None
    session_id: str
    session_title: str | None
    turn_id: str
    agent_id: int | None
    agent: str | None = Field(description="Name of the agent; null for plans, and if the agent was deleted.")
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


class AuditedCall(ResponseBody):
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


class NewUndo(_Request):
    """What to undo: a turn's changes, the last change of a file, or by default the last turn."""

    turn_id: str | None = Field(
        None, max_length=64, pattern=r"^[0-9a-zA-Z-]+$", description="Undo the changes of this turn."
    )
    path: str | None = Field(
        None, min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$", description="Undo only this file."
    )
    if_match: str | None = Field(
        None,
        max_length=64,
        pattern=r"^([0-9a-f]{64})?$",
        description="With turn_id and path: put the file back although it was changed since, if this is the SHA-256 "
        "that it has now (empty: it does not exist).",
    )

    @model_validator(mode="after")
    def _names_one_file(self) -> Self:
        if self.if_match is not None and (self.turn_id is None or self.path is None):
            raise ValueError("if_match needs turn_id and path")
        return self


class NewRedo(_Request):
    """What to redo: what was undone of a turn, or of one of its files."""

    turn_id: str = Field(max_length=64, pattern=r"^[0-9a-zA-Z-]+$", description="Redo the changes of this turn.")
    path: str | None = Field(
        None, min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$", description="Redo only this file."
    )


class UndoComparison(ResponseBody):
    """What the undo of a file would change now."""

    path: str
    diff: str = Field(description="From the file as it is now to what is put back; cut if it is long.")
    notice: str | None = Field(description="About hidden characters in the part that is not shown.")
    sha256: str = Field(description="Of the file now, for `if_match`; empty if it does not exist.")


class UndoneFile(BaseModel):
    """Result of an undo or redo for one file."""

    path: str
    turn_id: str
    outcome: Literal["restored", "removed", "changed_since", "not_kept", "failed"] = Field(
        description="restored; removed (a redo: deleted again); or why the file was not touched."
    )


class Undone(BaseModel):
    """Result of an undo or redo, per file."""

    files: list[UndoneFile]


class ChangedFile(ResponseBody):
    """What a turn did to one file."""

    path: str = Field(examples=["src/app.py"])
    action: Literal["write", "edit", "delete"] = Field(description="Of the last change.")
    added: int | None = Field(description="Lines; null if no diff is stored for a change.")
    removed: int | None
    undone: bool
    approval_id: str | None = Field(description="Approval of the last change; null if it needed none.")
    call_id: str | None = Field(
        description="Last change, for `GET /my/projects/{project_id}/changes/{call_id}`; null without a stored diff.",
    )
    changes: int = Field(description="Number of changes.", examples=[1])


class TurnChanges(ResponseBody):
    """What a turn changed in the connected folder."""

    turn_id: str
    session_id: str | None
    session_title: str | None = Field(description="Null if the session was deleted.")
    at: datetime = Field(description="Time of the last change.")
    agent: str = Field(description="Name of the agent, or of several.", examples=["agent_coder"])
    files: list[ChangedFile]


class FileDiff(ResponseBody):
    """What one call of a tool changed in a file."""

    id: str = Field(description="Id of the tool call, and of the entry in the timeline.")
    agent: str = Field(examples=["agent_coder"])
    action: Literal["write", "edit", "delete"]
    path: str = Field(examples=["src/app.py"])
    at: datetime
    diff: str = Field(description="Cut if it is long.")
    holds: str | None = Field(
        description="How it was allowed: once, session or always; yes if the folder was connected with `--yes`. Null "
        "if it is not known.",
        examples=["session"],
    )
    grant: str | None = Field(description="The grant because of which you were not asked.", examples=["write ./*.py"])


class ToolShown(BaseModel):
    """A tool that is available to the project's agents."""

    name: str
    level: str
    description: str
    enabled: bool
    problem: str | None = None  # why all tools are disabled: the stored settings are invalid
    requires_approval: bool
    parameters: dict[str, Any]


class PlanArguments(BaseModel):
    """What the approval of a plan or of its budget is bound to: exactly these tasks, for at most this cost.

    HTTP shows it as the `arguments` of the approval and its hash is stored, so it has no version: new fields need a
    default.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    workflow_id: str
    plan_id: str | None = None
    tasks: list[AgreedTask]
    limit_micros: int

    def dump(self) -> dict[str, JsonValue]:
        """Return the arguments as they are stored."""
        return self.model_dump(mode="json")
