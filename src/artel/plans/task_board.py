"""Where the tasks of a plan stand while it is carried out, what may be begun next, and what they have cost."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from artel.brain.brain import Usage
from artel.budgets.money import micros
from artel.budgets.plan_spending import Spending, plus
from artel.contract.events import EventData, TaskCompleted, TaskFailed
from artel.db.text import storable
from artel.plans.task_transactions import DEPENDENCY_FAILED, no_result
from artel.plans.transactions import graph_of
from artel.plans.workflow import TaskStatus, WorkflowTask
from artel.runs.task import ErrorType, ExecutionResult


class TaskBoard:
    """The tasks of one run, by their ids; it knows no database."""

    def __init__(self, tasks: Sequence[WorkflowTask], spending: Spending) -> None:
        self.spending = spending
        self._tasks = {task.id: task for task in tasks}
        self._progress = graph_of(tasks).progress()
        self._ready: list[str] = []

    def __getitem__(self, task_id: str) -> WorkflowTask:
        return self._tasks[task_id]

    def put(self, task: WorkflowTask) -> None:
        """Note where a task stands now."""
        self._tasks[task.id] = task

    @property
    def all(self) -> list[WorkflowTask]:
        """All tasks, as they were planned."""
        return list(self._tasks.values())

    @property
    def waiting(self) -> list[WorkflowTask]:
        """Those that wait for the user."""
        return [task for task in self._tasks.values() if task.status is TaskStatus.WAITING]

    @property
    def waiting_for_money(self) -> list[WorkflowTask]:
        """Those that wait because their next call may cost more than is left, not because of something they ask."""
        return [task for task in self.waiting if not (task.parked and task.parked.approval_id)]

    @property
    def is_single(self) -> bool:
        """Whether there is one task, whose words are the answer."""
        return len(self._tasks) == 1

    def go_on(self) -> None:
        """Go on through the graph: over what was done before, up to what may be begun now."""
        while ready := self._progress.ready():
            for task_id in ready:
                task = self._tasks[task_id]
                if task.status is TaskStatus.COMPLETED:
                    self._progress.done(task_id)
                elif task.status.is_terminal:
                    self._progress.failed(task_id)
                elif task.status is not TaskStatus.WAITING:
                    self._ready.append(task_id)

    def take_ready(self) -> list[WorkflowTask]:
        """Return what may be begun now, once."""
        ready, self._ready = self._ready, []
        return [self._tasks[task_id] for task_id in ready]

    def begin(self, task_id: str, *, goes_on: bool) -> WorkflowTask | None:
        """Note that a task has its slot, and return how it runs now; None if it was stopped while it waited for one.

        From now on it is not stopped, though it is not stored yet that it runs.
        """
        task = self._tasks[task_id]
        if task.status.is_terminal:
            return None
        running = replace(
            task,
            status=TaskStatus.RUNNING,
            attempts=task.attempts + (not goes_on),
            parked=None,
            started_at=task.started_at or datetime.now(UTC),
        )
        self._tasks[task_id] = running
        return running

    def stop(self, code: str, why: str) -> Iterator[WorkflowTask]:
        """End, one by one, what does not run; what runs, or has begun meanwhile, may finish."""
        self._ready.clear()
        for task_id in self._tasks:
            task = self._tasks[task_id]
            if task.status in (TaskStatus.PENDING, TaskStatus.WAITING):
                self._tasks[task_id] = replace(task, status=TaskStatus.CANCELLED, error_code=code, error=why)
                yield self._tasks[task_id]

    def count(self, task_id: str, usage: Usage) -> None:
        """Count what an attempt has cost, for the task and for the workflow."""
        if not usage.calls:
            return
        task = self._tasks[task_id]
        self.spending.add(usage, task.agent_id, task.agent)
        total = plus(Usage(**task.usage) if task.usage else None, usage)
        cost = None if total.cost_usd is None else micros(total.cost_usd)
        self._tasks[task_id] = replace(task, usage=asdict(total), cost_micros=cost)

    def end(
        self, task_id: str, result: ExecutionResult, seconds: float | None = None
    ) -> tuple[WorkflowTask, tuple[str, ...], list[EventData]]:
        """Give a task its end; answer it with the seconds it took, what can't be begun because of it, and what is told.

        Those that need a task which was done begin when `done` is called.
        """
        self.count(task_id, result.usage)
        task = replace(self._tasks[task_id], seconds=seconds)
        aborted: tuple[str, ...] = ()
        told: list[EventData]
        if result.success:
            text = storable(result.response)
            task = replace(task, status=TaskStatus.COMPLETED, result=text, error=None, error_code=None)
            told = [TaskCompleted(task_id=task_id, result=text, duration=round(result.seconds, 3))]
        else:
            status = TaskStatus.TIMEOUT if result.error_type is ErrorType.TIMEOUT else TaskStatus.FAILED
            code, error = result.error_code or "agent_failed", storable(result.error or "The agent failed.")
            task = replace(task, status=status, error_code=code, error=error)
            dependants = self._progress.failed(task_id)
            aborted = tuple(one for one in dependants if not self._tasks[one].status.is_terminal)
            told = [TaskFailed(task_id=task_id, code=code, error=error), *self._abort(aborted, task_id)]
        self._tasks[task_id] = task
        return task, aborted, told

    def done(self, task_id: str) -> None:
        """Let those begin that need this task's result: it is stored."""
        self._progress.done(task_id)

    def _abort(self, aborted: Sequence[str], because_of: str) -> list[EventData]:
        why = no_result(because_of)
        for one in aborted:
            self._tasks[one] = replace(
                self._tasks[one], status=TaskStatus.ABORTED, error_code=DEPENDENCY_FAILED, error=why
            )
        return [TaskFailed(task_id=one, code=DEPENDENCY_FAILED, error=why) for one in aborted]
