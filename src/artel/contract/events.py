"""What happens in a session, as it is stored and streamed. `type` is the event's name, the fields are its data."""

from datetime import datetime
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


class StoredEvent(BaseModel):
    """An event with its number in the session."""

    model_config = ConfigDict(frozen=True)

    number: int
    type: str
    session_id: str
    turn_id: str | None
    timestamp: datetime
    data: dict[str, Any]
