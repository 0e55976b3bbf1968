"""The life of a plan's task in the database. Each function is one transaction; the session's row orders them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from artel.agent_memory.repository import NewMemory
from artel.agent_memory.transactions import remember
from artel.approvals.approval import Approval
from artel.approvals.repository import ApprovalRepository
from artel.auth.principal import Principal
from artel.budgets.plan_spending import Spent
from artel.contract.events import EventData
from artel.events.session_log import SessionLog
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.plans.workflow import OPEN, OPEN_TASKS, TaskStatus, WorkflowTask
from artel.turns.lease import Lease, require_lease
from artel.turns.transactions import TurnOver
from artel.turns.turn import Turn

DEPENDENCY_FAILED = "dependency_failed"


def no_result(task_id: str) -> str:
    """Return why a task was not started."""
    return f"Task {task_id} has no result."


def start_task(
    connection: Connection,
    principal: Principal,
    turn: Turn,
    task: WorkflowTask,
    told: Sequence[EventData],
    lease: Lease | None,
) -> None:
    """Mark a task as running; raise TurnOver if the turn has ended."""
    values = {"status": task.status, "attempts": task.attempts, "parked": None, "started_at": task.started_at}
    _change_task(connection, principal, turn, task, values, told, lease)


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """What became of a task, of those that can't be begun because of it, and what is told and remembered of it."""

    task: WorkflowTask
    told: Sequence[EventData]
    spent: Spent
    aborted: Sequence[str] = ()
    memories: Sequence[NewMemory] = ()


def end_task(connection: Connection, principal: Principal, turn: Turn, end: TaskEnd, lease: Lease | None) -> None:
    """Store what became of a task."""
    now, task = datetime.now(UTC), end.task
    names = ("status", "usage", "cost_micros", "result", "error_code", "error", "seconds")
    values = {name: getattr(task, name) for name in names}
    values |= {"finished_at": now, "parked": None}
    if not _change_task(connection, principal, turn, task, values, end.told, lease):
        return
    _note_spent(connection, principal, task.workflow_id, end.spent)
    rows = TaskRepository(connection, principal)
    gone: dict[str, Any] = {"status": TaskStatus.ABORTED, "error_code": DEPENDENCY_FAILED, "finished_at": now}
    gone |= {"error": no_result(task.id)}
    for one in end.aborted:
        rows.move(task.workflow_id, one, OPEN_TASKS, **gone)
    if end.memories and task.agent_id is not None:
        remember(connection, principal, turn.project_id, task.agent_id, end.memories)


def park_task(
    connection: Connection,
    principal: Principal,
    turn: Turn,
    task: WorkflowTask,
    approval: Approval | None,
    told: Sequence[EventData],
    spent: Spent,
    lease: Lease | None,
) -> None:
    """Let a task wait for the user; the turn goes on as long as others have something to do."""
    values = {"status": TaskStatus.WAITING, "parked": task.parked, "usage": task.usage, "cost_micros": task.cost_micros}
    if not _change_task(connection, principal, turn, task, values, told, lease):
        return
    _note_spent(connection, principal, task.workflow_id, spent)
    if approval is not None:
        ApprovalRepository(connection, principal).add(approval)


def _change_task(
    connection: Connection,
    principal: Principal,
    turn: Turn,
    task: WorkflowTask,
    values: Mapping[str, Any],
    told: Sequence[EventData],
    lease: Lease | None,
) -> bool:
    """Change a task of a turn that goes on; False if it was changed so before, and nobody heard of it."""
    require_lease(connection, principal, turn.project_id, lease)
    log = SessionLog(connection, principal, turn.session_id, 0)
    if not WorkflowRepository(connection, principal).is_worked_on_by(task.workflow_id, turn.id):
        raise TurnOver
    rows = TaskRepository(connection, principal)
    now = rows.standing(task.workflow_id, task.id)
    if all(now[name] == values[name] for name in now if name in values):
        return False
    if not rows.move(task.workflow_id, task.id, OPEN_TASKS, **values):
        raise TurnOver
    if told:
        log.expect(len(told))
        log.write(turn.id, *told)
    return True


def _note_spent(connection: Connection, principal: Principal, workflow_id: str, spent: Spent) -> None:
    values = {"spent_micros": spent[0], "price_unknown": spent[1]}
    WorkflowRepository(connection, principal).move(workflow_id, OPEN, **values)
