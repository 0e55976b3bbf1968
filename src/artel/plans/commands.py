"""Transactions for what users do with workflows: list them, decide about plans, ask again, retry."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection

from artel import kill_points
from artel.agent_loop.context import MAX_HISTORY_MESSAGES
from artel.agent_memory.repository import NewMemory
from artel.agent_memory.transactions import remember
from artel.approvals import transactions as approvals
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.repository import ApprovalRepository
from artel.auth.principal import Principal
from artel.budgets.money import dollars, micros
from artel.budgets.month import shortage
from artel.contract.approvals import ApprovalChanges, PlanPrice, TaskChange
from artel.contract.events import TaskProgress
from artel.contract.http import Agent, PageRequest
from artel.contract.parked_run import ParkedRun
from artel.db.hints import MemoriesChanged, WorkWaiting
from artel.db.tables import workflows
from artel.db.tx import Tx
from artel.errors import ApprovalDecided, PlanNotPossible, SessionNotFound, WorkflowNotOver
from artel.events.session_log import SessionLog
from artel.plans.node_agents import priced
from artel.plans.plan import PlanInvalid, PlannedTask, TaskGraph, TaskStatus, Workflow, WorkflowStatus, WorkflowTask
from artel.plans.pricing import Pricing, agent_statistics, before
from artel.plans.proposal import plan_approval, plan_request, shown_tasks
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.projects.repository import ProjectRepository
from artel.projects.transactions import get_project, project_settings
from artel.registry.node import RegisteredNode
from artel.runs import attached_files
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.repository import SessionRepository
from artel.text import one_line
from artel.turns.repository import TurnRepository
from artel.turns.transactions import add_turn
from artel.turns.turn import Mode, Turn, TurnStatus

REMEMBERED_CHARACTERS = 1_000  # of the request, in memories of feedback


@kill_points.transaction("plan.decide")
def decide_plan(
    tx: Tx, approval_id: str, decision: str, feedback: str, instruction: str, changes: ApprovalChanges
) -> Approval:
    """Store the user's decision about a plan, and their changes of it; raise PlanNotPossible if it can't be run."""
    approval = ApprovalRepository(tx).get(approval_id)
    decided = approvals.decide(tx, approval_id, decision, feedback, "once")
    workflow = WorkflowRepository(tx).get(approval.plan_arguments.workflow_id)
    if approval.kind != "plan":
        return decided
    shown = changed = TaskRepository(tx).of(workflow.id)
    if changes.tasks:
        changed = _change_plan(tx, workflow, shown, changes.tasks)
    _update(tx, workflow.id, limit_micros=_chosen_limit(workflow, changes.limit_usd))
    if instruction.strip():
        _update(tx, workflow.id, instruction=instruction.strip())
    _remember_feedback(tx, workflow, shown, changed, decided, instruction)
    return decided


def _chosen_limit(workflow: Workflow, limit_usd: float | None) -> int | None:
    """Return the user's own limit; raise PlanNotPossible if planning has cost as much already."""
    limit = None if limit_usd is None else micros(limit_usd)
    if limit is not None and limit <= workflow.spent_micros:
        spent = dollars(workflow.spent_micros)
        raise PlanNotPossible(f"Making the plan has cost ${spent:.4f} already. Choose a higher limit.")
    return limit


def _change_plan(
    tx: Tx, workflow: Workflow, shown: Sequence[WorkflowTask], changes: Sequence[TaskChange]
) -> list[WorkflowTask]:
    """Store the plan with the user's changes and return its tasks; raise PlanNotPossible if one of them is done."""
    tasks = {task.id: task for task in shown}
    done = {task.id: task for task in shown if task.status is TaskStatus.COMPLETED}
    if fixed := [change.id for change in changes if change.id in done]:
        raise PlanNotPossible(f"These tasks are done, so they can't be changed or left out: {', '.join(fixed)}.")
    agents = {agent.name: agent.id for agent in get_project(tx.connection, tx.principal, workflow.project_id).team}
    past = {task.agent: task.agent_id for task in done.values()}  # their agents may be deleted
    graph = changed_graph(TaskGraph.of(shown), changes, list(past | agents))
    changed = []
    for number, task in enumerate(graph.tasks.values(), 1):
        agent_id = done[task.id].agent_id if task.id in done else agents.get(task.agent)
        if task.id not in done and agent_id is None:
            raise PlanNotPossible(f"{task.agent} is no agent of this project any more. Give task {task.id} to another.")
        values: dict[str, Any] = {"number": number, "agent_id": agent_id, **task.to_json()}
        if task.id in tasks:
            if task.agent != tasks[task.id].agent:
                values["estimate"] = None  # it was another model's
            changed.append(replace(tasks[task.id], **values))
        else:
            changed.append(WorkflowTask(workflow_id=workflow.id, project_id=workflow.project_id, **values))
    rows = TaskRepository(tx)
    rows.remove(workflow.id)
    rows.add(changed)
    _update(tx, workflow.id, planned_by="user")
    return changed


