"""Events of sessions and projects, as stored and streamed. `type` is the event's name, the fields are its data."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, NotRequired

from pydantic import BaseModel, ConfigDict, field_serializer
from typing_extensions import TypedDict

from artel.contract.approval_details import ApprovalDetails, PricedDetails
from artel.contract.chat import AnswerUsage


class EventData(BaseModel, defer_build=True):
    """The data of an event; session_id, turn_id and timestamp are added when it is sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: ClassVar[str]


class MessageFile(TypedDict):
    """A file that was attached to a message: lines of a text, width and height of an image in pixels."""

    id: str
    name: str
    media_type: str
    size: int
    kind: str
    lines: int | None
    width: int | None
    height: int | None


class MessageCreated(EventData):
    """A user's message was accepted."""

    type = "message_created"
    message_id: str
    role: str
    content: str
    retry_of: str | None = None  # the turn whose message was sent again
    attachments: list[MessageFile] = []


class MessageChanged(EventData):
    """A message that is still queued was changed."""

    type = "message_changed"
    message_id: str
    content: str


class AnswerContinued(EventData):
    """A new turn goes on with a cut-off answer."""

    type = "answer_continued"
    message_id: str  # the cut-off message


class DirectAgentCall(EventData):
    """A turn was sent directly to an agent."""

    type = "direct_agent_call"
    agent_id: int
    task_id: str


class AgentStatusChanged(EventData):
    """An agent's status changed."""

    type = "agent_status_changed"
    agent_id: int
    old_status: str
    new_status: str


class ContextRetrieved(EventData):
    """An agent's memory was searched for the task."""

    type = "context_retrieved"
    agent_id: int
    count: int
    scores: list[float]


class MessageCompleted(EventData):
    """An answer or a failure notice was stored."""

    type = "message_completed"
    message_id: str
    role: str
    content: str
    agent_id: int | None
    status: str = "ok"  # or failed, or cut_off for a partial answer
    error_code: str | None = None
    continues: str | None = None  # the cut-off message that it goes on from
    usage: AnswerUsage | None = None  # of the turn, on answers
    duration_ms: int | None = None  # from the acceptance to the end of the turn
    context: int | None = None  # number of memories in the prompt


class SessionChanged(EventData):
    """A session of the project was created, renamed or deleted, or its state changed."""

    type = "session_changed"
    session_id: str


class AgentCreated(EventData):
    """An agent was added to the project."""

    type = "agent_created"
    agent_id: int


class AgentChanged(EventData):
    """The settings of an agent of the project were changed."""

    type = "agent_changed"
    agent_id: int


class AgentDeleted(EventData):
    """An agent of the project was deleted."""

    type = "agent_deleted"
    agent_id: int


class PlanTask(TypedDict):
    """A task of a plan before it runs; the cost is null if a price is unknown."""

    id: str
    agent: str
    description: str
    depends_on: list[str]
    estimated_cost: float | None


class AgreedTask(TypedDict):
    """A task in what the user is asked to agree to; requests for more budget show no cost of each task."""

    id: str
    agent: str
    description: str
    depends_on: list[str]
    estimated_cost: NotRequired[float | None]


class TaskPlanCreated(EventData):
    """The orchestrator created a plan."""

    type = "task_plan_created"
    plan_id: str
    workflow_id: str
    tasks: list[PlanTask]
    planned_by: str
    estimated_cost: float | None
    estimated_cost_low: float
    estimated_cost_high: float
    estimated_duration: float


class ProposedPlan(TypedDict):
    """What the user is asked to agree to."""

    tasks: list[AgreedTask]


class PlanRequest(EventData):
    """A plan or a higher budget needs the user's approval; the turn waits."""

    type = "plan_request"
    approval_id: str
    workflow_id: str
    plan: ProposedPlan
    estimated_cost: float | None
    estimated_duration: float
    details: PricedDetails
    expires_at: datetime

    @field_serializer("details")
    def _shown(self, details: PricedDetails) -> dict[str, Any]:
        return details.shown()


class TaskProgress(EventData):
    """A task made progress."""

    type = "task_progress"
    task_id: str
    state: str
    elapsed_seconds: float
    phase: str
    workflow_id: str | None = None  # set for plans and their tasks


