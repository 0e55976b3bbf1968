"""Transactions on workflows and their tasks; the session's row orders them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from artel import kill_points
from artel.agent_memory.repository import NewMemory
from artel.agent_memory.transactions import remember
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.repository import ApprovalRepository
from artel.auth.principal import Principal
from artel.brain.brain import Usage
from artel.budgets.money import micros
from artel.budgets.month import Month, shortage
from artel.budgets.repository import Budget, BudgetRepository
from artel.budgets.spending import Spent
from artel.contract.events import EventData, TaskProgress
from artel.contract.http import Agent
from artel.contract.parked_run import ParkedRun
from artel.db.hints import MemoriesChanged, TurnParked, WorkWaiting
from artel.db.tx import Tx
from artel.errors import WorkflowNotFound
from artel.events.session_log import SessionLog
from artel.ids import uuid7
from artel.plans.plan import (
    OPEN,
    OPEN_TASKS,
    PlannedTask,
    TaskGraph,
    TaskStatus,
    Workflow,
    WorkflowStatus,
    WorkflowTask,
)
from artel.plans.pricing import PlanEstimate, PlanLimits
from artel.plans.proposal import Proposal, approval_of, plan_created, plan_request, task_rows
from artel.plans.repository import PlanCacheRepository, TaskRepository, WorkflowRepository
from artel.projects.transactions import get_project, project_settings
from artel.sessions.message_repository import StoredMessage
from artel.turns.repository import TurnRepository
from artel.turns.transactions import TurnOver, start_turn
from artel.turns.turn import Turn, TurnStatus

CACHE_HOURS = 24.0
MAX_CACHED = 200
DEPENDENCY_FAILED = "dependency_failed"


class MonthTooShort(Exception):
    """A plan that was approved may need more than is left of the month, and the user does not know."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What is known when a turn of the orchestrator begins, or goes on."""

    workflow: Workflow
    tasks: list[WorkflowTask]
    said: list[StoredMessage]
    agents: list[Agent]
    limits: PlanLimits
    decision: Approval | None
    month: Month | None  # what limits calls of the project in this month, if anything does


def add_workflow(tx: Tx, turn: Turn, workflow_id: str, request: str) -> None:
    """Store that a turn asks for a plan; in the transaction that accepts its message."""
    WorkflowRepository(tx).add(
        Workflow(
            id=workflow_id,
            project_id=turn.project_id,
            session_id=turn.session_id,
            turn_id=turn.id,
            status=WorkflowStatus.PLANNING,
            request=request,
            instruction="",
            plan_id=None,
            planned_by=None,
            estimate=None,
            limit_micros=None,
            approved_at=None,
            spent_micros=0,
            price_unknown=False,
            answer=None,
            error_code=None,
            error=None,
            created_at=turn.created_at,
            started_at=None,
            finished_at=None,
        )
    )


@kill_points.transaction("plan.begin")
def begin(
    tx: Tx,
    turn: Turn,
    history: int,
    default_user_micros: int | None = None,
) -> Begun:
    """Mark the turn as running, and answer everything that it takes to go on; raise TurnOver if it is not its turn."""
    started = start_turn(tx, turn, None, history, default_user_micros)
    rows = WorkflowRepository(tx)
    workflow = rows.of_turn(turn.id)
    if workflow is None:  # an older version has accepted it
        add_workflow(tx, turn, uuid7(), started.messages[-1].content if started.messages else "")
        workflow = rows.of_turn(turn.id)
    if workflow is None:
        raise WorkflowNotFound("Workflow not found")
    if workflow.status is WorkflowStatus.PLANNING:
        SessionLog(tx, turn.session_id, 1).write(turn.id, planning(workflow, turn.id))
    asked = ApprovalRepository(tx).of_turn(turn.id, *ApprovalStatus)
    plans = [one for one in asked if one.kind != "tool"]
    return Begun(
        workflow=workflow,
        tasks=TaskRepository(tx).of(workflow.id),
        said=started.messages,
        agents=list(get_project(tx.connection, tx.principal, turn.project_id).team),
        limits=PlanLimits.of(project_settings(tx.connection, tx.principal, turn.project_id)),
        decision=plans[-1] if plans else None,
        month=started.month,
    )


def planning(workflow: Workflow, turn_id: str) -> TaskProgress:
    """Return the event that planning has started."""
    return TaskProgress(
        task_id=turn_id, state="running", elapsed_seconds=0.0, phase="planning", workflow_id=workflow.id
    )