def _remember_feedback(
    tx: Tx,
    workflow: Workflow,
    shown: Sequence[WorkflowTask],
    changed: Sequence[WorkflowTask],
    decided: Approval,
    instruction: str,
) -> None:
    """Store what the user said about a plan, or changed, in the memory of its agents; nothing if it was neither."""
    old, new = TaskGraph.of(shown), TaskGraph.of(changed)
    differences = "; ".join(new.changes_from(old)) if changed is not shown else ""
    said = {"Feedback": decided.feedback or "", "Instruction": instruction, "Changes": differences}
    lines = [f"{name}: {text.strip()}" for name, text in said.items() if text.strip()]
    if not lines:
        return
    is_approved = decided.status is ApprovalStatus.APPROVED
    verdict = "approved" if is_approved else "rejected"
    lines = [f"The user {verdict} a plan.", *lines, f"Request: {one_line(workflow.request, REMEMBERED_CHARACTERS)}"]
    lines.append(f"Plan:\n{old.text()}")
    if differences:
        lines.append(f"Plan with the changes:\n{new.text()}")
    about: dict[str, JsonValue] = {"source": "feedback", "workflow_id": workflow.id, "approval_id": decided.id}
    agents = {
        agent.id for agent in get_project(tx.connection, tx.principal, workflow.project_id).agents if agent.memory
    }
    for agent_id in sorted(agents.intersection(task.agent_id for task in (*shown, *changed))):
        memory = NewMemory("\n".join(lines), "feedback", is_approved, task_id=workflow.turn_id, metadata=about)
        remember(tx, workflow.project_id, agent_id, [memory])
        tx.after_commit(MemoriesChanged())


def changed_graph(graph: TaskGraph, changes: Sequence[TaskChange], agents: Sequence[str]) -> TaskGraph:
    """Return a plan with the user's changes; raise PlanNotPossible with the reasons if it can't be run.

    First tasks are dropped, and their dependants depend on their dependencies instead; then the others are changed, and
    new ones are added at the end.
    """
    tasks = dict(graph.tasks)
    dropped = dict.fromkeys(change.id for change in changes if change.drop)
    edits = [change for change in changes if not change.drop]
    for change in changes:
        if change.id in dropped and (change.agent or change.description or change.depends_on is not None):
            raise PlanNotPossible(f"Task {change.id} can be left out or be changed, not both.")
    for task_id in dropped:
        if task_id not in tasks:
            raise PlanNotPossible(_no_task(task_id, tasks))
        gone = tasks.pop(task_id)
        for task in [task for task in tasks.values() if gone.id in task.depends_on]:
            needed = [needed_id for needed_id in task.depends_on if needed_id != gone.id]
            tasks[task.id] = replace(task, depends_on=tuple(dict.fromkeys([*needed, *gone.depends_on])))
    for change in edits:
        task = tasks.get(change.id) or _new_task(change, graph.tasks)
        tasks[task.id] = replace(
            task,
            agent=change.agent or task.agent,
            description=change.description or task.description,
            depends_on=task.depends_on if change.depends_on is None else tuple(change.depends_on),
        )
    return _checked(tasks.values(), agents)


def _new_task(change: TaskChange, tasks: Collection[str]) -> PlannedTask:
    """Return the task that a change adds; raise PlanNotPossible if it does not describe one."""
    if change.agent is None or change.description is None:
        raise PlanNotPossible(f"{_no_task(change.id, tasks)} A new task needs an agent and a description.")
    return PlannedTask(change.id, change.agent, change.description)


def _no_task(task_id: str, tasks: Collection[str]) -> str:
    return f"The plan has no task {task_id[:64]!r}. It has: {', '.join(tasks)}."


def _checked(tasks: Iterable[PlannedTask], agents: Sequence[str]) -> TaskGraph:
    try:
        return TaskGraph.checked(list(tasks), agents)
    except PlanInvalid as invalid:
        raise PlanNotPossible(" ".join(invalid.problems)) from None