class TaskStarted(EventData):
    """An agent started a task."""

    type = "task_started"
    task_id: str
    agent_id: int


class TaskCompleted(EventData):
    """A task was completed."""

    type = "task_completed"
    task_id: str
    result: str
    duration: float


class TaskFailed(EventData):
    """A task failed."""

    type = "task_failed"
    task_id: str
    code: str
    error: str


class TaskCancelled(EventData):
    """A task was cancelled."""

    type = "task_cancelled"
    task_id: str


class TurnUsage(TypedDict, total=False):
    """Tokens and cost of a turn; empty if no model was called."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    calls: int


class TurnCompleted(EventData):
    """A turn was completed."""

    type = "turn_completed"
    status: str
    usage: TurnUsage


class TurnFailed(EventData):
    """A turn failed."""

    type = "turn_failed"
    status: str
    code: str
    error: str


class TurnCancelled(EventData):
    """A turn was cancelled."""

    type = "turn_cancelled"
    status: str


class ToolCalled(EventData):
    """An agent called a tool."""

    type = "tool_called"
    task_id: str
    agent_id: int
    tool: str
    call_id: str


class ToolReturned(EventData):
    """A tool returned a result."""

    type = "tool_result"
    task_id: str
    agent_id: int
    tool: str
    call_id: str
    success: bool
    error: str | None


class ToolRequest(EventData):
    """A tool call needs the user's approval; the run waits."""

    type = "tool_request"
    approval_id: str
    task_id: str
    agent_id: int
    tool: str
    arguments: dict[str, Any]  # from the model
    risk: str
    details: ApprovalDetails
    expires_at: datetime

    @field_serializer("details")
    def _shown(self, details: ApprovalDetails) -> dict[str, Any]:
        return details.shown()


class ApprovalResolved(EventData):
    """The user decided an approval."""

    type = "approval_resolved"
    approval_id: str
    decision: str
    feedback: str


class ApprovalExtended(EventData):
    """The user has more time to decide an approval."""

    type = "approval_extended"
    approval_id: str
    expires_at: datetime


class ApprovalTimeoutWarning(EventData):
    """An approval expires soon."""

    type = "approval_timeout_warning"
    approval_id: str
    seconds_left: int


class ApprovalTimeout(EventData):
    """An approval expired."""

    type = "approval_timeout"
    approval_id: str


class ApprovalRequired(EventData):
    """A run in the project waits for the user's approval."""

    type = "approval_required"
    approval_id: str
    session_of_approval: str
    tool: str
    expires_at: datetime


class ConnectorOnline(EventData):
    """A connector came online."""

    type = "connector_online"
    connector_id: str
    workspace_name: str
    read_only: bool


class ConnectorChanged(EventData):
    """The mode of a connector was changed on the page."""

    type = "connector_changed"
    connector_id: str
    mode: str
    read_only: bool


class ConnectorOffline(EventData):
    """A connector went offline."""

    type = "connector_offline"
    connector_id: str


class AlertRaised(EventData):
    """An alert was raised."""

    type = "alert"
    alert_id: str
    kind: str
    severity: str
    message: str


class AlertResolved(EventData):
    """An alert was resolved."""

    type = "alert_resolved"
    kind: str
    subject: str


@dataclass(frozen=True)
class StoredEvent:
    """A stored event with its number in the session or project."""

    number: int
    type: str
    timestamp: datetime
    data: dict[str, Any]
    session_id: str | None = None
    turn_id: str | None = None
    project_id: int | None = None

    @cached_property
    def frame(self) -> bytes:
        """The event as a server-sent event; cached for all readers."""
        if self.session_id is None:  # an event of a project
            ids: dict[str, Any] = {"project_id": self.project_id}
        else:
            ids = {"session_id": self.session_id, "turn_id": self.turn_id}
        data = json.dumps({**ids, "timestamp": self.timestamp.isoformat(), **self.data}, ensure_ascii=False)
        return f"id: {self.number}\nevent: {self.type}\ndata: {data}\n\n".encode()
