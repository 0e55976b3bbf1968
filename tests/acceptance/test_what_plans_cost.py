"""What a workflow is said to have cost is what its budgets have counted, also for calls that were lost."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.test_plans import Desk, FirstThen, Team
from tests.conftest import Rows
from tests.deadlines import eventually
from tests.model_server import ByMark, Cut, Say, Tool
from tests.people import Person
from tests.running import Server

Spent = Callable[[str], float]


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def desk(person: Person, script: ByMark, mark: str) -> Desk:
    """Somebody with a plan of one task, for an agent without tools: it may call its model once."""
    script[mark] = team = Team(mark, {"1": ""}, agent=lambda _: "agent_plain")
    project = person.project()
    person.agent(project["id"], name="agent_plain", tools=[], memory=False)
    return Desk(person, project, person.session(project["id"]), team)


@pytest.fixture
def counted(desk: Desk, rows: Rows) -> Spent:
    """Return what a budget of the project has counted."""

    def read(kind: str) -> float:
        query = "SELECT spent_micros FROM budgets WHERE project_id = :project AND kind = :kind"
        [budget] = rows(query, project=desk.project["id"], kind=kind)
        return float(budget.spent_micros) / 1e6

    return read


def _asked_for_money(desk: Desk, workflow_id: str) -> dict[str, Any]:
    workflow = desk.until(workflow_id, "awaiting_approval")
    return desk.person.get(f"/my/approvals/{workflow['approval_id']}")


def test_an_agent_without_tools_can_make_the_one_call_that_was_priced(desk: Desk) -> None:
    for said in ("Hello", "Hello again", "And again"):
        desk.person.say(desk.session, said)

    accepted = desk.ask()
    workflow = desk.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert desk.person.get("/my/approvals")["items"] == []
    assert desk.person.turn(desk.session, accepted["turn_id"])["usage"]["calls"] == 2  # with planning


def test_a_lost_call_is_told_with_the_question_for_more_and_in_the_end(desk: Desk, counted: Spent) -> None:
    desk.team.does = {"1": FirstThen(Cut(), 1, Say("At last."))}
    accepted = desk.ask()

    approval = _asked_for_money(desk, accepted["workflow_id"])

    assert (approval["kind"], desk.team.asked) == ("budget", ["1"])
    assert approval["details"]["spent"] == counted("plan")
    assert approval["details"]["spent"] > approval["details"]["agreed_cost"] / 2
    assert desk.workflow(accepted["workflow_id"])["cost"] == counted("plan")
    desk.decide(approval["id"])
    workflow = desk.ended(accepted["workflow_id"])
    assert (workflow["status"], workflow["answer"]) == ("completed", "At last.")
    assert workflow["cost"] == counted("plan") > approval["details"]["spent"]


def test_planning_that_came_to_nothing_has_a_cost_too(desk: Desk, counted: Spent) -> None:
    settings = {"settings": {"monthly_budget_usd": 0.06}}
    assert desk.person.http.patch(f"/my/projects/{desk.project['id']}", json=settings).status_code == 200
    desk.team.plans = [Cut(), Cut()]

    workflow = desk.ended(desk.ask()["workflow_id"])

    assert (workflow["status"], workflow["error_code"]) == ("failed", "budget_exceeded")
    assert desk.team.planned == 1
    assert workflow["cost"] == counted("month") > 0


def test_the_usage_of_a_turn_is_all_that_it_took_to_answer_it(desk: Desk) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    desk.team.needs, desk.team.agent = {"a": "", "b": "a", "c": ""}, lambda _: "agent_coder"
    desk.team.does = {"b": FirstThen(delete, 1, Say("Done without."))}
    accepted = desk.ask()
    desk.decide(desk.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    [approval] = eventually(lambda: desk.person.get("/my/approvals", status="pending")["items"], 30)
    eventually(lambda: desk.person.turn(desk.session, accepted["turn_id"])["status"] == "waiting", 30)

    desk.decide(approval["id"], "reject")
    workflow = desk.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    usage = desk.person.turn(desk.session, accepted["turn_id"])["usage"]
    calls = desk.team.planned, len(desk.team.asked), desk.team.merged
    assert (usage["calls"], calls) == (6, (1, 4, 1))
    assert usage["cost_usd"] == pytest.approx(workflow["cost"], abs=1e-5)
    [completed] = [
        event for event in desk.person.events_of(desk.session, accepted["turn_id"]) if event.type == "turn_completed"
    ]
    assert completed.data["usage"] == usage


def test_a_plan_that_nobody_wants_has_used_what_it_took_to_make_it(desk: Desk) -> None:
    desk.team.needs = {"a": "", "b": "", "c": ""}
    accepted = desk.ask()

    desk.decide(desk.until(accepted["workflow_id"], "awaiting_approval")["approval_id"], "reject")
    workflow = desk.ended(accepted["workflow_id"])

    usage = desk.person.turn(desk.session, accepted["turn_id"])["usage"]
    assert usage["calls"] == 1
    assert usage["cost_usd"] == pytest.approx(workflow["cost"], abs=1e-5)


@pytest.mark.parametrize("tasks", ["1", "a b c"])
def test_a_plan_that_is_asked_about_again_has_the_price_that_it_had(desk: Desk, tasks: str) -> None:
    project = f"/my/projects/{desk.project['id']}"
    settings = {"settings": {"approval_seconds": 1, "plans": {"approve_from_tasks": 1}}}
    assert desk.person.http.patch(project, json=settings).status_code == 200
    for said in ("Remember this: " + "word " * 1_000, "And this: " + "thing " * 1_000):
        desk.person.say(desk.session, said)
    desk.team.needs = dict.fromkeys(tasks.split(), "")
    workflow = desk.until(desk.ask("Do it all. " + "And well. " * 1_000)["workflow_id"], "timeout")
    [old] = desk.person.get("/my/approvals", status="expired")["items"]

    again = desk.person.http.post(f"/my/approvals/{old['id']}/ask-again")

    assert again.status_code == 201, again.text
    figures = ("estimated_cost_low", "estimated_cost", "estimated_cost_high", "estimated_duration")
    assert {name: again.json()["details"][name] for name in figures} == {name: old["details"][name] for name in figures}
    assert again.json()["arguments"]["tasks"] == old["arguments"]["tasks"]
    assert workflow["estimated_cost"] == desk.workflow(workflow["id"])["estimated_cost"]


def test_a_plan_that_is_asked_about_again_is_priced_with_the_agents_of_now(desk: Desk) -> None:
    project = f"/my/projects/{desk.project['id']}"
    settings = {"settings": {"approval_seconds": 1, "plans": {"approve_from_tasks": 1}}}
    assert desk.person.http.patch(project, json=settings).status_code == 200
    workflow = desk.until(desk.ask()["workflow_id"], "timeout")
    [old] = desk.person.get("/my/approvals", status="expired")["items"]
    [agent] = [one for one in desk.person.get(project)["agents"] if one["name"] == "agent_plain"]
    cheaper = desk.person.http.patch(f"{project}/agents/{agent['id']}", json={"model": "gpt-4o"})
    assert cheaper.status_code == 200, cheaper.text

    again = desk.person.http.post(f"/my/approvals/{old['id']}/ask-again").json()

    [task] = desk.workflow(workflow["id"])["tasks"]
    [shown] = again["arguments"]["tasks"]
    assert task["estimated_cost"] == shown["estimated_cost"] < old["arguments"]["tasks"][0]["estimated_cost"]
    assert shown["estimated_cost"] <= again["details"]["estimated_cost"] < old["details"]["estimated_cost"]
