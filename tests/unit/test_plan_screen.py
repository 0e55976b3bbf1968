"""The terminal output of a plan."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.cli.output import one_line
from artel.cli.plan_screen import PlanScreen, at_most, cost_summary, duration, money, plan_text, price
from artel.cli.questions import deadline
from artel.client.plan import PlanView, TaskView
from artel.contract.approvals import TaskChange
from artel.plans.commands import changed_graph
from artel.plans.plan import PlannedTask, TaskGraph

TASKS = (
    TaskView("1", "agent_researcher", "Find examples.", (), 0.01),
    TaskView("2", "agent_writer", "Write the text.", ("1",), 0.02),
    TaskView("3", "agent_coder", "Build the page.", ("1", "2"), None),
)


def plan(*tasks: TaskView) -> PlanView:
    return PlanView("w", {task.id: task for task in tasks or TASKS}, 0.0213, 0.18, 40.0)


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [
        (None, "unknown"),
        (0.0, "$0.00"),
        (0.000_03, "under $0.0001"),
        (0.0123, "$0.0123"),
        (0.2, "$0.20"),
        (0.204, "$0.204"),
        (1.23456, "$1.23"),
        (12.0, "$12.00"),
    ],
)
def test_money(dollars: float | None, shown: str) -> None:
    assert money(dollars) == shown


@pytest.mark.req("CHT-11.3")
def test_prices_and_times() -> None:
    assert price(0.03, 0.1) == "about $0.03, at most $0.10"
    assert price(0.0341, 0.1001) == "about $0.03, at most $0.11"
    assert price(0.00123, 0.5) == "about $0.0012, at most $0.50"
    assert price(0.0, 0.0) == "$0"
    assert at_most(5.552) == "$5.56"
    assert price(None, 0.2) == "price unknown"
    assert [duration(seconds) for seconds in (0.4, 89.4, 90, 5399, 7200)] == ["0 s", "89 s", "2 min", "90 min", "2.0 h"]


def test_plan_text_lists_agents_dependencies_and_costs() -> None:
    assert plan_text(plan()).splitlines() == [
        "The plan: 3 tasks, about $0.02, at most $0.18, about 40 s",
        "  1  agent_researcher: Find examples. ($0.01)",
        "  2  agent_writer, after 1: Write the text. ($0.02)",
        "  3  agent_coder, after 1, 2: Build the page.",
    ]


def test_plan_text_names_models_with_unknown_price() -> None:
    odd = plan(TASKS[0])
    odd.unknown_prices = ["odd-model"]

    assert plan_text(odd).startswith("The plan: 1 task, price of odd-model unknown, about 40 s\n")


def test_plan_text_is_not_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    words = " ".join(f"word{number}" for number in range(200))

    shown = plan_text(plan(replace(TASKS[0], description=words)))

    assert " ".join(shown.split("agent_researcher:")[1].split()) == f"{words} ($0.01)"
    assert max(len(line) for line in shown.splitlines()[1:]) <= 40


@given(st.text(), st.text(min_size=1))
def test_task_text_can_not_imitate_another_task_or_control_the_terminal(description: str, name: str) -> None:
    shown = plan_text(plan(TaskView(name, "agent_coder", f"x{description}\n  9  agent_coder: nothing\x1b[2J")))

    tasks = shown.splitlines()[2 if " hidden character" in shown.split("\n")[1] else 1 :]
    assert all(line.startswith("     ") for line in tasks[1:])
    assert "\x1b" not in shown


@pytest.mark.req("SEC-03.1")
def test_hidden_characters_of_a_plan_are_escaped_and_announced() -> None:
    shown = plan_text(plan(TaskView("a", "agent_coder", "Delete \u202eeverything\x9d")))

    assert "The plan has 2 hidden characters (U+202E, U+009D); they are shown as \\u202e.\n" in shown
    assert "Delete \\u202eeverything\\x9d" in shown


def test_deadline_is_in_local_time() -> None:
    now = datetime.now().astimezone()
    later = now.astimezone(UTC) + timedelta(days=3)

    assert deadline({"expires_at": now.astimezone(UTC).isoformat()}) == f"until {now:%H:%M:%S}"
    assert deadline({"expires_at": later.isoformat()}) == f"until {later.astimezone():%Y-%m-%d %H:%M}"


def test_one_line_is_cut_between_words() -> None:
    assert one_line("a\tb\r\nc") == "a b c"
    assert one_line("one two three", 8) == "one two…"


class Watcher:
    """A PlanScreen whose output is recorded."""

    def __init__(self, *, watched: bool = True) -> None:
        self.lines: list[str] = []
        self.screen = PlanScreen(self.lines.append, watched=watched)

    def see(self, now: PlanView, task_id: str, status: str, **more: Any) -> list[str]:
        """Change a task; return the lines printed about it."""
        before = len(self.lines)
        now.tasks[task_id] = replace(now.tasks[task_id], status=status, **more)
        self.screen.show(now)
        return self.lines[before:]


def test_line_is_printed_when_a_task_starts_and_ends() -> None:
    watcher, now = Watcher(), plan()
    watcher.screen.show(now)
    assert watcher.lines == [plan_text(now)]

    assert watcher.see(now, "1", "running") == ["  1  agent_researcher started: Find examples."]
    assert watcher.see(now, "1", "running") == []
    assert watcher.see(now, "1", "waiting") == []
    assert watcher.see(now, "1", "running") == []
    assert watcher.see(now, "1", "completed", seconds=12.3) == ["  1  agent_researcher is done after 12 s"]
    assert watcher.see(now, "2", "failed", error="It\nbroke.") == ["  2  failed: It broke."]
    assert watcher.see(now, "3", "cancelled") == ["  3  cancelled"]


def test_new_plan_is_shown_without_repeating_finished_tasks() -> None:
    watcher = Watcher()
    watcher.screen.show(plan())
    again = plan(replace(TASKS[0], status="completed"), TASKS[1])

    watcher.screen.show(again)

    assert watcher.lines[1:] == [plan_text(again)]
    assert "  1  agent_researcher, already done: Find examples. ($0.01)" in watcher.lines[1]


def test_single_task_or_unwatched_plan_is_shown_only_for_approval() -> None:
    for watcher, now in ((Watcher(), plan(TASKS[0])), (Watcher(watched=False), plan())):
        watcher.screen.show(now)
        watcher.see(now, "1", "running")
        assert (watcher.lines, watcher.screen.was_shown) == ([], False)
        watcher.screen.show_whole(now, ["2: left\nout"])
        assert watcher.lines == [plan_text(now), "Changes:\n  2: left out"]


def test_status_shows_progress() -> None:
    screen, now = PlanScreen(lambda _: None, watched=True), plan()
    assert screen.progress(now) == "0 of 3 tasks done"
    now.tasks["1"] = replace(now.tasks["1"], status="running")
    assert screen.progress(now) == "0 of 3 tasks done; running: agent_researcher (1)"
    for task in TASKS:
        now.tasks[task.id] = replace(task, status="completed")
    assert screen.progress(now) is None
    assert screen.progress(plan(TASKS[0])) is None


WORKFLOW_ID = "0193a1b2-0000-7000-8000-00000badcafe"
COST = "Cost: $0.05, estimated: about $0.04, at most $0.20."
SENT_AGAIN = "To send it again: /retry"
MISSING = "artel workflows retry 0badcafe"


@pytest.mark.req("CLI-01.6")
@pytest.mark.parametrize(
    ("status", "task", "is_in_chat", "text"),
    [
        ("completed", "completed", False, f"[{COST}]"),
        ("partial", "completed", False, f"[{COST} To run the missing tasks: {MISSING}]"),
        ("cancelled", "cancelled", True, f"[{COST} {SENT_AGAIN}]"),
        ("partial", "completed", True, f"[{COST} {SENT_AGAIN}; to keep the finished tasks: {MISSING}]"),
    ],
)
def test_cost_summary(status: str, task: str, is_in_chat: bool, text: str) -> None:
    figures = {"cost": 0.05, "estimated_cost": 0.04, "estimated_cost_low": 0.01, "estimated_cost_high": 0.2}
    workflow = {"id": WORKFLOW_ID, "status": status, "tasks": [{"status": task}], **figures}

    assert cost_summary(workflow, is_in_chat=is_in_chat) == text


def test_cost_summary_with_unknown_cost() -> None:
    figures = {"cost": None, "estimated_cost": None, "estimated_cost_low": 0.01, "estimated_cost_high": 0.2}

    text = cost_summary({"id": WORKFLOW_ID, "status": "completed", "tasks": [], **figures}, is_in_chat=False)

    assert text == "[Cost: unknown, estimated: price unknown.]"


@st.composite
def _dropped(draw: st.DrawFn) -> tuple[list[TaskView], list[str]]:
    names = [str(number) for number in range(draw(st.integers(2, 8)))]
    tasks = [
        TaskView(name, "agent_coder", "x", tuple(other for other in names[:index] if draw(st.booleans())))
        for index, name in enumerate(names)
    ]
    return tasks, draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names) - 1))


@given(_dropped())
def test_dropping_tasks_gives_the_same_graph_as_on_the_server(drawn: tuple[list[TaskView], list[str]]) -> None:
    tasks, dropped = drawn
    shown = plan(*tasks)
    graph = TaskGraph(PlannedTask(task.id, task.agent, task.description, task.depends_on) for task in tasks)

    for task_id in dropped:
        shown.drop(task_id)
    on_server = changed_graph(graph, [TaskChange(id=task_id, drop=True) for task_id in dropped], ["agent_coder"])

    assert {task.id: task.depends_on for task in shown.tasks.values()} == {
        task.id: task.depends_on for task in on_server.tasks.values()
    }
