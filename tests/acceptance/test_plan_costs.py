"""The cost of a workflow equals what its budgets count, including lost calls."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.actors.plan_user import PlanUser
from tests.actors.team import FirstThen, Team
from tests.conftest import Rows
from tests.deadlines import eventually
from tests.model_server import ByMark, Cut, Say, Tool
from tests.people import Person
from tests.running import Server

pytestmark = pytest.mark.any_database

Spent = Callable[[str], float]


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def user(person: Person, script: ByMark, mark: str) -> PlanUser:
    """A user with a plan of one task for an agent without tools, which may call its model once."""
    script[mark] = team = Team(mark, {"1": ""}, agent=lambda _: "agent_plain")
    project = person.project()
    person.agent(project["id"], name="agent_plain", tools=[], memory=False)
    return PlanUser(person, project, person.session(project["id"]), team)


@pytest.fixture
def counted(user: PlanUser, rows: Rows) -> Spent:
    """Return the spending that a budget of the project counts."""

    def read(kind: str) -> float:
        query = "SELECT spent_micros FROM budgets WHERE project_id = :project AND kind = :kind"
        [budget] = rows(query, project=user.project["id"], kind=kind)
        return float(budget.spent_micros) / 1e6

    return read


def _asked_for_money(user: PlanUser, workflow_id: str) -> dict[str, Any]:
    workflow = user.until(workflow_id, "awaiting_approval")
    return user.person.get(f"/my/approvals/{workflow['approval_id']}")


def test_agent_without_tools_can_make_its_estimated_call(user: PlanUser) -> None:
    for said in ("Hello", "Hello again", "And again"):
        user.person.say(user.session, said)

    accepted = user.ask()
    workflow = user.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert user.person.get("/my/approvals")["items"] == []
    assert user.person.turn(user.session, accepted["turn_id"])["usage"]["calls"] == 2  # with planning


def test_lost_call_counts_in_budget_approval_and_final_cost(user: PlanUser, counted: Spent) -> None:
    user.team.does = {"1": FirstThen(Cut(), 1, Say("At last."))}
    accepted = user.ask()

    approval = _asked_for_money(user, accepted["workflow_id"])

    assert (approval["kind"], user.team.called) == ("budget", ["1"])
    assert approval["details"]["spent"] == counted("plan")
    assert approval["details"]["spent"] > approval["details"]["agreed_cost"] / 2
    assert user.workflow(accepted["workflow_id"])["cost"] == counted("plan")
    user.decide(approval["id"])
    workflow = user.ended(accepted["workflow_id"])
    assert (workflow["status"], workflow["answer"]) == ("completed", "At last.")
    assert workflow["cost"] == counted("plan") > approval["details"]["spent"]


def test_failed_planning_has_a_cost(user: PlanUser, counted: Spent) -> None:
    settings = {"settings": {"monthly_budget_usd": 0.06}}
    assert user.person.http.patch(f"/my/projects/{user.project['id']}", json=settings).status_code == 200
    user.team.plans = [Cut(), Cut()]

    workflow = user.ended(user.ask()["workflow_id"])

    assert (workflow["status"], workflow["error_code"]) == ("failed", "budget_exceeded")
    assert user.team.planned == 1
    assert workflow["cost"] == counted("month") > 0


def test_turn_usage_includes_planning_tasks_and_merge(user: PlanUser) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    user.team.needs, user.team.agent = {"a": "", "b": "a", "c": ""}, lambda _: "agent_coder"
    user.team.does = {"b": FirstThen(delete, 1, Say("Done without."))}
    accepted = user.ask()
    user.decide(user.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    [approval] = eventually(lambda: user.person.get("/my/approvals", status="pending")["items"], 30)
    eventually(lambda: user.person.turn(user.session, accepted["turn_id"])["status"] == "waiting", 30)

    user.decide(approval["id"], "reject")
    workflow = user.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    usage = user.person.turn(user.session, accepted["turn_id"])["usage"]
    calls = user.team.planned, len(user.team.called), user.team.merged
    assert (usage["calls"], calls) == (6, (1, 4, 1))
    assert usage["cost_usd"] == pytest.approx(workflow["cost"], abs=1e-5)
    [completed] = [
        event for event in user.person.events_of(user.session, accepted["turn_id"]) if event.type == "turn_completed"
    ]
    assert completed.data["usage"] == usage


def test_rejected_plan_costs_its_planning(user: PlanUser) -> None:
    user.team.needs = {"a": "", "b": "", "c": ""}
    accepted = user.ask()

    user.decide(user.until(accepted["workflow_id"], "awaiting_approval")["approval_id"], "reject")
    workflow = user.ended(accepted["workflow_id"])

    usage = user.person.turn(user.session, accepted["turn_id"])["usage"]
    assert usage["calls"] == 1
    assert usage["cost_usd"] == pytest.approx(workflow["cost"], abs=1e-5)


@pytest.mark.parametrize("tasks", ["1", "a b c"])
def test_renewed_approval_keeps_price(user: PlanUser, tasks: str) -> None:
    project = f"/my/projects/{user.project['id']}"
    settings = {"settings": {"approval_seconds": 1, "plans": {"approve_from_tasks": 1}}}
    assert user.person.http.patch(project, json=settings).status_code == 200
    for said in ("Remember this: " + "word " * 1_000, "And this: " + "thing " * 1_000):
        user.person.say(user.session, said)
    user.team.needs = dict.fromkeys(tasks.split(), "")
    workflow = user.until(user.ask("Do it all. " + "And well. " * 1_000)["workflow_id"], "timeout")
    [old] = user.person.get("/my/approvals", status="expired")["items"]

    again = user.person.http.post(f"/my/approvals/{old['id']}/ask-again")

    assert again.status_code == 201, again.text
    figures = ("estimated_cost_low", "estimated_cost", "estimated_cost_high", "estimated_duration")
    assert {name: again.json()["details"][name] for name in figures} == {name: old["details"][name] for name in figures}
    assert again.json()["arguments"]["tasks"] == old["arguments"]["tasks"]
    assert workflow["estimated_cost"] == user.workflow(workflow["id"])["estimated_cost"]


def test_renewed_approval_uses_current_agents(user: PlanUser) -> None:
    project = f"/my/projects/{user.project['id']}"
    settings = {"settings": {"approval_seconds": 1, "plans": {"approve_from_tasks": 1}}}
    assert user.person.http.patch(project, json=settings).status_code == 200
    workflow = user.until(user.ask()["workflow_id"], "timeout")
    [old] = user.person.get("/my/approvals", status="expired")["items"]
    [agent] = [one for one in user.person.get(project)["agents"] if one["name"] == "agent_plain"]
    cheaper = user.person.http.patch(f"{project}/agents/{agent['id']}", json={"model": "gpt-4o"})
    assert cheaper.status_code == 200, cheaper.text

    again = user.person.http.post(f"/my/approvals/{old['id']}/ask-again").json()

    [task] = user.workflow(workflow["id"])["tasks"]
    [shown] = again["arguments"]["tasks"]
    assert task["estimated_cost"] == shown["estimated_cost"] < old["arguments"]["tasks"][0]["estimated_cost"]
    assert shown["estimated_cost"] <= again["details"]["estimated_cost"] < old["details"]["estimated_cost"]
