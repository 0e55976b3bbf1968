"""Transactions on workflows and their tasks; the session's row orders them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from artel import kill_points
from artel.agent_memory.repository import NewMemory
from artel.agent_memory.transactions import remember
from artel.agents.repository import AgentRepository
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.repository import ApprovalRepository, announce
from artel.auth.principal import Principal
from artel.brain.brain import Usage
from artel.budgets.money import micros
from artel.budgets.month import Month, shortage
from artel.budgets.repository import Budget, BudgetRepository
from artel.budgets.spending import Spent
from artel.contract.events import EventData, TaskProgress
from artel.contract.http import Agent
from artel.contract.parked_run import ParkedRun
from artel.contract.project_settings import EffectiveSettings
from artel.db.hints import AgentListChanged, MemoriesChanged, TurnParked, WorkWaiting
from artel.db.lease import LeaseRepository
from artel.db.tx import Lease, Tx
from artel.errors import LimitReached, WorkflowNotFound
from artel.events.session_log import SessionLog
from artel.ids import uuid7
from artel.plans.plan import OPEN, OPEN_TASKS, TaskStatus, Workflow, WorkflowStatus, WorkflowTask
from artel.plans.pricing import PlanEstimate
from artel.plans.proposal import PricedPlan, plan_approval, plan_created, plan_request, task_rows
from artel.plans.repository import PlanCacheRepository, TaskRepository, WorkflowRepository
from artel.projects.repository import ProjectRepository
from artel.projects.transactions import get_project, project_settings
from artel.sessions.message_repository import StoredMessage
from artel.sessions.repository import SessionRepository
from artel.turns.repository import TurnRepository
from artel.turns.transactions import TurnOver, start_turn
from artel.turns.turn import Turn, TurnStatus

CACHE_HOURS = 24.0
MAX_CACHED = 200
DEPENDENCY_FAILED = "dependency_failed"


class MonthTooShort(Exception):
    """An approved plan may need more than is left of the project's month, and the user was not told so."""


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The data that a turn of the orchestrator starts or resumes with."""

    workflow: Workflow
    tasks: list[WorkflowTask]
    messages: list[StoredMessage]
    agents: list[Agent]
    settings: EffectiveSettings
    decision: Approval | None  # the last approval of the plan or its budget, whatever its status
    revisions: int  # how often the user was shown a plan in this turn
    unapproved_micros: int  # cost of the session's plans that the user was not asked about
    month: Month | None  # the monthly budgets, if there are any
    plan_mode: str  # of the session: auto, ask or never


def add_workflow(tx: Tx, turn: Turn, workflow_id: str, request: str) -> Workflow:
    """Store and return the workflow of a turn, in the transaction that accepts its message."""
    workflow = Workflow(
        id=workflow_id,
        project_id=turn.project_id,
        session_id=turn.session_id,
        turn_id=turn.id,
        status=WorkflowStatus.PLANNING,
        request=request,
        created_at=turn.created_at,
    )
    WorkflowRepository(tx).add(workflow)
    return workflow


@kill_points.transaction("plan.begin")
def begin(tx: Tx, turn: Turn, history: int, default_user_micros: int | None = None) -> PlanContext:
    """Mark the turn as running and return its context; raise TurnOver if it has ended or other turns come first."""
    started = start_turn(tx, turn, None, history, default_user_micros)
    rows = WorkflowRepository(tx)
    workflow = rows.of_turn(turn.id)
    if workflow is None:  # an older version has accepted it
        workflow = add_workflow(tx, turn, uuid7(), started.messages[-1].content if started.messages else "")
    if workflow.status is WorkflowStatus.PLANNING:
        SessionLog(tx, turn.session_id, 1).write(turn.id, task_progress(workflow.id, turn.id, "planning"))
    approvals = ApprovalRepository(tx).of_turn(turn.id, *ApprovalStatus)
    return PlanContext(
        workflow=workflow,
        tasks=TaskRepository(tx).of(workflow.id),
        messages=started.messages,
        agents=list(get_project(tx.connection, tx.principal, turn.project_id).team),
        settings=project_settings(tx.connection, tx.principal, turn.project_id),
        decision=next((approval for approval in reversed(approvals) if approval.kind != "tool"), None),
        revisions=sum(approval.kind == "plan" for approval in approvals),
        unapproved_micros=rows.unapproved_micros(turn.session_id),
        month=started.month,
        plan_mode=SessionRepository(tx).get(turn.session_id).plan_mode,
    )


def task_progress(workflow_id: str, task_id: str, phase: str, seconds: float = 0.0) -> TaskProgress:
    """Return the event that a task runs, or the turn is planned."""
    ids = {"task_id": task_id, "workflow_id": workflow_id}
    return TaskProgress(**ids, state="running", elapsed_seconds=round(seconds, 1), phase=phase)


def plan_again(tx: Tx, turn: Turn, workflow: Workflow) -> Workflow:
    """Mark a workflow as being planned again; raise TurnOver if the turn has ended."""
    log = SessionLog(tx, turn.session_id, 0)
    current = _open_workflow(tx, turn, workflow)
    if current.status is not WorkflowStatus.PLANNING:
        WorkflowRepository(tx).move(workflow.id, OPEN, status=WorkflowStatus.PLANNING)
        log.write(turn.id, task_progress(workflow.id, turn.id, "planning"))
    return replace(current, status=WorkflowStatus.PLANNING)


def _open_workflow(tx: Tx, turn: Turn, workflow: Workflow) -> Workflow:
    """Return the workflow as it is stored; raise TurnOver if it has ended, or another turn works on it."""
    current = WorkflowRepository(tx).get(workflow.id)
    if current.turn_id != turn.id or current.status.is_terminal:
        raise TurnOver
    return current


def cached_plan(connection: Connection, principal: Principal, project_id: int, key: str) -> dict[str, Any] | None:
    """Return the plan that the same request got before, if it has not expired."""
    return PlanCacheRepository(connection, principal).get(project_id, key, CACHE_HOURS)


@kill_points.transaction("plan.store")
def store_plan(tx: Tx, turn: Turn, workflow: Workflow, proposal: PricedPlan) -> tuple[Workflow, list[WorkflowTask]]:
    """Store a plan; start it, or park the turn until the user approves it. Raise TurnOver if the turn has ended.

    A plan that may cost more than is left of the project's month always needs approval; raise BudgetExceeded if
    nothing is left.
    """
    workflow, now = replace(workflow, plan_id=uuid7()), datetime.now(UTC)
    log = SessionLog(tx, turn.session_id, 0)
    if TurnRepository(tx).get(turn.session_id, turn.id).status.is_terminal:
        raise TurnOver
    tasks = task_rows(workflow, proposal)
    rows = TaskRepository(tx)
    rows.remove(workflow.id)
    rows.add(tasks)
    spent, unknown = spent_with(workflow, proposal.plan.usage)
    short = shortage(tx, workflow, proposal.estimate.high_micros - spent, must_have_some=True)
    values: dict[str, Any] = {
        "plan_id": workflow.plan_id,
        "planned_by": proposal.plan.planned_by,
        "estimate": proposal.estimate.stored,
        "spent_micros": spent,
        "price_unknown": unknown,
    }
    events: list[EventData] = [plan_created(workflow, proposal)]
    if proposal.asks or short:
        values |= {"status": WorkflowStatus.AWAITING_APPROVAL, "started_at": None}
        priced = proposal.plan.graph, proposal.estimate, short, proposal.changes
        approval = plan_approval(turn, workflow, *priced, proposal.seconds)
        ApprovalRepository(tx).add(approval)
        announce(tx, approval)
        _park_turn(tx, turn, workflow)
        log.note_state()
        events.append(plan_request(approval))
    else:
        values |= _started(tx, workflow, proposal.estimate.high_micros, spent, now)
    WorkflowRepository(tx).move(workflow.id, OPEN, **values)
    if proposal.cache_key is not None:
        cache = PlanCacheRepository(tx)
        cache.put(turn.project_id, proposal.cache_key, proposal.plan.to_json(), CACHE_HOURS, MAX_CACHED)
    log.write(turn.id, *events)
    return replace(workflow, **values), tasks


@kill_points.transaction("plan.store")
def store_plan_with_agents(
    tx: Tx, turn: Turn, workflow: Workflow, proposal: PricedPlan, max_agents: int, lease: Lease | None
) -> tuple[Workflow, list[WorkflowTask], list[Agent]]:
    """Store a plan and the new agents that it uses, which run on nodes; raise LimitReached or AgentNameTaken."""
    project_id = turn.project_id
    ProjectRepository(tx).lock(project_id)  # nobody counts, adds or deletes agents meanwhile
    if lease is not None:  # after the project: lock order
        LeaseRepository(tx).share(lease)
    agents, new = AgentRepository(tx), list(proposal.new_agents.values())
    if agents.count(project_id) + len(new) > max_agents:
        raise LimitReached(
            f"The plan needs {len(new)} new agents for nodes, and a project can have at most {max_agents} agents. "
            "Delete one first."
        )
    added = agents.add(project_id, agents.root_id(project_id), new)
    created = tuple(agent.id for agent in added)
    tx.after_commit(AgentListChanged(tx.principal.user_id, project_id, created, "created"))
    ids = {**proposal.agents, **{agent.name: agent.id for agent in added}}
    return *store_plan(tx, turn, workflow, replace(proposal, agents=ids, new_agents={})), added


@kill_points.transaction("plan.start")
def start_approved(
    tx: Tx, turn: Turn, workflow: Workflow, approval: Approval, changed: PlanEstimate | None = None
) -> Workflow | None:
    """Use an approval to start a plan or to raise its budget; return None if it was used before.

    The limit of a plan that the user has changed is its own price, which is at most the approved one; a lower limit
    that the user has chosen with the approval counts. Raise MonthTooShort if less is left of the project's month by
    now, and the user was not told so.
    """
    SessionLog(tx, turn.session_id, 0)
    current = _open_workflow(tx, turn, workflow)
    now = datetime.now(UTC)
    approved = [ApprovalStatus.APPROVED]
    if not ApprovalRepository(tx).move(approval.id, approved, ApprovalStatus.USED, used_at=now):
        return None
    limit = changed.high_micros if changed else approval.plan_arguments.limit_micros
    if approval.kind == "plan" and current.limit_micros is not None:
        limit = min(limit, current.limit_micros)
    is_unaware = approval.kind == "plan" and approval.plan_details.month_left is None
    if is_unaware and shortage(tx, workflow, limit - current.spent_micros):
        raise MonthTooShort
    values = _started(tx, workflow, limit, current.spent_micros, now) | {"approved_at": now}
    if changed is not None:
        values |= {"estimate": changed.stored}
        for task_id, estimate in changed.tasks.items():
            TaskRepository(tx).move(workflow.id, task_id, OPEN_TASKS, estimate=estimate.stored)
    WorkflowRepository(tx).move(workflow.id, OPEN, **values)
    return replace(workflow, **values)


def decided(connection: Connection, principal: Principal, turn_id: str) -> dict[str, Approval]:
    """Return the approvals of a turn that are not pending, by id; withdrawn and used ones count as expired."""
    decisions = ApprovalStatus.APPROVED, ApprovalStatus.REJECTED
    statuses = [status for status in ApprovalStatus if status is not ApprovalStatus.PENDING]
    approvals = ApprovalRepository(connection, principal).of_turn(turn_id, *statuses)
    return {
        approval.id: approval if approval.status in decisions else replace(approval, status=ApprovalStatus.EXPIRED)
        for approval in approvals
    }


def requeue(tx: Tx, turn: Turn, workflow: Workflow, spent: Spent) -> None:
    """Queue a running turn for another worker space; raise TurnOver if it has ended."""
    SessionLog(tx, turn.session_id, 0)
    if _was_left(tx, turn):
        return
    if not TurnRepository(tx).park(turn.session_id, turn.id, _parked(turn, workflow), TurnStatus.QUEUED):
        raise TurnOver
    tx.after_commit(WorkWaiting(turn.project_id))
    note_spent(tx, workflow.id, spent)


@kill_points.transaction("plan.park")
def park_run(
    tx: Tx, turn: Turn, workflow: Workflow, waiting: Sequence[str], budget: Approval | None, spent: Spent
) -> bool:
    """Park the turn until the user decides about the approvals `waiting` or about more budget.

    Return False if one of them has been decided meanwhile.
    """
    log = SessionLog(tx, turn.session_id, 0)
    if _was_left(tx, turn):
        tx.after_commit(TurnParked(turn.id))
        if budget is not None:
            announce(tx, budget)
        return True
    approvals = ApprovalRepository(tx)
    pending = {approval.id for approval in approvals.of_turn(turn.id, ApprovalStatus.PENDING)}
    if set(waiting) - pending:
        return False
    _park_turn(tx, turn, workflow)
    log.note_state()
    note_spent(tx, workflow.id, spent)
    if budget is not None:
        WorkflowRepository(tx).move(workflow.id, OPEN, status=WorkflowStatus.AWAITING_APPROVAL)
        needs = budget.plan_arguments.limit_micros - spent[0]
        if short := shortage(tx, workflow, needs):
            budget = replace(budget, details=budget.details.model_copy(update={"month_left": short.month_left}))
        approvals.add(budget)
        announce(tx, budget)
        log.write(turn.id, plan_request(budget))
    return True


def _park_turn(tx: Tx, turn: Turn, workflow: Workflow) -> None:
    if not TurnRepository(tx).park(turn.session_id, turn.id, _parked(turn, workflow)):
        raise TurnOver
    tx.after_commit(TurnParked(turn.id))


def _was_left(tx: Tx, turn: Turn) -> bool:
    """Return whether an earlier attempt parked or requeued the turn, whose result was lost."""
    status = TurnRepository(tx).get(turn.session_id, turn.id).status
    return status in (TurnStatus.WAITING, TurnStatus.QUEUED)


def budget_of(connection: Connection, principal: Principal, workflow: Workflow) -> Budget:
    """Return the budget of a plan that was started."""
    budget = BudgetRepository(connection, principal).find(workflow.project_id, "plan", workflow.id)
    if budget is None:
        raise WorkflowNotFound("The workflow has no budget: it was not begun.")
    return budget


def spent_with(workflow: Workflow, usage: Usage) -> Spent:
    """Return the cost of a workflow with the usage of more calls."""
    unknown = workflow.price_unknown or (usage.calls > 0 and usage.cost_usd is None)
    return workflow.spent_micros + micros(usage.cost_usd or 0.0), unknown


def _parked(turn: Turn, workflow: Workflow) -> ParkedRun:
    """Return what the turn of a plan is resumed with: its workflow and usage."""
    if turn.parked is None:
        return ParkedRun(workflow_id=workflow.id)
    return ParkedRun(workflow_id=workflow.id, usage=turn.parked.usage, shares=turn.parked.shares)


def _started(tx: Tx, workflow: Workflow, limit: int, spent: int, now: datetime) -> dict[str, Any]:
    """Create the plan's budget, which also pays for planning, or raise its limit; return the workflow's changes."""
    rows = BudgetRepository(tx)
    if budget := rows.find(workflow.project_id, "plan", workflow.id):
        rows.set_limit(budget.id, limit)
    else:
        rows.add(Budget(uuid7(), workflow.project_id, "plan", workflow.id, limit, spent, 0))
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
def start_task(tx: Tx, turn: Turn, task: WorkflowTask, events: Sequence[EventData]) -> None:
    """Mark a task as running; raise TurnOver if the turn has ended."""
    names = ("status", "attempts", "parked", "started_at")
    _change_task(tx, turn, task, {name: getattr(task, name) for name in names}, events)


@kill_points.transaction("task.end")
def end_task(
    tx: Tx,
    turn: Turn,
    task: WorkflowTask,
    events: Sequence[EventData],
    spent: Spent,
    aborted: Sequence[str] = (),
    memories: Sequence[NewMemory] = (),
) -> None:
    """Store the end of a task, and which tasks are aborted with it."""
    now = datetime.now(UTC)
    names = ("status", "usage", "cost_micros", "result", "error_code", "error", "seconds")
    values = {name: getattr(task, name) for name in names} | {"finished_at": now, "parked": None}
    if not _change_task(tx, turn, task, values, events):
        return
    note_spent(tx, task.workflow_id, spent)
    abort = {"status": TaskStatus.ABORTED, "error_code": DEPENDENCY_FAILED, "error": no_result(task.id)}
    for task_id in aborted:
        TaskRepository(tx).move(task.workflow_id, task_id, OPEN_TASKS, **abort, finished_at=now)
    if memories and task.agent_id is not None:
        remember(tx, turn.project_id, task.agent_id, memories)
        tx.after_commit(MemoriesChanged())


@kill_points.transaction("task.park")
def park_task(
    tx: Tx, turn: Turn, task: WorkflowTask, approval: Approval | None, events: Sequence[EventData], spent: Spent
) -> None:
    """Store a task that waits for the user; the turn goes on with the other tasks."""
    if approval is not None:
        announce(tx, approval)
    values = {"status": TaskStatus.WAITING, "parked": task.parked, "usage": task.usage, "cost_micros": task.cost_micros}
    if not _change_task(tx, turn, task, values, events):
        return
    note_spent(tx, task.workflow_id, spent)
    if approval is not None:
        ApprovalRepository(tx).add(approval)


def _change_task(
    tx: Tx, turn: Turn, task: WorkflowTask, values: Mapping[str, Any], events: Sequence[EventData]
) -> bool:
    """Change a task; return False if an earlier attempt did it, whose result was lost. Raise TurnOver if it ended."""
    log = SessionLog(tx, turn.session_id, 0)
    if values["status"] is TaskStatus.WAITING:
        log.note_state()
    if not WorkflowRepository(tx).is_worked_on_by(task.workflow_id, turn.id):
        raise TurnOver
    rows = TaskRepository(tx)
    current = rows.standing(task.workflow_id, task.id)
    if all(current[name] == values[name] for name in current if name in values):
        return False
    if not rows.move(task.workflow_id, task.id, OPEN_TASKS, **values):
        raise TurnOver
    if events:
        log.write(turn.id, *events)
    return True


def note_spent(tx: Tx, workflow_id: str, spent: Spent) -> None:
    """Record the cost of an open workflow."""
    WorkflowRepository(tx).move(workflow_id, OPEN, spent_micros=spent[0], price_unknown=spent[1])
