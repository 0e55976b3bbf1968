"""Servers killed at a kill point of a plan: results are kept, and pending approvals stay pending.

While it comes back the next plans are begun, and killed at the next point; what is left of those before goes on beside
them. `make faults` kills at each point 20 times; the usual run does it once.
"""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row

from tests.conftest import JWT_SECRET
from tests.faults.kill_points import KILLS, MORTAL, TERMINAL_EVENTS, Assassin, Rows, arm, data_of, points_of
from tests.faults.plan_users import RETRY_SECONDS, Flow, KillingTeams, RetryingClient, User
from tests.faults.points import AT_THE_MODEL, ENDING, PLANNING, WAITING, WORKING, Point
from tests.model_server import ModelServer
from tests.people import Person
from tests.running import Server, clean_environment
from tests.services import until

DYING_SECONDS = 120.0
TASK_ENDS = {"task_completed", "task_failed", "task_cancelled"}


@dataclass
class Death:
    """A snapshot of the database and of the model calls after a kill."""

    turns: dict[str, Row[Any]]
    workflows: dict[str, Row[Any]]
    tasks: dict[tuple[str, str], Row[Any]]
    approvals: dict[str, Row[Any]]
    asked: dict[str, Counter[str]]


class Victim:
    """A server that is killed and restarted, with its model and users of plans."""

    def __init__(self, backend: str, database: str, folder: Path, model: ModelServer) -> None:
        self._folder, self._armed = folder, folder / "armed"
        self._assassin, self._teams = Assassin(), KillingTeams()
        model.default = self._teams
        self.rows = Rows(database)
        self._env = clean_environment(
            folder,
            ARTEL_DATABASE_URL=database,
            ARTEL_JWT_SECRET=JWT_SECRET,
            ARTEL_LOG_LEVEL="warning",
            ARTEL_HOST_LEASE_SECONDS="2",
            ARTEL_MAX_PROJECTS_PER_USER="1000000",
            OPENAI_BASE_URL=model.url,
            OPENAI_API_KEY="none",
            MORTAL_FILE=str(self._armed),
        )
        self._chance = random.Random(backend)
        self.server = self._start()
        self._token = Person.register(self.server.url).token

    def _start(self) -> Server:
        return Server.start(self._folder, self._env, module=MORTAL)

    def line(self) -> RetryingClient:
        return RetryingClient(lambda: self.server.url, self._token)

    def die_at(self, point: Point) -> User:
        """Start flows and kill the server at a passage of the kill point; return their user."""
        if self.server.process.poll() is not None:  # the point before has failed
            self.server = self._start()
        user = User(self.line(), point.flows, self._teams, self._assassin)
        user.undecided = set(point.undecided)
        passage = self._chance.randint(1, max(1, point.passages))
        if point.name in AT_THE_MODEL:
            self._assassin.arm(point.name, passage, self.server.process.pid)
        elif point.passages:
            arm(self._armed, point.name, passage)
        user.start()
        if not point.passages:
            assert until(lambda: self._all_wait(user), DYING_SECONDS), user.problem
            os.kill(self.server.process.pid, signal.SIGKILL)
        assert until(lambda: self.server.process.poll() is not None, DYING_SECONDS), f"{point}: {user.problem}"
        assert self.server.process.poll() == -signal.SIGKILL
        self.server.kill()  # closes its output
        self._armed.unlink(missing_ok=True)
        return user

    def come_back(self, user: User) -> None:
        """Restart the server; waiting users continue."""
        self.server = self._start()
        user.undecided = set()

    def _all_wait(self, user: User) -> bool:
        sessions = [flow.session_id for flow in user.flows]
        waiting = [turn for turn in self.rows.of("turns", sessions) if turn.status == "waiting"]
        pending = self.rows.of("approvals", sessions)
        asked = {one.session_id for one in pending if one.status == "pending" and one.kind in user.undecided}
        return len(waiting) == len(asked) == len(sessions)

    def look(self, flows: Sequence[Flow]) -> Death:
        """Return a snapshot of the database."""
        sessions = [flow.session_id for flow in flows]
        workflows = {row.id: row for row in self.rows.of("workflows", sessions)}
        tasks = self.rows.where("tasks", "workflow_id", workflows) if workflows else []
        return Death(
            turns={row.id: row for row in self.rows.of("turns", sessions)},
            workflows=workflows,
            tasks={(row.workflow_id, row.id): row for row in tasks},
            approvals={row.id: row for row in self.rows.of("approvals", sessions)},
            asked={flow.session_id: flow.team.asked.copy() for flow in flows},
        )


@pytest.fixture(scope="module")
def victim(
    backend: str, upgraded_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Victim]:
    model = ModelServer()
    with model.running_in_thread():
        victim = Victim(backend, upgraded_database(), tmp_path_factory.mktemp("victim"), model)
        yield victim
        victim.rows.close()
        if victim.server.process.poll() is None:
            assert victim.server.stop() == 0


