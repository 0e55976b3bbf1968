"""Runs that an earlier release has parked go on after the user's decision."""

import json
from typing import Any

import pytest

from tests.actors.coder_user import CoderUser
from tests.actors.file_server import serving
from tests.actors.plan_user import PlanUser
from tests.actors.team import Team
from tests.conftest import Rows, Write
from tests.deadlines import eventually
from tests.model_server import ByMark, ModelServer, Say, Tool
from tests.people import Person
from tests.running import Server
from tests.stored import document

pytestmark = pytest.mark.any_database

IDS = ("agent_id", "message_id", "task_id", "approval_id", "workflow_id")
VERSIONS = pytest.mark.parametrize("version", ["unversioned", "version_1"])


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def with_ids(stored: dict[str, Any], current: dict[str, Any]) -> dict[str, Any]:
    """Return a stored document with the ids of this test."""
    ids = {name: current[name] for name in IDS if name in stored}
    inner = with_ids(stored["inner"], current["inner"]) if stored.get("inner") else None
    return stored | ids | ({"inner": inner} if inner else {})


def read(rows: Rows, query: str, **values: Any) -> dict[str, Any]:
    """Return the parked run that a query selects; the databases return text or JSON."""
    [[parked]] = rows(query, **values)
    found: dict[str, Any] = json.loads(parked) if isinstance(parked, str) else parked
    return found


@VERSIONS
@pytest.mark.parametrize(("name", "path"), [("direct", "a"), ("child", "old.txt")])
def test_a_turn_that_an_earlier_release_has_parked_goes_on(
    name: str, path: str, version: str, person: Person, model: ModelServer, mark: str, rows: Rows, write: Write
) -> None:
    project = person.project()["id"]
    user = CoderUser(person, project, model, mark)
    spawn = {"role": "tester", "task_brief": {"objective": mark}}
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": path}))])
    first = [Say(tools=[Tool("spawn_agent", json.dumps(spawn))])] if name == "child" else []
    assert isinstance(model.default, ByMark)
    model.default[mark] = [*first, delete, *(Say("The child is done.") for _ in first), Say("Done.")]

    with serving(person, project, lambda *_: {}) as calls:
        waiting = user.ask()
        current = read(rows, "SELECT parked FROM turns WHERE id = :id", id=waiting["turn_id"])
        stored = with_ids(document("parked_runs", version, name, mark), current)
        write("UPDATE turns SET parked = :parked WHERE id = :id", parked=json.dumps(stored), id=waiting["turn_id"])
        assert user.decide(waiting["approval_id"], decision="approve").status_code == 200
        ended = user.ended(waiting["turn_id"])

    assert ended["status"] == "completed"
    assert [call["path"] for call in calls] == [path]
    assert [call.get("if_match") for call in calls] == [stored["hashes"].get(path)]
    assert ended["usage"]["calls"] == stored["usage"]["calls"] + (2 if name == "child" else 1)
    sent = [message["content"] for message in model.asked[-1].body["messages"]]
    assert stored["state"]["messages"][0]["content"] in sent


def test_a_single_call_that_an_earlier_release_has_parked_is_made(
    person: Person, model: ModelServer, mark: str, write: Write
) -> None:
    project = person.project()["id"]
    tools = {"tool_write_file": {"requires_approval": True}}
    person.http.patch(f"/my/projects/{project}", json={"settings": {"tools": tools, "approval_seconds": 1}})
    user = CoderUser(person, project, model, mark)
    stored = document("parked_runs", "unversioned", "single_call")
    user.script((stored["single"]["tool"], stored["single"]["arguments"]))

    with serving(person, project, lambda *_: {}) as calls:
        waiting = user.ask()
        user.ended(waiting["turn_id"], 30)
        write("UPDATE approvals SET seconds = 60 WHERE id = :id", id=waiting["approval_id"])
        again = person.http.post(f"/my/approvals/{waiting['approval_id']}/ask-again").json()
        parked = json.dumps(stored)
        write("UPDATE turns SET parked = :parked WHERE id = :id", parked=parked, id=again["turn_id"])
        user.decide(again["id"], decision="approve")
        ended = user.ended(again["turn_id"])

    assert ended["status"] == "completed"
    assert [call["path"] for call in calls] == ["a"]


@VERSIONS
def test_a_task_of_a_plan_that_an_earlier_release_has_parked_goes_on(
    version: str, person: Person, script: ByMark, mark: str, rows: Rows, write: Write
) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    script[mark] = team = Team(mark, needs={"a": "", "b": "", "c": "a"}, does={"a": delete})
    project = person.project()
    user = PlanUser(person, project, person.session(project["id"]), team)
    accepted = user.ask()
    turn_id, workflow_id = accepted["turn_id"], accepted["workflow_id"]
    user.decide(user.until(workflow_id, "awaiting_approval")["approval_id"])
    [waiting] = eventually(lambda: person.get("/my/approvals", status="pending")["items"])
    eventually(lambda: person.turn(user.session, turn_id)["status"] == "waiting")
    current = read(rows, "SELECT parked FROM tasks WHERE workflow_id = :id AND id = 'a'", id=workflow_id)
    task = with_ids(document("parked_runs", version, "plan_task", mark), current)
    turn = document("parked_runs", version, "plan_turn") | {"workflow_id": workflow_id}
    change_task = "UPDATE tasks SET parked = :parked WHERE workflow_id = :id AND id = 'a'"
    write(change_task, parked=json.dumps(task), id=workflow_id)
    write("UPDATE turns SET parked = :parked WHERE id = :id", parked=json.dumps(turn), id=turn_id)
    team.does = {}

    user.decide(waiting["id"], "reject", feedback="Keep it.")
    workflow = user.ended(workflow_id)

    assert workflow["status"] == "completed"
    sent = [message["content"] for message in team.requests["a"].body["messages"]]
    assert task["state"]["messages"][0]["content"] in sent
    assert "Keep it." in sent[-1]
    used = eventually(lambda: person.turn(user.session, turn_id)["usage"])
    assert used["calls"] >= turn["usage"]["calls"] + 3  # a, c, and merging