def plan_again(
    tx: Tx,
    turn: Turn,
    workflow: Workflow,
) -> Workflow:
    """Note that another plan is being made; raise TurnOver if the turn has ended."""
    log = SessionLog(tx, turn.session_id, 0)
    rows = WorkflowRepository(tx)
    now_stands = rows.get(workflow.id)
    if now_stands.turn_id != turn.id or now_stands.status.is_terminal:
        raise TurnOver
    if now_stands.status is not WorkflowStatus.PLANNING:
        rows.move(workflow.id, OPEN, status=WorkflowStatus.PLANNING)
        log.write(turn.id, planning(workflow, turn.id))
    return replace(now_stands, status=WorkflowStatus.PLANNING)


def unapproved_micros(connection: Connection, principal: Principal, session_id: str) -> int:
    """Return the cost of a session's plans that the user was not asked about."""
    return WorkflowRepository(connection, principal).unapproved_micros(session_id)


def revisions(connection: Connection, principal: Principal, turn_id: str) -> int:
    """Return how often the user was shown a plan in a turn."""
    asked = ApprovalRepository(connection, principal).of_turn(turn_id, *ApprovalStatus)
    return sum(one.kind == "plan" for one in asked)


def cached_plan(connection: Connection, principal: Principal, project_id: int, key: str) -> dict[str, Any] | None:
    """Return the plan that the same request got before."""
    return PlanCacheRepository(connection, principal).get(project_id, key, CACHE_HOURS)


@kill_points.transaction("plan.store")
def store_plan(
    tx: Tx,
    turn: Turn,
    workflow: Workflow,
    proposal: Proposal,
) -> tuple[Workflow, list[WorkflowTask], Approval | None]:
    """Store a plan; the run may begin, or the turn waits for the user. Raise TurnOver if the turn has ended.

    A plan that the project's month may not pay for to its end is always asked about; if nothing is left it is refused.
    """
    plan_id, now = uuid7(), datetime.now(UTC)
    log = SessionLog(tx, turn.session_id, 0)
    turns = TurnRepository(tx)
    if turns.get(turn.session_id, turn.id).status.is_terminal:
        raise TurnOver
    tasks = task_rows(workflow, proposal)
    rows = TaskRepository(tx)
    rows.remove(workflow.id)
    rows.add(tasks)
    spent, unknown = spent_on(workflow, proposal.plan.usage.cost_usd, proposal.plan.usage.calls)
    short = shortage(tx.connection, tx.principal, workflow, proposal.estimate.high_micros - spent)
    if short is not None:
        short.refuse_if_used_up()
    asks = proposal.asks or short is not None
    approval = approval_of(turn, workflow, plan_id, proposal, short, now) if asks else None
    told: list[EventData] = [plan_created(plan_id, workflow, proposal)]
    if approval is not None:
        told.append(plan_request(approval))
    values: dict[str, Any] = {
        "plan_id": plan_id,
        "planned_by": proposal.plan.planned_by,
        "estimate": proposal.estimate.to_json(),
        "spent_micros": spent,
        "price_unknown": unknown,
    }
    if approval is not None:
        values |= {"status": WorkflowStatus.AWAITING_APPROVAL, "started_at": None}  # nobody has agreed to it
        ApprovalRepository(tx).add(approval)
        if not turns.park(turn.session_id, turn.id, _parked(turn, workflow)):
            raise TurnOver
        tx.after_commit(TurnParked(turn.id))
    else:
        values |= _started(tx, workflow, proposal.estimate.high_micros, spent, now)
    WorkflowRepository(tx).move(workflow.id, OPEN, **values)
    if proposal.cache_key is not None:
        cache = PlanCacheRepository(tx)
        cache.put(turn.project_id, proposal.cache_key, proposal.plan.to_json(), CACHE_HOURS, MAX_CACHED)
    log.write(turn.id, *told)
    return replace(workflow, **values), tasks, approval


def note_planned(tx: Tx, workflow: Workflow, usage: Usage) -> None:
    """Record the planning cost of a plan that is not stored."""
    spent, unknown = spent_on(workflow, usage.cost_usd, usage.calls)
    values = {"spent_micros": spent, "price_unknown": unknown}
    WorkflowRepository(tx).move(workflow.id, OPEN, **values)