@pytest.mark.req("UWS-08.3")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "points",
    [
        pytest.param(PLANNING, id="planning"),
        pytest.param(WORKING, id="working"),
        pytest.param([*WAITING, *ENDING], id="ending"),
    ],
)
def test_plans_are_consistent_after_server_is_killed(victim: Victim, backend: str, points: Sequence[Point]) -> None:
    for _ in range(KILLS):
        users: list[User] = []
        deaths: list[Death] = []
        for point in points_of(points, backend):
            users.append(victim.die_at(point))
            deaths.append(victim.look([flow for user in users for flow in user.flows]))
            check_death(deaths[-1])
            victim.come_back(users[-1])
        for user in users:
            user.join(RETRY_SECONDS)
            assert not user.is_alive()
        assert [user.problem for user in users if user.problem] == []

        for user in users:
            now = victim.look(user.flows)
            events = told(victim, user.flows)
            check_money(victim, user, now)
            for flow in user.flows:
                check_end(flow, now)
                check_history(victim, flow, now)
                check_turns(flow, deaths, now, events)
                check_tasks(flow, deaths, now)
                check_approvals(flow, deaths, now, events)
                check_events(victim, flow, now, events)


def check_death(death: Death) -> None:
    """Assert that related rows were stored in one transaction."""
    pending: dict[str, list[Row[Any]]] = {}
    for approval in death.approvals.values():
        if approval.status == "pending":
            pending.setdefault(approval.turn_id, []).append(approval)
    for turn in death.turns.values():
        workflow = [row for row in death.workflows.values() if row.turn_id == turn.id]
        if turn.status == "waiting":
            assert len(pending[turn.id]) == 1, "a turn waits for nothing, or for two things"
            [approval] = pending[turn.id]
            expected = "running" if approval.kind == "tool" else "awaiting_approval"
            assert workflow[0].status == expected
        if workflow:
            assert (turn.finished_at is None) == (workflow[0].finished_at is None), "one ended without the other"
    for approval in death.approvals.values():
        if approval.kind == "plan" and approval.status == "approved":
            begun = [task for task in death.tasks.values() if task.workflow_id == _workflow_of(approval)]
            assert {task.status for task in begun} <= {"pending", "cancelled"}, "a plan ran that was not begun"


def check_end(flow: Flow, now: Death) -> None:
    """Assert that the flow ended as its user wanted."""
    [workflow] = [one for one in now.workflows.values() if one.session_id == flow.session_id]
    tasks = {task.id: task.status for task in now.tasks.values() if task.workflow_id == workflow.id}
    if flow.kind.hangs:
        assert workflow.status == "cancelled"
        assert set(tasks.values()) <= {"completed", "cancelled"}
    else:
        assert workflow.status == "completed"
        assert tasks == dict.fromkeys(flow.kind.done, "completed")


def check_history(victim: Victim, flow: Flow, now: Death) -> None:
    """Assert one user message and one answer per turn; the last is the workflow's."""
    messages = sorted(victim.rows.of("messages", [flow.session_id]), key=lambda message: message.number)
    assert [message.content for message in messages if message.role == "user"] == [flow.message["content"]]
    turns = {turn.id for turn in now.turns.values() if turn.session_id == flow.session_id}
    assert flow.accepted["turn_id"] in turns
    assert Counter(message.turn_id for message in messages if message.role != "user") == Counter(turns)
    [workflow] = [workflow for workflow in now.workflows.values() if workflow.session_id == flow.session_id]
    if workflow.status == "completed":
        assert (messages[-1].role, messages[-1].content) == ("assistant", workflow.answer)


def check_turns(flow: Flow, deaths: Sequence[Death], now: Death, events: Sequence[Row[Any]]) -> None:
    """Assert that exactly the interrupted turns and tasks failed, once, and finished ones did not change."""
    for turn in now.turns.values():
        if turn.session_id != flow.session_id:
            continue
        stood = [death.turns[turn.id].status for death in deaths if turn.id in death.turns]
        was_cut_off = turn.error_code == "interrupted"
        if "running" in stood:
            assert was_cut_off or (flow.kind.hangs and turn.status == "cancelled"), turn
        else:
            assert not was_cut_off, (turn, stood)
        for death in deaths:
            if turn.id in death.turns and death.turns[turn.id].finished_at:
                assert turn == death.turns[turn.id], "a turn that had ended was changed"
            if turn.id in death.turns and death.turns[turn.id].status == "running" and was_cut_off:
                _check_cut_off(turn, death, events)


def _check_cut_off(turn: Row[Any], death: Death, events: Sequence[Row[Any]]) -> None:
    ran = [
        task.id
        for task in death.tasks.values()
        if task.status == "running" and death.workflows[task.workflow_id].turn_id == turn.id
    ]
    failed = [
        data_of(event)["task_id"]
        for event in events
        if (event.turn_id, event.type) == (turn.id, "task_failed") and data_of(event)["code"] == "interrupted"
    ]
    assert sorted(failed) == sorted(ran)


