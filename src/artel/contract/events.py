"""What happens in a session, as it is stored and streamed. `type` is the event's name, the fields are its data."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class EventData(BaseModel):
    """The data of an event; session_id, turn_id and timestamp are added when it is sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: ClassVar[str]


class MessageCreated(EventData):
    """A message of the user was accepted."""

    type = "message_created"
    message_id: str
    role: str
    content: str
    retry_of: str | None = None  # the turn whose message was sent again


class DirectAgentCall(EventData):
    """A turn goes straight to an agent."""

    type = "direct_agent_call"
    agent_id: int
    task_id: str


class AgentStatusChanged(EventData):
    """An agent began or ended work."""

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
    """An answer, or the note of a failure, is in the history."""

    type = "message_completed"
    message_id: str
    role: str
    content: str
    agent_id: int | None
    status: str = "ok"  # or failed, or cut_off for a part of an answer
    error_code: str | None = None


class TaskPlanCreated(EventData):
    """The orchestrator has a plan."""

    type = "task_plan_created"
    plan_id: str
    workflow_id: str
    tasks: list[dict[str, Any]]
    planned_by: str
    estimated_cost: float | None
    estimated_cost_low: float
    estimated_cost_high: float
    estimated_duration: float


class PlanRequest(EventData):
    """A plan is carried out only if the user approves it, or lets it cost more; the turn waits."""

    type = "plan_request"
    approval_id: str
    workflow_id: str
    plan: dict[str, Any]
    estimated_cost: float | None
    estimated_duration: float
    details: dict[str, Any]
    expires_at: datetime


class TaskProgress(EventData):
    """A task goes on."""

    type = "task_progress"
    task_id: str
    state: str
    elapsed_seconds: float
    phase: str
    workflow_id: str | None = None  # of tasks of a plan, and of the plan itself


class TaskStarted(EventData):
    """A task of an agent has begun."""

    type = "task_started"
    task_id: str
    agent_id: int


class TaskCompleted(EventData):
    """A task has its result."""

    type = "task_completed"
    task_id: str
    result: str
    duration: float


class TaskFailed(EventData):
    """A task has failed."""

    type = "task_failed"
    task_id: str
    code: str
    error: str


class TaskCancelled(EventData):
    """A task was cancelled."""

    type = "task_cancelled"
    task_id: str


class TurnCompleted(EventData):
    """A turn has ended well."""

    type = "turn_completed"
    status: str
    usage: dict[str, Any]


class TurnFailed(EventData):
    """A turn has ended badly."""

    type = "turn_failed"
    status: str
    code: str
    error: str


class TurnCancelled(EventData):
    """A turn was cancelled."""

    type = "turn_cancelled"
    status: str


class ToolCalled(EventData):
    """An agent calls a tool."""

    type = "tool_called"
    task_id: str
    agent_id: int
    tool: str
    call_id: str


class ToolReturned(EventData):
    """A tool has answered."""

    type = "tool_result"
    task_id: str
    agent_id: int
    tool: str
    call_id: str
    success: bool
    error: str | None


class ToolRequest(EventData):
    """An agent may call a tool only if the user approves it; the run waits."""

    type = "tool_request"
    approval_id: str
    task_id: str
    agent_id: int
    tool: str
    arguments: dict[str, Any]
    risk: str
    details: dict[str, Any]
    expires_at: datetime


class ApprovalResolved(EventData):
    """The user has decided."""

    type = "approval_resolved"
    approval_id: str
    decision: str
    feedback: str


class ApprovalTimeoutWarning(EventData):
    """Somebody should decide soon."""

    type = "approval_timeout_warning"
    approval_id: str
    seconds_left: int


class ApprovalTimeout(EventData):
    """Nobody has decided in time."""

    type = "approval_timeout"
    approval_id: str


class ApprovalRequired(EventData):
    """Somewhere in the project a run waits for the user."""

    type = "approval_required"
    approval_id: str
    session_of_approval: str
    tool: str
    expires_at: datetime


class ConnectorOnline(EventData):
    """The user's files can be reached."""

    type = "connector_online"
    connector_id: str
    workspace_name: str
    read_only: bool


class ConnectorOffline(EventData):
    """The user's files can't be reached any more."""

    type = "connector_offline"
    connector_id: str


class AlertRaised(EventData):
    """Something needs a look."""

    type = "alert"
    alert_id: str
    kind: str
    severity: str
    message: str


class AlertResolved(EventData):
    """What an alert told of is over."""

    type = "alert_resolved"
    kind: str
    subject: str


@dataclass(frozen=True)
class StoredEvent:
    """An event with its number in the session, or in the project."""

    number: int
    type: str
    timestamp: datetime
    data: dict[str, Any]
    session_id: str | None = None
    turn_id: str | None = None
    project_id: int | None = None

    @cached_property
    def frame(self) -> bytes:
        """The event as it is streamed; made once, however many read it."""
        if self.session_id is None:
            place: dict[str, Any] = {"project_id": self.project_id}
        else:
            place = {"session_id": self.session_id, "turn_id": self.turn_id}
        data = json.dumps({**place, "timestamp": self.timestamp.isoformat(), **self.data}, ensure_ascii=False)
        return f"id: {self.number}\nevent: {self.type}\ndata: {data}\n\n".encode()