@kill_points.transaction("plan.start")
def start_approved(
    tx: Tx,
    turn: Turn,
    workflow: Workflow,
    approval: Approval,
    changed: PlanEstimate | None = None,
) -> Workflow | None:
    """Begin, or go on with, what the user has approved: only now is the approval used. None if it was before.

    A plan that the user has changed is held to its own price, which is no more than what they were shown. Raise
    MonthTooShort if less is left of the project's month by now, and they were not told so.
    """
    SessionLog(tx, turn.session_id, 0)
    now_stands = WorkflowRepository(tx).get(workflow.id)
    if now_stands.turn_id != turn.id or now_stands.status.is_terminal:
        raise TurnOver
    now = datetime.now(UTC)
    approved = [ApprovalStatus.APPROVED]
    if not ApprovalRepository(tx).move(approval.id, approved, ApprovalStatus.USED, used_at=now):
        return None
    limit = changed.high_micros if changed else int(approval.arguments["limit_micros"])
    if approval.kind == "plan" and approval.plan_details.month_left is None:
        short = shortage(tx.connection, tx.principal, workflow, limit - now_stands.spent_micros)
        if short is not None:
            raise MonthTooShort
    values = _started(tx, workflow, limit, now_stands.spent_micros, now) | {"approved_at": now}
    if changed is not None:
        values |= {"estimate": changed.to_json()}
        for task_id, estimate in changed.tasks.items():
            TaskRepository(tx).move(workflow.id, task_id, OPEN_TASKS, estimate=asdict(estimate))
    WorkflowRepository(tx).move(workflow.id, OPEN, **values)
    return replace(workflow, **values)


def decided(connection: Connection, principal: Principal, turn_id: str) -> dict[str, Approval]:
    """Return the approvals of a turn that are no longer asked for, by their ids.

    One that was withdrawn, or used, is as good as expired: nobody decides about it any more.
    """
    known = ApprovalStatus.APPROVED, ApprovalStatus.REJECTED
    over = [status for status in ApprovalStatus if status is not ApprovalStatus.PENDING]
    return {
        one.id: one if one.status in known else replace(one, status=ApprovalStatus.EXPIRED)
        for one in ApprovalRepository(connection, principal).of_turn(turn_id, *over)
    }


def requeue(
    tx: Tx,
    turn: Turn,
    workflow: Workflow,
    spent: Spent,
) -> None:
    """Let a turn that runs go on later, in another worker space; raise TurnOver if it has ended."""
    SessionLog(tx, turn.session_id, 0)
    if _was_left(tx, turn):
        return
    if not TurnRepository(tx).requeue(turn.session_id, turn.id, _parked(turn, workflow)):
        raise TurnOver
    tx.after_commit(WorkWaiting(turn.project_id))
    values = {"spent_micros": spent[0], "price_unknown": spent[1]}
    WorkflowRepository(tx).move(workflow.id, OPEN, **values)


@kill_points.transaction("plan.park")
def park_run(
    tx: Tx,
    turn: Turn,
    workflow: Workflow,
    waiting: Sequence[str],
    budget: Approval | None,
    spent: Spent,
) -> bool:
    """Let the turn wait, for decisions or for more money; say whether it does: a decision may have come just now."""
    log = SessionLog(tx, turn.session_id, 0)
    if _was_left(tx, turn):
        return True
    approvals = ApprovalRepository(tx)
    pending = {one.id for one in approvals.of_turn(turn.id, ApprovalStatus.PENDING)}
    if set(waiting) - pending:
        return False
    if not TurnRepository(tx).park(turn.session_id, turn.id, _parked(turn, workflow)):
        raise TurnOver
    tx.after_commit(TurnParked(turn.id))
    values: dict[str, Any] = {"spent_micros": spent[0], "price_unknown": spent[1]}
    if budget is not None:
        values["status"] = WorkflowStatus.AWAITING_APPROVAL
        needs = int(budget.arguments["limit_micros"]) - spent[0]
        if short := shortage(tx.connection, tx.principal, workflow, needs):
            budget = replace(budget, details=budget.details.model_copy(update={"month_left": short.month_left}))
        approvals.add(budget)
        log.write(turn.id, plan_request(budget))
    WorkflowRepository(tx).move(workflow.id, OPEN, **values)
    return True


def _was_left(tx: Tx, turn: Turn) -> bool:
    """Return whether a run has left its turn before, and nobody heard of it: only a run lets its turn wait or queue."""
    now_stands = TurnRepository(tx).get(turn.session_id, turn.id).status
    return now_stands in (TurnStatus.WAITING, TurnStatus.QUEUED)


def budget_of(connection: Connection, principal: Principal, workflow: Workflow) -> Budget:
    """Return the budget of a plan; it is opened with the approval, or with a plan that needs none."""
    own = BudgetRepository(connection, principal).find(workflow.project_id, "plan", workflow.id)
    if own is None:
        raise WorkflowNotFound("The workflow has no budget: it was not begun.")
    return own


def graph_of(tasks: Sequence[WorkflowTask]) -> TaskGraph:
    """Return the graph of stored tasks, which was checked when they were stored."""
    return TaskGraph(PlannedTask(task.id, task.agent, task.description, tuple(task.depends_on)) for task in tasks)