def check_tasks(flow: Flow, deaths: Sequence[Death], now: Death) -> None:
    """Assert that stored results are kept and not computed again."""
    for death in deaths:
        for place, task in death.tasks.items():
            if task.status == "completed" and death.workflows[task.workflow_id].session_id == flow.session_id:
                assert (now.tasks[place].status, now.tasks[place].result) == ("completed", task.result)
                assert flow.team.asked[task.id] == death.asked[flow.session_id][task.id], f"{task.id} was done again"


def check_approvals(flow: Flow, deaths: Sequence[Death], now: Death, events: Sequence[Row[Any]]) -> None:
    """Assert that decisions are kept: plans and budgets are approved once, and approvals are used."""
    approvals = {approval.id: approval for approval in now.approvals.values() if approval.session_id == flow.session_id}
    cut_off = {turn.id for turn in now.turns.values() if turn.error_code == "interrupted"}
    resolved = Counter(data_of(event)["approval_id"] for event in events if event.type == "approval_resolved")
    for approval in approvals.values():
        decision = flow.decided.get(approval.id)
        assert resolved[approval.id] == (decision is not None)
        assert (approval.used_at is not None) == (approval.status == "used")
        if decision == "reject":
            assert approval.status == "rejected"
        elif decision == "approve":
            goes_again = approval.kind == "tool" and approval.turn_id in cut_off  # with its task
            assert approval.status == "used" or (goes_again and approval.status == "approved"), approval
        else:
            assert approval.status == "withdrawn", approval
            assert approval.turn_id in cut_off | {turn.id for turn in now.turns.values() if turn.status == "cancelled"}
        for death in deaths:
            before = death.approvals.get(approval.id)
            if before is not None and death.turns[before.turn_id].status == "waiting" and before.status == "pending":
                assert decision is not None, "a question was lost"
    plans = [
        flow.decided[approval.id]
        for approval in approvals.values()
        if approval.kind == "plan" and approval.id in flow.decided
    ]
    expected = [] if len(flow.kind.needs) == 1 else ["reject"] * bool(flow.kind.revised) + ["approve"]
    assert sorted(plans) == sorted(expected), "the user had to decide again"


def check_events(victim: Victim, flow: Flow, now: Death, events: Sequence[Row[Any]]) -> None:
    """Assert event numbers without gaps, one end per turn, and consistent events per task."""
    mine = [event for event in events if event.session_id == flow.session_id]
    [session] = victim.rows.of("sessions", [flow.session_id])
    assert [event.number for event in mine] == list(range(1, session.last_event + 1)), "numbers have holes"
    assert [event.type for event in mine].count("message_created") == 1
    for turn in now.turns.values():
        if turn.session_id != flow.session_id:
            continue
        happened = [event for event in mine if event.turn_id == turn.id]
        kinds = Counter(event.type for event in happened)
        answers = [event for event in happened if event.type == "message_completed"]
        assert [data_of(event)["status"] != "cut_off" for event in answers].count(True) == 1
        assert sum(kinds[kind] for kind in TERMINAL_EVENTS) == 1
        assert happened[-1].type in TERMINAL_EVENTS
        for task_id in {data_of(event)["task_id"] for event in happened if event.type in TASK_ENDS | {"task_started"}}:
            story = [event for event in happened if data_of(event).get("task_id") == task_id]
            _check_story([(event.type, data_of(event).get("code")) for event in story])


def _check_story(story: Sequence[tuple[str, str | None]]) -> None:
    kinds = [kind for kind, _ in story]
    starts, ends = kinds.count("task_started"), [one for one in story if one[0] in TASK_ENDS]
    assert (starts, len(ends)) in ((1, 1), (0, 1)), story
    if starts:
        assert kinds.index("task_started") < kinds.index(ends[0][0]), story
    else:
        assert ends[0] == ("task_failed", "dependency_failed"), story


def check_money(victim: Victim, user: User, now: Death) -> None:
    """Assert that nothing stays reserved and spending is within the agreed cost."""
    budgets = victim.rows.where("budgets", "project_id", [user.project_id])
    assert [budget.reserved_micros for budget in budgets] == [0] * len(budgets)
    assert victim.rows.where("reservations", "project_id", [user.project_id]) == []
    for workflow in now.workflows.values():
        [own] = [budget for budget in budgets if budget.scope == workflow.id]
        costs = sum(task.cost_micros or 0 for task in now.tasks.values() if task.workflow_id == workflow.id)
        assert costs <= workflow.spent_micros <= workflow.limit_micros, workflow
        assert (own.spent_micros, own.limit_micros) == (workflow.spent_micros, workflow.limit_micros)
    [month] = [budget for budget in budgets if budget.kind == "month"]
    assert month.spent_micros >= sum(workflow.spent_micros for workflow in now.workflows.values())


def told(victim: Victim, flows: Sequence[Flow]) -> list[Row[Any]]:
    """Return the event types in order."""
    events = victim.rows.of("events", [flow.session_id for flow in flows])
    return sorted(events, key=lambda event: (event.session_id, event.number))


def _workflow_of(approval: Row[Any]) -> str:
    arguments = json.loads(approval.arguments) if isinstance(approval.arguments, str) else approval.arguments
    workflow_id: str = arguments["workflow_id"]
    return workflow_id
