"""Ends the workflow of a turn that was cancelled, reset or interrupted by a crash."""

from datetime import UTC, datetime

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.contract.events import EventData, TaskCancelled, TaskFailed
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.plans.workflow import OPEN, TaskStatus, WorkflowStatus


def end_workflow_of(
    connection: Connection, principal: Principal, turn_id: str, status: str, code: str | None, text: str
) -> tuple[str | None, list[EventData]]:
    """End the workflow of an ended turn and its unfinished tasks; idempotent.

    Return the workflow's id, or None if it had ended before, and the events of its tasks. Completed tasks stay, so
    that a retry continues from there.
    """
    workflow = WorkflowRepository(connection, principal).of_turn(turn_id)
    if workflow is None or workflow.status.is_terminal:
        return None, []
    ended = WorkflowRepository(connection, principal).move(
        workflow.id,
        OPEN,
        status=WorkflowStatus(status),
        error_code=code,
        error=text if code else None,
        finished_at=datetime.now(UTC),
    )
    if not ended:
        return None, []
    tasks = TaskRepository(connection, principal)
    failed = TaskStatus.CANCELLED if status == WorkflowStatus.CANCELLED else TaskStatus.FAILED
    events: list[EventData] = []
    for task in tasks.end_unfinished(workflow.id, failed, code or "interrupted", text):
        if task.status is TaskStatus.RUNNING and failed is TaskStatus.FAILED:
            events.append(TaskFailed(task_id=task.id, code=code or "interrupted", error=text))
        elif task.status is not TaskStatus.PENDING:
            events.append(TaskCancelled(task_id=task.id))
    return workflow.id, events
