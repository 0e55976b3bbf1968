"""Approvals on the page: names, more time, prices of changed plans, whole diffs."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.actors.coder_user import CoderUser
from tests.actors.file_server import serving
from tests.actors.plan_user import PlanUser
from tests.actors.team import DIAMOND, Team
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import ByMark, ModelServer, Say
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database

WRITE = ("tool_write_file", {"path": "a.txt", "content": "a\n"})


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def user(person: Person, model: ModelServer, mark: str) -> CoderUser:
    return CoderUser(person, person.project("Shop")["id"], model, mark)


@pytest.fixture
def planner(person: Person, script: ByMark, mark: str) -> PlanUser:
    script[mark] = team = Team(mark, DIAMOND)
    project = person.project()
    return PlanUser(person, project, person.session(project["id"]), team)


def expiry(approval: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(approval["expires_at"])


@pytest.mark.req("DEC-01.1")
def test_approval_has_names_and_can_be_given_more_time(user: CoderUser, other: Person, tmp_path: Path) -> None:
    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser") as folder:
        user.script(WRITE)
        waiting = user.ask()
        url = f"/my/approvals/{waiting['approval_id']}"
        before = user.person.get(url)
        title = user.person.get(f"/my/chat/sessions/{user.session}")["title"]
        assert (before["project_name"], before["session_title"], before["agent"]) == ("Shop", title, "agent_coder")
        assert user.approvals() == [before]

        with user.person.follow(user.session) as news:
            extended = user.person.http.post(f"{url}/extend", json={}).json()
            [event] = [event for event in news.until("approval_extended") if event.type == "approval_extended"]

        assert expiry(extended) == expiry(before) + timedelta(minutes=30)
        assert (event.data["approval_id"], expiry(event.data)) == (before["id"], expiry(extended))
        for _ in range(2):
            longest = user.person.http.post(f"{url}/extend", json={"seconds": 86_400}).json()
            assert expiry(longest) <= datetime.now(UTC) + timedelta(days=1)
        assert user.person.get(url) == longest
        for seconds in (59, 86_401):
            assert_problem(user.person.http.post(f"{url}/extend", json={"seconds": seconds}), 422, "invalid_request")
        assert_problem(other.http.post(f"{url}/extend", json={}), 404, "approval_not_found")
        assert user.decide(before["id"], decision="approve").json()["agent"] == "agent_coder"
        user.ended(waiting["turn_id"])
        assert_problem(user.person.http.post(f"{url}/extend", json={}), 409, "approval_decided")
        assert folder.files() == {"a.txt": b"a\n"}


@pytest.mark.req("DEC-01.1", "DEC-02.5")
def test_question_in_the_terminal_is_extended_there_too(user: CoderUser) -> None:
    asked = {"success": False, "code": "asks", "ask_id": "q1", "error": "asked", "diff": "+a"}
    gone = {"success": False, "code": "no_question", "error": "Its time is over."}
    answers: dict[str, dict[str, Any]] = {"workspace/write": asked, "workspace/extend": {}}
    hello = {"mode": "terminal", "features": ["write", "extend"]}
    with serving(user.person, user.project, lambda method, _: answers[method], **hello) as calls:
        user.script(WRITE)
        url = f"/my/approvals/{user.ask()['approval_id']}"
        before = user.person.get(url)

        extended = user.person.http.post(f"{url}/extend", json={"seconds": 600}).json()

        assert expiry(extended) == expiry(before) + timedelta(minutes=10)
        [call] = [call for call in calls if call["method"] == "workspace/extend"]
        left = (expiry(extended) - datetime.now(UTC)).total_seconds()
        assert (call["ask_id"], left <= call["seconds"] <= left + 60) == ("q1", True)
        answers["workspace/extend"] = gone
        problem = assert_problem(user.person.http.post(f"{url}/extend", json={}), 409, "connector_declined")
        assert problem["detail"] == "Its time is over."
    with serving(user.person, user.project, lambda *_: {}, mode="terminal", features=["write"]):
        assert_problem(user.person.http.post(f"{url}/extend", json={}), 409, "connector_too_old")
    eventually(lambda: not user.person.get(f"/my/projects/{user.project}/connector")["online"])
    assert_problem(user.person.http.post(f"{url}/extend", json={}), 409, "connector_offline")
    assert user.person.get(url) == extended


@pytest.mark.req("DEC-01.3")
def test_long_diff_is_kept_whole_with_its_approval(user: CoderUser, tmp_path: Path) -> None:
    old = "".join(f"line {number} of the file\n" for number in range(8_000))
    new = old.replace("of the file", "of that file", 2_900)
    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser") as folder:
        (folder.path / "long.txt").write_text(old)
        user.script(("tool_write_file", {"path": "long.txt", "content": new}))
        waiting = user.ask()
        url = f"/my/approvals/{waiting['approval_id']}"
        before = user.person.get(url)["details"]["diff"]
        user.decide(waiting["approval_id"], decision="approve")
        user.ended(waiting["turn_id"])

    diff = user.person.get(url)["details"]["diff"]
    assert 100_000 < len(diff) < 200_000
    assert diff == before
    assert "cut" not in diff
    assert diff.count("\n+line ") == diff.count("\n-line ") == 2_900
    assert diff.splitlines()[2] == "@@ -1,2903 +1,2903 @@"


@pytest.mark.req("DEC-01.2", "CHT-03.2")
def test_changed_plan_is_priced_without_storing_it_and_runs_for_that_price(planner: PlanUser, other: Person) -> None:
    mark = planner.team.mark
    accepted = planner.ask()
    waits = planner.until(accepted["workflow_id"], "awaiting_approval")
    url = f"/my/approvals/{waits['approval_id']}/price"
    new = {"id": "e", "agent": "agent_writer", "description": f"{mark} do e. Shortly.", "depends_on": ["b"]}
    tasks = [
        {"id": "c", "drop": True},
        {"id": "d", "depends_on": ["a", "e"]},
        {"id": "b", "description": f"{mark} do b."},
    ]
    changes = {"tasks": [*tasks, new]}

    price = planner.person.http.post(url, json={"changes": changes}).json()

    assert {task["id"]: task["depends_on"] for task in price["tasks"]} == {
        "a": [],
        "b": ["a"],
        "d": ["a", "e"],
        "e": ["b"],
    }
    low, expected, high = (price[f"estimated_cost{end}"] for end in ("_low", "", "_high"))
    assert 0 < low <= expected <= high
    assert sum(task["estimated_cost"] for task in price["tasks"]) < expected
    assert (price["unknown_prices"], price["estimated_duration"] > 0) == ([], True)
    same = planner.person.http.post(url, json={}).json()
    assert same["estimated_cost_high"] == waits["estimated_cost_high"]
    assert planner.workflow(accepted["workflow_id"]) == waits
    assert_problem(other.http.post(url, json={}), 404, "approval_not_found")

    planner.team.needs = {**DIAMOND, "e": "b"}
    planner.decide(waits["approval_id"], changes=changes)
    workflow = planner.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert planner.team.called == ["a", "b", "e", "d"]
    assert workflow["estimated_cost_high"] == high
    assert {task["id"]: task["agent"] for task in workflow["tasks"]}["e"] == "agent_writer"
    assert_problem(planner.person.http.post(url, json={}), 409, "approval_decided")


@pytest.mark.req("DEC-01.2")
def test_impossible_plans_are_refused_with_what_is_wrong(planner: PlanUser) -> None:
    waits = planner.until(planner.ask()["workflow_id"], "awaiting_approval")
    url = f"/my/approvals/{waits['approval_id']}"
    many = [{"id": f"n{number}", "agent": "agent_coder", "description": "x"} for number in range(17)]
    wrong = {
        "'a' → ": [{"id": "a", "depends_on": ["d"]}],
        "depends on itself": [{"id": "a", "depends_on": ["a"]}],
        "depends on 'z', which is no task": [{"id": "a", "depends_on": ["z"]}],
        "depends on 'c', which is no task": [{"id": "c", "drop": True}, {"id": "d", "depends_on": ["c"]}],
        "The plan has no task 'x'. It has: a, b, c, d. A new task needs": [{"id": "x", "agent": "agent_coder"}],
        "The plan has no task 'y'": [{"id": "y", "drop": True}],
        "21 tasks, and 20 is the most": many,
        "no agent of this project": [{"id": "x", "agent": "agent_nobody", "description": "x"}],
        "can be left out or be changed": [{"id": "a", "drop": True, "depends_on": []}],
    }
    for words, tasks in wrong.items():
        changes = {"changes": {"tasks": tasks}}
        for path, body in (("price", changes), ("confirm", {"decision": "approve", **changes})):
            problem = assert_problem(planner.person.http.post(f"{url}/{path}", json=body), 422, "plan_not_possible")
            assert words in problem["detail"], problem["detail"]
    assert planner.workflow(waits["id"])["status"] == "awaiting_approval"


@pytest.mark.req("DEC-01.4")
def test_plan_stops_and_asks_at_the_lower_limit_of_its_approval(planner: PlanUser) -> None:
    planner.team.does = {"a": Say("Dear.", tokens=(4_000, 10))}
    waits = planner.until(planner.ask()["workflow_id"], "awaiting_approval")
    url, limit = f"/my/approvals/{waits['approval_id']}/confirm", waits["estimated_cost"]
    assert limit < waits["estimated_cost_high"]
    no = {"decision": "reject", "changes": {"limit_usd": limit}}
    assert_problem(planner.person.http.post(url, json=no), 422, "plan_not_possible")
    spent = {"decision": "approve", "changes": {"limit_usd": waits["cost"]}}
    problem = assert_problem(planner.person.http.post(url, json=spent), 422, "plan_not_possible")
    assert "Choose a higher limit" in problem["detail"]

    planner.decide(waits["approval_id"], changes={"limit_usd": limit})
    asks = eventually(lambda: budget_question(planner, waits["id"]), 30)

    assert asks["details"]["agreed_cost"] == pytest.approx(limit, abs=1e-6)
    assert planner.workflow(waits["id"])["agreed_cost"] == asks["details"]["agreed_cost"]
    assert set(planner.team.called) < set(DIAMOND)
    planner.decide(asks["id"])
    assert planner.ended(waits["id"])["status"] == "completed"

    again = planner.until(planner.ask("Again.")["workflow_id"], "awaiting_approval")
    high = {"limit_usd": again["estimated_cost_high"] * 2}  # a limit never allows more than was shown
    planner.decide(again["approval_id"], changes=high)
    assert planner.ended(again["id"])["agreed_cost"] == again["estimated_cost_high"]


def budget_question(planner: PlanUser, workflow_id: str) -> dict[str, Any]:
    """Return the pending question about more money; empty if there is none."""
    pending = planner.person.get("/my/approvals", status="pending")["items"]
    asks = (one for one in pending if (one["kind"], one["arguments"]["workflow_id"]) == ("budget", workflow_id))
    return next(asks, {})


def test_only_a_plan_has_a_price(user: CoderUser) -> None:
    user.script(("tool_delete_file", {"path": "a.txt"}))
    url = f"/my/approvals/{user.ask()['approval_id']}/price"
    assert_problem(user.person.http.post(url, json={}), 422, "plan_not_possible")
