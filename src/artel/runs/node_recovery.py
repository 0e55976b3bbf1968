"""Turns that a host left running while nodes worked for them: they are queued again instead of failed."""

from datetime import UTC, datetime, timedelta
from functools import reduce

from artel.brain.brain import Usage
from artel.budgets.spending import plus
from artel.contract import chat
from artel.contract.parked_run import ParkedNodeRun, ParkedRun, UsageShare
from artel.db.hints import WorkWaiting
from artel.db.tx import Tx
from artel.events.session_log import SessionLog
from artel.plans.plan import TaskStatus, WorkflowStatus
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.registry.commands import NodeCommand, NodeCommandRepository
from artel.runs.node_run import is_resumable
from artel.turns.repository import TurnRepository
from artel.turns.turn import Mode, Turn, TurnStatus


def requeue_on_nodes(tx: Tx, session_id: str, turn_id: str, seconds: float) -> bool:
    """Queue a running turn again if all that it did is done by nodes; return whether it is queued.

    The next host sends the same commands. Those older than `seconds` are given up: their task would be over.
    """
    SessionLog(tx, session_id, 0)
    turn = TurnRepository(tx).get(session_id, turn_id)
    commands = {command.task_id: command for command in NodeCommandRepository(tx).of_turn(turn_id)}  # the latest
    if turn.status is not TurnStatus.RUNNING or not commands:
        return False
    if turn.mode is Mode.DIRECT:
        tasks, parked = [turn.id], turn.parked or ParkedRun(agent_id=turn.agent_id, node=ParkedNodeRun())
    else:
        tasks, parked = _running_tasks(tx, turn)
    oldest = datetime.now(UTC) - timedelta(seconds=seconds)

    def can_go_on(command: NodeCommand | None) -> bool:
        return command is not None and is_resumable(command) and command.created_at >= oldest

    if not tasks or not all(can_go_on(commands.get(task_id)) for task_id in tasks):
        return False
    tx.after_commit(WorkWaiting(turn.project_id))
    return TurnRepository(tx).park(session_id, turn_id, parked, TurnStatus.QUEUED)


def _running_tasks(tx: Tx, turn: Turn) -> tuple[list[str], ParkedRun]:
    """Return the running tasks of a plan's turn, and what the turn is resumed with: the usage of its tasks."""
    workflow = WorkflowRepository(tx).of_turn(turn.id)
    if workflow is None or workflow.status is not WorkflowStatus.RUNNING:
        return [], ParkedRun()
    tasks = TaskRepository(tx).of(workflow.id)
    used = [(task, Usage(**task.usage.model_dump())) for task in tasks if task.usage]
    before = turn.parked
    if before is None and used:
        total = chat.UsageShown.of(reduce(plus, (usage for _, usage in used), Usage("")))
        shares = [
            UsageShare(agent_id=task.agent_id, agent=task.agent, usage=chat.UsageShown.of(usage))
            for task, usage in used
        ]
        before = ParkedRun(usage=total, shares=tuple(shares))
    before = before or ParkedRun()
    running = [f"{turn.id}:{task.id}" for task in tasks if task.status is TaskStatus.RUNNING]
    return running, ParkedRun(workflow_id=workflow.id, usage=before.usage, shares=before.shares)