def spent_on(workflow: Workflow, cost_usd: float | None, calls: int) -> tuple[int, bool]:
    """Return what a workflow has cost with some calls more, and whether the price of any is not known."""
    unknown = workflow.price_unknown or (calls > 0 and cost_usd is None)
    return workflow.spent_micros + micros(cost_usd or 0.0), unknown


def _parked(turn: Turn, workflow: Workflow) -> ParkedRun:
    """Return what the turn of a plan is resumed with: the workflow, and its usage until now."""
    if turn.parked is None:
        return ParkedRun(workflow_id=workflow.id)
    return ParkedRun(workflow_id=workflow.id, usage=turn.parked.usage, shares=turn.parked.shares)


def _started(tx: Tx, workflow: Workflow, limit: int, spent: int, now: datetime) -> dict[str, Any]:
    """Open the plan's budget, planning paid out of it, or let it have more; return how the workflow changes."""
    rows = BudgetRepository(tx)
    known = rows.find(workflow.project_id, "plan", workflow.id)
    if known is None:
        rows.add(Budget(uuid7(), workflow.project_id, "plan", workflow.id, limit, spent, 0))
    else:
        rows.set_limit(known.id, limit)
    return {
        "status": WorkflowStatus.RUNNING,
        "limit_micros": limit,
        "started_at": workflow.started_at or now,
        "finished_at": None,
        "error": None,
        "error_code": None,
    }


def no_result(task_id: str) -> str:
    """Return why a task was not started."""
    return f"Task {task_id} has no result."


@kill_points.transaction("task.start")
def start_task(
    tx: Tx,
    turn: Turn,
    task: WorkflowTask,
    told: Sequence[EventData],
) -> None:
    """Mark a task as running; raise TurnOver if the turn has ended."""
    values = {"status": task.status, "attempts": task.attempts, "parked": None, "started_at": task.started_at}
    _change_task(tx, turn, task, values, told)


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """What became of a task, of those that can't be begun because of it, and what is told and remembered of it."""

    task: WorkflowTask
    told: Sequence[EventData]
    spent: Spent
    aborted: Sequence[str] = ()
    memories: Sequence[NewMemory] = ()


@kill_points.transaction("task.end")
def end_task(
    tx: Tx,
    turn: Turn,
    end: TaskEnd,
) -> None:
    """Store what became of a task."""
    now, task = datetime.now(UTC), end.task
    names = ("status", "usage", "cost_micros", "result", "error_code", "error", "seconds")
    values = {name: getattr(task, name) for name in names}
    values |= {"finished_at": now, "parked": None}
    if not _change_task(tx, turn, task, values, end.told):
        return
    _note_spent(tx, task.workflow_id, end.spent)
    rows = TaskRepository(tx)
    gone: dict[str, Any] = {"status": TaskStatus.ABORTED, "error_code": DEPENDENCY_FAILED, "finished_at": now}
    gone |= {"error": no_result(task.id)}
    for one in end.aborted:
        rows.move(task.workflow_id, one, OPEN_TASKS, **gone)
    if end.memories and task.agent_id is not None:
        remember(tx.connection, tx.principal, turn.project_id, task.agent_id, end.memories)
        tx.after_commit(MemoriesChanged())


@kill_points.transaction("task.park")
def park_task(
    tx: Tx,
    turn: Turn,
    task: WorkflowTask,
    approval: Approval | None,
    told: Sequence[EventData],
    spent: Spent,
) -> None:
    """Let a task wait for the user; the turn goes on as long as others have something to do."""
    values = {"status": TaskStatus.WAITING, "parked": task.parked, "usage": task.usage, "cost_micros": task.cost_micros}
    if not _change_task(tx, turn, task, values, told):
        return
    _note_spent(tx, task.workflow_id, spent)
    if approval is not None:
        ApprovalRepository(tx).add(approval)


def _change_task(
    tx: Tx,
    turn: Turn,
    task: WorkflowTask,
    values: Mapping[str, Any],
    told: Sequence[EventData],
) -> bool:
    """Change a task of a turn that goes on; False if it was changed so before, and nobody heard of it."""
    log = SessionLog(tx, turn.session_id, 0)
    if not WorkflowRepository(tx).is_worked_on_by(task.workflow_id, turn.id):
        raise TurnOver
    rows = TaskRepository(tx)
    now = rows.standing(task.workflow_id, task.id)
    if all(now[name] == values[name] for name in now if name in values):
        return False
    if not rows.move(task.workflow_id, task.id, OPEN_TASKS, **values):
        raise TurnOver
    if told:
        log.write(turn.id, *told)
    return True


def _note_spent(tx: Tx, workflow_id: str, spent: Spent) -> None:
    values = {"spent_micros": spent[0], "price_unknown": spent[1]}
    WorkflowRepository(tx).move(workflow_id, OPEN, **values)
