"""Graphs of tasks: what makes a good one, and in which order it is done, whatever fails."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artel.brain.brain import Usage
from artel.budgets.spending import Spending
from artel.plans.plan import MAX_PROBLEMS, PlanInvalid, PlannedTask, TaskGraph, WorkflowTask
from artel.plans.task_run import TaskBoard
from artel.runs.task import ExecutionResult
from tests.depth import by_depth
from tests.plan_tasks import AGENTS, DIAMOND, graph, graphs, task

USAGE = Usage("gpt-4o")
DONE = ExecutionResult(True, "Done.", (), USAGE, 0.1)
FAILED = ExecutionResult.failed("It does not work.", "agent_failed", USAGE)


def board_of(planned: TaskGraph) -> TaskBoard:
    """Return the tasks of a plan that starts."""
    tasks = [
        WorkflowTask("w", task.id, 1, number, 1, task.agent, task.description, list(task.depends_on))
        for number, task in enumerate(planned.tasks.values(), 1)
    ]
    return TaskBoard(tasks, Spending(USAGE, 0, price_unknown=False))


def is_over(board: TaskBoard) -> bool:
    return all(task.status.is_terminal for task in board.all)


@pytest.mark.req("UWS-23.2", "UWS-23.3", "CHT-03.1")
@settings(max_examples=by_depth(60, 1000))
@given(graphs(), st.randoms(use_true_random=False))
def test_every_task_runs_once_after_its_dependencies(planned: TaskGraph, chance: random.Random) -> None:
    board = board_of(planned)
    running: list[str] = []
    done: list[str] = []
    while not is_over(board):
        running += [ready.id for ready in board.take_ready()]
        assert running, "nothing runs, and it is not over"
        chosen = running.pop(chance.randrange(len(running)))
        assert set(planned.tasks[chosen].depends_on) <= set(done)
        board.end(chosen, DONE)
        board.done(chosen)
        done.append(chosen)
    assert sorted(done) == sorted(planned.tasks)
    assert not board.take_ready()


@pytest.mark.req("CHT-08.2")
@settings(max_examples=by_depth(60, 1000))
@given(graphs(), st.data())
def test_exactly_the_dependents_of_failed_task_are_aborted(planned: TaskGraph, data: st.DataObject) -> None:
    doomed = data.draw(st.sets(st.sampled_from(sorted(planned.tasks))))
    board = board_of(planned)
    begun: set[str] = set()
    aborted: set[str] = set()
    while ready := [ready.id for ready in board.take_ready()]:
        begun |= set(ready)
        for task_id in ready:
            if task_id in doomed:
                aborted |= set(board.end(task_id, FAILED)[1])
            else:
                board.end(task_id, DONE)
                board.done(task_id)
    assert is_over(board)
    assert aborted == {task_id for task_id in planned.tasks if _needs(planned, task_id) & doomed & begun}
    assert begun == set(planned.tasks) - aborted


def _needs(planned: TaskGraph, task_id: str) -> set[str]:
    """Everything that a task depends on, however far away."""
    direct = set(planned.tasks[task_id].depends_on)
    return direct.union(*(_needs(planned, one) for one in direct))


@given(graphs(), st.data())
def test_critical_path_is_duration_with_unlimited_agents(planned: TaskGraph, data: st.DataObject) -> None:
    seconds = {task: data.draw(st.integers(0, 100)) for task in planned.tasks}

    def end(task_id: str) -> float:
        return seconds[task_id] + max((end(task) for task in planned.tasks[task_id].depends_on), default=0.0)

    assert planned.critical_path(seconds) == max(end(task) for task in planned.tasks)


def test_the_order_and_the_dependants_of_a_diamond() -> None:
    diamond = graph(DIAMOND)

    assert diamond.order[0] == "a"
    assert diamond.order[-1] == "d"
    assert diamond.dependants("b") == {"d"}
    assert diamond.dependants("a") == {"b", "c", "d"}


@pytest.mark.parametrize(
    ("tasks", "advice"),
    [
        ([], "no tasks"),
        ([task(str(number)) for number in range(21)], "21 tasks, and 20 is the most"),
        ([task(str(number)) for number in range(10_000)], "10,000 tasks"),
        ([task("a"), task("a")], "two tasks 'a'"),
        ([task("a", "a")], "depends on itself"),
        ([task("a", "b")], "depends on 'b', which is no task"),
        ([task("a", agent="nobody")], "'nobody', who is no agent of this project. The agents are: coder, writer."),
        ([task("a", "b"), task("b", "a"), task("c", "b")], "these can never begin: 'c'"),
        ([task("a", "c"), task("b", "a"), task("c", "b")], "wait for each other"),
        ([task("a", description="  ")], "has no description"),
        ([task("a", description="x" * 4001)], "more than 4,000 characters"),
        ([task("")], "The id '' is empty"),
        ([task("a", description="half \ud800")], "half a character"),
        ([task("a\0")], "has a NUL"),
        ([task("x" * 65)], "longer than 64"),
    ],
)
def test_invalid_plan_is_refused_with_advice(tasks: list[PlannedTask], advice: str) -> None:
    with pytest.raises(PlanInvalid) as refused:
        TaskGraph.checked(tasks, AGENTS)

    assert any(advice in problem for problem in refused.value.problems)
    assert len(refused.value.problems) <= MAX_PROBLEMS
    assert all(len(problem) < 600 for problem in refused.value.problems[:1])


_words = st.text(max_size=12)


@settings(max_examples=by_depth(60, 1000))
@given(
    st.lists(
        st.builds(
            PlannedTask,
            st.sampled_from("abcdef") | _words,
            st.sampled_from(AGENTS) | _words,
            _words,
            st.lists(st.sampled_from("abcdef") | _words, max_size=4).map(tuple),
        ),
        max_size=25,
    )
)
def test_whatever_a_model_plans_is_run_whole_or_refused(tasks: list[PlannedTask]) -> None:
    try:
        planned = TaskGraph.checked(tasks, AGENTS)
    except PlanInvalid as refused:
        assert 1 <= len(refused.problems) <= MAX_PROBLEMS  # noqa: PT017 - either outcome is fine, and checked
        return
    assert [one.id for one in planned.tasks.values()] == [one.id for one in tasks]
    assert sorted(planned.order) == sorted(one.id for one in tasks)


def test_a_graph_for_people() -> None:
    assert graph(DIAMOND).text().splitlines() == [
        "a. coder: Do it.",
        "b. coder: Do it. (after a)",
        "c. coder: Do it. (after a)",
        "d. coder: Do it. (after b, c)",
    ]


def test_a_graph_for_mermaid_quotes_what_others_wrote() -> None:
    bad = 'x"]\nclick t1 call alert("hi") %%{init: {}}%%'

    drawn = TaskGraph.checked([task("a b", description=bad), task("c", "a b")], AGENTS).mermaid()

    assert drawn.splitlines()[0] == "flowchart LR"
    assert drawn.splitlines()[-1] == "    t1 --> t2"
    assert drawn.count("\n") == 3
    assert drawn.count('"') == 4
    assert "%" not in drawn
    assert "(" not in drawn