def ask_plan_again(
    tx: Tx,
    approval_id: str,
    turn_id: str,
    planner_model: str,
    *,
    nodes: Sequence[RegisteredNode],
    is_demo: bool,
    max_context_tokens: int,
) -> Approval:
    """Ask again about a plan whose approval has expired, with a new estimate but without planning again."""
    rows = ApprovalRepository(tx)
    expired = rows.get(approval_id)
    if expired.kind == "budget":
        raise ApprovalDecided("What was done is the answer. Try the rest again: POST /my/workflows/{id}/retry")
    log = SessionLog(tx, expired.session_id, 1)
    workflow = WorkflowRepository(tx).get(expired.plan_arguments.workflow_id)
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
    pricing, history = _pricing(
        tx.connection,
        tx.principal,
        workflow,
        turn.number,
        [priced(agent, nodes) for agent in agents],
        planner_model,
        max_context_tokens,
        is_demo=is_demo,
    )
    estimate = pricing.price(graph, history, workflow.request).plus(workflow.spent_micros)
    settings = project_settings(tx.connection, tx.principal, workflow.project_id)
    short = shortage(tx, workflow, estimate.high_micros - workflow.spent_micros, must_have_some=True)
    seconds = settings.policy.approval_seconds
    approval = plan_approval(turn, workflow, graph, estimate, short, expired.plan_details.changed, seconds)
    _reopen(tx, workflow, tasks, turn_id, WorkflowStatus.AWAITING_APPROVAL)
    _update(tx, workflow.id, estimate=estimate.stored)
    for task_id, task_estimate in estimate.tasks.items():
        TaskRepository(tx).move(workflow.id, task_id, TaskStatus, estimate=task_estimate.stored)
    rows.add(approval)
    log.write(turn_id, plan_request(approval))
    log.note_state()
    return approval


def _pricing(
    connection: Connection,
    principal: Principal,
    workflow: Workflow,
    turn_number: int,
    team: Sequence[Agent],
    planner_model: str,
    max_context_tokens: int,
    *,
    is_demo: bool,
) -> tuple[Pricing, Sequence[StoredMessage]]:
    """Return what prices the plans of a workflow, and the conversation that its tasks are sent."""
    statistics = agent_statistics(connection, principal, workflow.project_id, team, is_demo=is_demo)
    conversation = MessageRepository(connection, principal).conversation
    messages = conversation(workflow.session_id, turn_number, MAX_HISTORY_MESSAGES)()
    files = attached_files.files_of(
        [attached_files.conversation_message(message) for message in messages], workflow.request
    )
    attached = attached_files.estimated_tokens(files, team, max_context_tokens)
    return Pricing(team, statistics, planner_model, is_demo, attached), before(messages, workflow.request)


def price_changed(
    connection: Connection,
    principal: Principal,
    approval_id: str,
    changes: Sequence[TaskChange],
    planner_model: str,
    *,
    nodes: Sequence[RegisteredNode],
    is_demo: bool,
    max_context_tokens: int,
) -> PlanPrice:
    """Return the price of a plan that waits for approval, with the user's changes; store nothing."""
    approval = ApprovalRepository(connection, principal).get(approval_id)
    if approval.kind != "plan":
        raise PlanNotPossible("Only a plan has a price. This approval is for something else.")
    approvals.require_pending(approval, datetime.now(UTC))
    workflow = WorkflowRepository(connection, principal).get(approval.plan_arguments.workflow_id)
    agents = list(get_project(connection, principal, workflow.project_id).team)
    shown = TaskRepository(connection, principal).of(workflow.id)
    graph = changed_graph(TaskGraph.of(shown), changes, [agent.name for agent in agents])
    turn = TurnRepository(connection, principal).get(approval.session_id, approval.turn_id)
    pricing, history = _pricing(
        connection,
        principal,
        workflow,
        turn.number,
        [priced(agent, nodes) for agent in agents],
        planner_model,
        max_context_tokens,
        is_demo=is_demo,
    )
    estimate = pricing.price(graph, history, workflow.request).plus(workflow.spent_micros)
    return PlanPrice(
        tasks=shown_tasks(graph, estimate),
        unknown_prices=list(estimate.unknown_models),
        **estimate.in_dollars(),
    )


@kill_points.transaction("plan.retry")
def retry(tx: Tx, workflow_id: str, turn_id: str, changes: Sequence[TaskChange] = ()) -> None:
    """Queue a finished workflow again: completed tasks keep their results, and its budget stays the same.

    The other tasks can be changed or left out. Raise PlanNotPossible if the plan can't be run so, or did not begin.
    """
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
    if changes and status is not WorkflowStatus.RUNNING:
        raise PlanNotPossible("This plan has not begun, so it is planned again. Retry it without changes.")
    if changes:
        tasks = _change_plan(tx, workflow, tasks, changes)
    _reopen(tx, workflow, tasks, turn_id, status)
    again = TaskProgress(task_id=turn_id, state="queued", elapsed_seconds=0.0, phase="retry", workflow_id=workflow_id)
    log.write(turn_id, again)
    log.note_state()
    tx.after_commit(WorkWaiting(workflow.project_id))


def list_workflows(
    connection: Connection,
    principal: Principal,
    status: str | None,
    project_id: int | None,
    session_id: str | None,
    paging: PageRequest,
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
    page, total = WorkflowRepository(connection, principal).page(conditions, paging)
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
