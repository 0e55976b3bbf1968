"""Transactions for what users do with workflows: list them, decide about plans, ask again, retry."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection

from artel import kill_points
from artel.agent_loop.context import MAX_HISTORY_MESSAGES
from artel.approvals import transactions as approvals
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.repository import ApprovalRepository
from artel.auth.principal import Principal
from artel.budgets.month import shortage
from artel.contract.approvals import TaskChange
from artel.contract.events import TaskProgress
from artel.contract.parked_run import ParkedRun
from artel.db.hints import WorkWaiting
from artel.db.tables import workflows
from artel.db.tx import Tx
from artel.errors import ApprovalDecided, PlanNotPossible, SessionNotFound, WorkflowNotOver
from artel.events.session_log import SessionLog
from artel.plans.plan import PlanInvalid, PlannedTask, TaskGraph, TaskStatus, Workflow, WorkflowStatus, WorkflowTask
from artel.plans.pricing import Pricing, agent_statistics, before
from artel.plans.proposal import plan_approval, plan_request
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.projects.repository import ProjectRepository
from artel.projects.transactions import get_project, project_settings
from artel.sessions.message_repository import MessageRepository
from artel.sessions.repository import SessionRepository
from artel.turns.transactions import add_turn
from artel.turns.turn import Mode, Turn, TurnStatus


@kill_points.transaction("plan.decide")
def decide_plan(
    tx: Tx, approval_id: str, decision: str, feedback: str, instruction: str, changes: Sequence[TaskChange]
) -> Approval:
    """Store the user's decision about a plan, and their changes of it; raise PlanNotPossible if it can't be run."""
    approval = ApprovalRepository(tx).get(approval_id)
    decided = approvals.decide(tx, approval_id, decision, feedback, "once")
    workflow = WorkflowRepository(tx).get(approval.arguments["workflow_id"])
    if decision != "approve" or approval.kind != "plan":
        return decided
    if changes:
        rows = TaskRepository(tx)
        tasks = {task.id: task for task in rows.of(workflow.id)}
        agents = {agent.name: agent.id for agent in get_project(tx.connection, tx.principal, workflow.project_id).team}
        graph = changed_graph(TaskGraph.of(tasks.values()), changes, list(agents))
        rows.remove(workflow.id)
        numbered = enumerate(graph.tasks.values(), 1)
        rows.add(
            [
                replace(tasks[task.id], number=number, agent_id=agents[task.agent], **task.to_json())
                for number, task in numbered
            ]
        )
        _update(tx, workflow.id, planned_by="user")
    if instruction.strip():
        _update(tx, workflow.id, instruction=instruction.strip())
    return decided


def changed_graph(graph: TaskGraph, changes: Sequence[TaskChange], agents: Sequence[str]) -> TaskGraph:
    """Return a plan with the user's changes; raise PlanNotPossible with the reasons if it can't be run.

    The dependants of a dropped task depend on its dependencies instead.
    """
    tasks = dict(graph.tasks)
    unknown = [change.id for change in changes if change.id not in tasks]
    if unknown:
        raise PlanNotPossible(f"The plan has no task {unknown[0][:64]!r}. It has: {', '.join(tasks)}.")
    dropped = {change.id for change in changes if change.drop}
    for change in changes:
        if change.id in dropped and (change.agent or change.description):
            raise PlanNotPossible(f"Task {change.id} can be left out or be changed, not both.")
        if change.id not in tasks:
            continue
        if change.drop:
            gone = tasks.pop(change.id)
            for task in [task for task in tasks.values() if gone.id in task.depends_on]:
                needed = [task_id for task_id in task.depends_on if task_id != gone.id]
                tasks[task.id] = replace(task, depends_on=tuple(dict.fromkeys([*needed, *gone.depends_on])))
        else:
            task = tasks[change.id]
            agent, description = change.agent or task.agent, change.description or task.description
            tasks[change.id] = replace(task, agent=agent, description=description)
    return _checked(tasks.values(), agents)


def _checked(tasks: Iterable[PlannedTask], agents: Sequence[str]) -> TaskGraph:
    try:
        return TaskGraph.checked(list(tasks), agents)
    except PlanInvalid as invalid:
        raise PlanNotPossible(" ".join(invalid.problems)) from None


def ask_plan_again(tx: Tx, approval_id: str, turn_id: str, planner_model: str, *, is_demo: bool) -> Approval:
    """Ask again about a plan whose approval has expired, with a new estimate but without planning again."""
    rows = ApprovalRepository(tx)
    expired = rows.get(approval_id)
    if expired.kind == "budget":
        raise ApprovalDecided("What was done is the answer. Try the rest again: POST /my/workflows/{id}/retry")
    log = SessionLog(tx, expired.session_id, 1)
    workflow = WorkflowRepository(tx).get(expired.arguments["workflow_id"])
    if workflow.turn_id != expired.turn_id:
        raise ApprovalDecided("The workflow was taken up again since.")
    if not workflow.status.is_terminal:
        raise ApprovalDecided("The turn that asked has not ended yet. Try again in a moment.")
    if not rows.move(approval_id, [ApprovalStatus.EXPIRED], ApprovalStatus.WITHDRAWN):
        raise ApprovalDecided("Only an approval that has expired can be asked for again, and once.")
    turn = _new_turn(tx, workflow, turn_id, log.first, TurnStatus.WAITING)
    tasks = TaskRepository(tx).of(workflow.id)
    agents = list(get_project(tx.connection, tx.principal, workflow.project_id).team)
    graph = _checked(TaskGraph.of(tasks).tasks.values(), [agent.name for agent in agents])
    statistics = agent_statistics(tx.connection, tx.principal, workflow.project_id, agents, is_demo=is_demo)
    messages = MessageRepository(tx).conversation(workflow.session_id, turn.number, MAX_HISTORY_MESSAGES)
    pricing = Pricing(agents, statistics, planner_model, is_demo=is_demo)
    history = before(messages, workflow.request)
    estimate = pricing.price(graph, history, workflow.request).plus(workflow.spent_micros)
    settings = project_settings(tx.connection, tx.principal, workflow.project_id)
    short = shortage(tx, workflow, estimate.high_micros - workflow.spent_micros, must_have_some=True)
    seconds = settings.policy.approval_seconds
    approval = plan_approval(turn, workflow, graph, estimate, short, expired.plan_details.changed, seconds)
    _reopen(tx, workflow, tasks, turn_id, WorkflowStatus.AWAITING_APPROVAL)
    _update(tx, workflow.id, estimate=estimate.to_json())
    for task_id, task_estimate in estimate.tasks.items():
        TaskRepository(tx).move(workflow.id, task_id, TaskStatus, estimate=asdict(task_estimate))
    rows.add(approval)
    log.write(turn_id, plan_request(approval))
    return approval


@kill_points.transaction("plan.retry")
def retry(tx: Tx, workflow_id: str, turn_id: str) -> None:
    """Queue a finished workflow again: completed tasks keep their results, and its budget stays the same."""
    rows = WorkflowRepository(tx)
    log = SessionLog(tx, rows.get(workflow_id).session_id, 1)
    workflow = rows.get(workflow_id)  # as it is now, under the lock of the session's row
    if not workflow.status.is_terminal:
        raise WorkflowNotOver("The workflow goes on. Cancel it first, or wait for its end.")
    if workflow.status is WorkflowStatus.COMPLETED:
        raise WorkflowNotOver("Everything of this workflow was done. There is nothing to try again.")
    tasks = TaskRepository(tx).of(workflow_id)
    _new_turn(tx, workflow, turn_id, log.first, TurnStatus.QUEUED)
    # A plan that was not approved, or never made, is planned again.
    status = WorkflowStatus.RUNNING if workflow.started_at and tasks else WorkflowStatus.PLANNING
    approvals_of_turn = ApprovalRepository(tx).of_turn(workflow.turn_id, *ApprovalStatus)
    last = next((approval for approval in reversed(approvals_of_turn) if approval.kind != "tool"), None)
    if last is not None and workflow.error_code == "interrupted":
        wants_another = last.kind == "plan" and last.status is ApprovalStatus.REJECTED and last.feedback
        if wants_another or last.status is ApprovalStatus.APPROVED:  # the server stopped before it was applied
            ApprovalRepository(tx).move(last.id, [last.status], last.status, turn_id=turn_id)
            status = WorkflowStatus.AWAITING_APPROVAL
    _reopen(tx, workflow, tasks, turn_id, status)
    again = TaskProgress(task_id=turn_id, state="queued", elapsed_seconds=0.0, phase="retry", workflow_id=workflow_id)
    log.write(turn_id, again)
    tx.after_commit(WorkWaiting(workflow.project_id))


def list_workflows(
    connection: Connection,
    principal: Principal,
    status: str | None,
    project_id: int | None,
    session_id: str | None,
    limit: int,
    offset: int,
) -> tuple[list[tuple[Workflow, list[WorkflowTask]]], int]:
    """Return a page of workflows with their tasks, newest first, and the number of all."""
    conditions: list[ColumnElement[bool]] = []
    if status is not None:
        conditions.append(workflows.c.status == status)
    if project_id is not None:
        ProjectRepository(connection, principal).get(project_id)  # raises if it is another user's
        conditions.append(workflows.c.project_id == project_id)
    if session_id is not None:
        session = SessionRepository(connection, principal).get(session_id)
        if project_id not in (None, session.project_id):
            raise SessionNotFound("Session not found")
        conditions.append(workflows.c.session_id == session_id)
    page, total = WorkflowRepository(connection, principal).page(conditions, limit, offset)
    tasks = TaskRepository(connection, principal).of(*(workflow.id for workflow in page))
    return [(workflow, [task for task in tasks if task.workflow_id == workflow.id]) for workflow in page], total


def get_workflow(
    connection: Connection, principal: Principal, workflow_id: str
) -> tuple[Workflow, list[WorkflowTask], str | None]:
    """Return a workflow, its tasks, and the id of a pending approval, if there is one."""
    workflow = WorkflowRepository(connection, principal).get(workflow_id)
    tasks = TaskRepository(connection, principal).of(workflow_id)
    pending = ApprovalRepository(connection, principal).of_turn(workflow.turn_id, ApprovalStatus.PENDING)
    pending.sort(key=lambda approval: approval.kind != "tool")  # the plan's own approval is the last
    return workflow, tasks, pending[-1].id if pending else None


def workflow_of_turn(connection: Connection, principal: Principal, turn_id: str) -> str | None:
    """Return the id of a turn's workflow."""
    workflow = WorkflowRepository(connection, principal).of_turn(turn_id)
    return workflow.id if workflow else None


def _reopen(tx: Tx, workflow: Workflow, tasks: Sequence[WorkflowTask], turn_id: str, status: WorkflowStatus) -> None:
    no_end = {"error": None, "error_code": None, "finished_at": None}
    pending = {"status": TaskStatus.PENDING, "attempts": 0, "parked": None, "started_at": None}
    for task in tasks:
        if task.status is not TaskStatus.COMPLETED:
            TaskRepository(tx).move(workflow.id, task.id, TaskStatus, **pending, **no_end)
    _update(tx, workflow.id, status=status, turn_id=turn_id, **no_end)


def _new_turn(tx: Tx, workflow: Workflow, turn_id: str, number: int, status: TurnStatus) -> Turn:
    ids = turn_id, workflow.session_id, workflow.project_id
    parked = ParkedRun(workflow_id=workflow.id)
    turn = Turn(*ids, number, Mode.ORCHESTRATED, None, status, datetime.now(UTC), parked=parked)
    return add_turn(tx, turn, workflow.id)


def _update(tx: Tx, workflow_id: str, **values: object) -> None:
    WorkflowRepository(tx).move(workflow_id, WorkflowStatus, **values)
