"""A workflow and its tasks as the rest of the server sees them. Money is in millionths of a dollar."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from artel.contract.parked_run import ParkedRun


class WorkflowStatus(StrEnum):
    """Where a workflow stands; the ones from COMPLETED on are terminal, until somebody asks for a retry."""

    PLANNING = "planning"
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows by itself any more."""
        return self not in (WorkflowStatus.PLANNING, WorkflowStatus.AWAITING_APPROVAL, WorkflowStatus.RUNNING)


class TaskStatus(StrEnum):
    """Where a task stands; the ones from COMPLETED on are terminal."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"  # a task that it depends on has failed
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows any more."""
        return self not in (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.WAITING)


OPEN = tuple(status for status in WorkflowStatus if not status.is_terminal)
OPEN_TASKS = tuple(status for status in TaskStatus if not status.is_terminal)


@dataclass(frozen=True, slots=True)
class Workflow:
    """A request to the orchestrator, and how it goes."""

    id: str
    project_id: int
    session_id: str
    turn_id: str
    status: WorkflowStatus
    request: str
    instruction: str
    plan_id: str | None
    planned_by: str | None
    estimate: dict[str, Any] | None
    limit_micros: int | None
    approved_at: datetime | None
    spent_micros: int
    price_unknown: bool
    answer: str | None
    error_code: str | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class WorkflowTask:
    """One task of a workflow; `id` is what the plan calls it."""

    workflow_id: str
    id: str
    project_id: int
    number: int
    agent_id: int | None
    agent: str
    description: str
    depends_on: list[str]
    status: TaskStatus
    attempts: int
    estimate: dict[str, Any] | None
    usage: dict[str, Any] | None
    cost_micros: int | None
    result: str | None
    error_code: str | None
    error: str | None
    parked: ParkedRun | None
    started_at: datetime | None
    finished_at: datetime | None
    seconds: float | None = None  # that its agent has worked, without waiting for a person
