"""Plans survive restarts: approvals stay pending, and interrupted tasks can be retried."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.actors.plan_user import PlanUser
from tests.actors.team import DIAMOND, Team
from tests.conftest import JWT_SECRET, StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold, ModelServer, Say
from tests.people import Person, client
from tests.running import Server, clean_environment

pytestmark = pytest.mark.any_database


class Machine:
    """A server that can be killed and restarted."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self._env = env
        self.server = Server.start(folder / "0", env)
        self._starts = 1

    def crash(self) -> None:
        self.server.kill()

    def start(self) -> str:
        self.server = Server.start(self._folder / str(self._starts), self._env)
        self._starts += 1
        return self.server.url


@pytest.fixture
def machine(upgraded_database: Callable[[], str], model: ModelServer, tmp_path: Path) -> Iterator[Machine]:
    env = clean_environment(
        tmp_path,
        ARTEL_DATABASE_URL=upgraded_database(),
        ARTEL_JWT_SECRET=JWT_SECRET,
        ARTEL_HOST_LEASE_SECONDS="5",  # long enough for a busy machine to renew it
        OPENAI_BASE_URL=model.url,
        OPENAI_API_KEY="none",
    )
    running = Machine(tmp_path, env)
    yield running
    if running.server.process.poll() is None:
        running.crash()


@pytest.fixture
def user(machine: Machine, script: ByMark, mark: str) -> PlanUser:
    script[mark] = team = Team(mark)
    person = Person.register(machine.server.url)
    project = person.project()
    return PlanUser(person, project, person.session(project["id"]), team)


def test_plan_waiting_for_approval_survives_crash(machine: Machine, user: PlanUser) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")

    machine.crash()
    user.person.http = client(machine.start(), user.person.token)

    [asked] = user.person.get("/my/approvals", status="pending")["items"]
    assert asked["id"] == waits["approval_id"]
    user.decide(asked["id"])
    assert user.ended(accepted["workflow_id"])["status"] == "completed"
    assert sorted(user.team.called) == ["a", "b", "c", "d"]
    assert user.team.planned == 1


def test_planning_restarts_after_server_stop(machine: Machine, user: PlanUser) -> None:
    never = Hold()
    user.team.needs, user.team.plans = DIAMOND, [never]
    accepted = user.ask()
    eventually(lambda: never.arrived)

    assert machine.server.stop() == 0
    user.person.http = client(machine.start(), user.person.token)

    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    assert (waits["planned_by"], user.team.planned) == ("model", 2)
    user.decide(waits["approval_id"])
    assert user.ended(accepted["workflow_id"])["status"] == "completed"


@pytest.mark.req("CHT-10.2")
@pytest.mark.parametrize("end", ["cancelled", "interrupted"])
def test_streamed_part_of_a_merged_answer_is_kept_as_cut_off(machine: Machine, user: PlanUser, end: str) -> None:
    user.team.needs, user.team.does = {"a": "", "b": ""}, {"merge": Hold(word="Together they ")}
    accepted = user.ask()
    user.decide(user.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    eventually(machine.server.drafts)  # of the merged answer: texts of tasks have none

    if end == "cancelled":
        user.person.http.post(f"/my/chat/{user.session}/turns/{accepted['turn_id']}/cancel").raise_for_status()
    else:
        machine.crash()
        user.person.http = client(machine.start(), user.person.token)
    eventually(lambda: user.person.turn(user.session, accepted["turn_id"])["finished_at"])

    cut_off, note = user.person.history(user.session)[-2:]
    assert (cut_off["role"], cut_off["status"], cut_off["error_code"]) == ("assistant", "cut_off", end)
    assert cut_off["content"] == "Together they "
    assert (note["role"], note["error_code"]) == ("system", end)
    tasks = user.workflow(accepted["workflow_id"])["tasks"]
    assert [(task["status"], bool(task["result"])) for task in tasks] == [("completed", True)] * 2


def test_planning_worker_space_is_not_idle(
    start_server: StartServer, model: ModelServer, script: ByMark, mark: str
) -> None:
    server = start_server(**with_model(model), ARTEL_SPACE_IDLE_SECONDS="0.5")
    person = Person.register(server.url)
    project, other = person.project(), person.project("Another")
    hold = Hold()
    script[mark] = team = Team(mark, DIAMOND)
    hold.says = Say(json.dumps({"tasks": team.tasks()}))
    team.plans = [hold]
    user = PlanUser(person, project, person.session(project["id"]), team)
    accepted = user.ask()
    eventually(lambda: hold.arrived)

    before = _idle(server, other)
    person.say(person.session(other["id"]), "Hello")
    eventually(lambda: _idle(server, other) > before, 30)  # and this one was used later
    hold.release()

    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    assert ([task["id"] for task in waits["tasks"]], team.planned) == (list(DIAMOND), 1)
    assert not hold.abandoned.is_set()


def _idle(server: Server, project: dict[str, Any]) -> int:
    """Return how often the idle space of a project was cleaned up."""
    return sum(line["event"] == "space_idle" and line["project_id"] == project["id"] for line in server.log_lines())


def test_interrupted_task_fails_once_and_retry_runs_only_the_rest(machine: Machine, user: PlanUser) -> None:
    hold = Hold()
    user.team.needs, user.team.does = DIAMOND, {"b": hold}
    accepted = user.ask()
    user.decide(user.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    eventually(lambda: hold.arrived)
    eventually(lambda: user.statuses(user.workflow(accepted["workflow_id"]))["c"] == "completed")
    spent = user.workflow(accepted["workflow_id"])["agreed_cost"]

    machine.crash()
    hold.release()
    user.team.does = {}
    user.person.http = client(machine.start(), user.person.token)

    workflow = user.ended(accepted["workflow_id"])
    assert (workflow["status"], workflow["error_code"]) == ("failed", "interrupted")
    assert user.statuses(workflow) == {"a": "completed", "b": "failed", "c": "completed", "d": "cancelled"}
    events = user.person.events_of(user.session, accepted["turn_id"])
    assert [event.data["task_id"] for event in events if event.type == "task_failed"] == ["b"]
    assert [event.type for event in events][-1] == "turn_failed"
    assert [event.number for event in events] == sorted({event.number or 0 for event in events})
    before = list(user.team.called)

    assert user.person.http.post(f"/my/workflows/{workflow['id']}/retry").status_code == 202
    workflow = user.ended(workflow["id"])

    assert workflow["status"] == "completed"
    assert user.team.called[len(before) :] == ["b", "d"]
    assert workflow["agreed_cost"] == spent
    assert user.team.planned == 1
