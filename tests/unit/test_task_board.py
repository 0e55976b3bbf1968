"""The tasks of a running plan: the user stops it, a task fails, or the budget is used up."""

import pytest

from artel.brain.brain import Usage
from artel.budgets.repository import Budget
from artel.budgets.spending import Spending
from artel.contract.events import TaskFailed
from artel.contract.parked_run import ParkedNodeRun, ParkedRun, ParkedState
from artel.plans.plan import TaskStatus, WorkflowTask
from artel.plans.task_run import TaskBoard
from artel.runs.task import ExecutionResult

NO_MORE = "budget_exceeded", "You did not want to spend more."


def board(**needs: str) -> TaskBoard:
    tasks = [_task(name, after.split(), number) for number, (name, after) in enumerate(needs.items(), 1)]
    made = TaskBoard(tasks, Spending(Usage("gpt-4o"), 0, price_unknown=False))
    made.take_ready()
    return made


def _task(name: str, depends_on: list[str], number: int) -> WorkflowTask:
    return WorkflowTask(
        workflow_id="w",
        id=name,
        project_id=1,
        number=number,
        agent_id=1,
        agent="agent_coder",
        description=f"Do {name}.",
        depends_on=depends_on,
        status=TaskStatus.PENDING,
        attempts=0,
        estimate=None,
        usage=None,
        cost_micros=None,
        result=None,
        error_code=None,
        error=None,
        parked=None,
        started_at=None,
        finished_at=None,
    )


def waiting(**needs: int | None) -> TaskBoard:
    """Return a board whose tasks wait for budget, and one task that is ready."""
    tasks = board(ready="", **dict.fromkeys(needs, ""))
    for name, micros in needs.items():
        tasks.change(name, status=TaskStatus.WAITING, parked=ParkedRun(needs_micros=micros))
    return tasks


def affordable(tasks: TaskBoard, limit: int, spent: int, reserved: int = 0) -> list[str]:
    return [task.id for task in tasks.affordable(Budget("b", 1, "plan", "w", limit, spent, reserved))]


def failed() -> ExecutionResult:
    return ExecutionResult.failed("It does not work.", "agent_failed", Usage("gpt-4o"))


def test_a_task_that_begins_in_the_moment_of_the_stop_may_finish() -> None:
    tasks = board(a="", b="", c="a")
    tasks.begin("a", goes_on=False)  # not stored yet

    stopped = [task.id for task in tasks.stop(*NO_MORE)]

    assert stopped == ["b", "c"]
    assert (tasks["a"].status, tasks["a"].attempts) == (TaskStatus.RUNNING, 1)
    assert tasks.take_ready() == []


def test_a_task_that_begins_while_others_are_stopped_is_not_stopped_after_them() -> None:
    tasks = board(a="", b="")
    stopping = tasks.stop(*NO_MORE)
    assert next(stopping).id == "a"

    assert tasks.begin("b", goes_on=False)

    assert list(stopping) == []


def test_a_task_that_was_stopped_before_it_had_its_slot_does_not_begin() -> None:
    tasks = board(a="")
    assert [task.status for task in tasks.stop(*NO_MORE)] == [TaskStatus.CANCELLED]

    assert tasks.begin("a", goes_on=False) is None
    assert tasks["a"].status is TaskStatus.CANCELLED


def test_stopped_task_gets_no_failure_event_when_dependency_fails() -> None:
    tasks = board(a="", b="a", c="b")
    tasks.begin("a", goes_on=False)
    assert [task.id for task in tasks.stop(*NO_MORE)] == ["b", "c"]

    _, aborted, events = tasks.end("a", failed())

    assert aborted == []
    assert [event.task_id for event in events if isinstance(event, TaskFailed)] == ["a"]
    assert [tasks[task_id].status for task_id in "bc"] == [TaskStatus.CANCELLED] * 2


def test_dependents_of_failed_task_get_failure_events() -> None:
    tasks = board(a="", b="a", c="b")
    tasks.begin("a", goes_on=False)

    _, aborted, events = tasks.end("a", failed())

    assert aborted == ["b", "c"]
    assert [event.task_id for event in events if isinstance(event, TaskFailed)] == ["a", "b", "c"]
    assert tasks["c"].status is TaskStatus.ABORTED


def test_tasks_resume_while_budget_is_enough() -> None:
    assert affordable(waiting(a=60, b=60, c=30), 100, 5) == ["a", "c"]
    assert affordable(waiting(a=60, b=60, c=30), 100, 5, 60) == ["c"]


def test_task_with_unknown_cost_resumes_unless_budget_is_spent() -> None:
    assert affordable(waiting(a=None), 100, 100) == ["a"]
    assert affordable(waiting(a=None), 100, 101) == []


def test_task_without_budget_is_not_retried_until_something_changes() -> None:
    tasks = waiting(a=10)

    assert affordable(tasks, 100, 5) == ["a"]
    assert affordable(tasks, 100, 5) == []
    assert affordable(tasks, 100, 6) == ["a"]
    tasks.begin("ready", goes_on=False)
    tasks.end("ready", failed())
    assert affordable(tasks, 100, 6) == ["a"]
    assert affordable(tasks, 200, 6) == ["a"]
    assert affordable(tasks, 200, 6) == []


@pytest.mark.req("AGT-01.3")
@pytest.mark.parametrize("is_on_node", [True, False])
def test_task_on_a_node_keeps_what_the_next_host_goes_on_with(*, is_on_node: bool) -> None:
    run = ParkedRun(node=ParkedNodeRun(state="{}", step=2)) if is_on_node else ParkedRun(state=ParkedState(messages=()))
    tasks = board(a="")
    tasks.change("a", status=TaskStatus.WAITING, parked=run)

    begun = tasks.begin("a", goes_on=True)

    assert begun is not None
    assert (begun.status, begun.parked) == (TaskStatus.RUNNING, run if is_on_node else None)
    again = tasks.begin("a", goes_on=False)
    assert again is not None
    assert again.parked is None, "it begins from scratch"
