"""Plans of a project with a monthly budget: approvals, refusals and budget committed to running plans."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.actors.plan_user import PlanUser
from tests.actors.team import Team
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold, Say
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def user(person: Person, script: ByMark, mark: str) -> PlanUser:
    script[mark] = team = Team(mark, {"1": ""})
    project = person.project()
    return PlanUser(person, project, person.session(project["id"]), team)


@pytest.fixture
def upper_end(user: PlanUser) -> float:
    """The highest estimate of the plan, measured before the project has a monthly budget."""
    workflow = user.ended(user.ask("Try it.")["workflow_id"])
    assert workflow["status"] == "completed"
    user.team.called.clear()
    most: float = workflow["estimated_cost_high"]
    assert most > 0.1  # so that planning, which may cost half of that, can always be paid for
    return most


Settings = Callable[..., None]


@pytest.fixture
def settings(user: PlanUser) -> Settings:
    def change(**settings: Any) -> None:
        changed = user.person.http.patch(f"/my/projects/{user.project['id']}", json={"settings": settings})
        assert changed.status_code == 200, changed.text

    return change


def _another_session(user: PlanUser) -> PlanUser:
    return replace(user, session=user.person.session(user.project["id"]))


def _asked(user: PlanUser, workflow: dict[str, Any]) -> dict[str, Any]:
    return user.person.get(f"/my/approvals/{workflow['approval_id']}")


def test_plan_over_monthly_budget_needs_approval_however_small(
    user: PlanUser, upper_end: float, settings: Settings
) -> None:
    settings(monthly_budget_usd=upper_end * 0.9)

    accepted = user.ask()
    workflow = user.until(accepted["workflow_id"], "awaiting_approval")

    details = _asked(user, workflow)["details"]
    assert details["month_left"] == pytest.approx(upper_end * 0.9 - workflow["cost"], abs=0.0001)
    assert "may end partly done" in details["reason"]
    assert user.team.called == []
    user.decide(workflow["approval_id"])
    assert user.ended(workflow["id"])["status"] == "completed"
    events = user.person.events_of(user.session, accepted["turn_id"])
    [told] = [event.data["details"] for event in events if event.type == "plan_request"]
    assert told["month_left"] == details["month_left"]


def test_budget_of_running_plans_is_not_available_to_other_plans(
    user: PlanUser, upper_end: float, settings: Settings
) -> None:
    settings(monthly_budget_usd=upper_end * 1.5)
    hold = Hold("Result of 1.")
    user.team.does = {"1": hold}
    first = user.ask("The first.")
    eventually(lambda: hold.arrived)

    other = _another_session(user)
    second = other.until(other.ask("The second.")["workflow_id"], "awaiting_approval")

    assert 0 < _asked(user, second)["details"]["month_left"] < upper_end * 0.6
    user.decide(second["approval_id"], "reject")
    hold.release()
    assert user.ended(first["workflow_id"])["status"] == "completed"
    third = other.ended(other.ask("The third.")["workflow_id"])
    assert third["status"] == "completed"  # nobody was asked: what the first one did not spend is left again


def test_budget_of_running_plan_is_not_available_to_direct_messages(
    user: PlanUser, upper_end: float, settings: Settings
) -> None:
    settings(monthly_budget_usd=upper_end * 1.01)
    hold = Hold("Result of 1.")
    user.team.does = {"1": hold}
    first = user.ask("The first.")
    eventually(lambda: hold.arrived)
    other = user.person.session(user.project["id"])

    refused = user.person.post(other, "Hello")

    assert "committed to running plans" in assert_problem(refused, 409, "budget_exceeded")["detail"]
    hold.release()
    assert user.ended(first["workflow_id"])["status"] == "completed"
    assert user.person.say(other, "Hello")["content"] == "You said: Hello"  # what it did not spend is left again


def test_plan_needs_approval_again_if_others_used_monthly_budget(
    user: PlanUser, upper_end: float, settings: Settings
) -> None:
    settings(monthly_budget_usd=upper_end * 1.5, plans={"approve_from_tasks": 1})
    other = _another_session(user)
    first = user.until(user.ask("The first.")["workflow_id"], "awaiting_approval")
    second = other.until(other.ask("The second.")["workflow_id"], "awaiting_approval")
    assert all("month_left" not in _asked(user, one)["details"] for one in (first, second))
    hold = Hold("Result of 1.")
    user.team.does = {"1": hold}
    user.decide(first["approval_id"])
    eventually(lambda: hold.arrived)

    other.decide(second["approval_id"], instruction="Be brief.")

    def asked_again() -> dict[str, Any]:
        now = other.workflow(second["id"])
        return now if now["approval_id"] not in (None, second["approval_id"]) else {}

    again = eventually(asked_again, 30)
    assert _asked(user, again)["details"]["month_left"] < upper_end
    assert len(hold.arrived) == 1
    other.decide(again["approval_id"])
    hold.release()
    assert user.ended(first["id"])["status"] == other.ended(second["id"])["status"] == "completed"
    assert "Be brief." in user.team.requests["1"].text


def test_exhausted_monthly_budget_refuses_plan_made_before(
    user: PlanUser, upper_end: float, settings: Settings
) -> None:
    settings(monthly_budget_usd=upper_end * 2)
    spent = user.ended(_another_session(user).ask("Please do the same once more.")["workflow_id"])["cost"]
    settings(monthly_budget_usd=spent)
    user.team.called.clear()

    workflow = user.ended(_another_session(user).ask("Please do the same once more.")["workflow_id"])

    assert (workflow["status"], workflow["error_code"]) == ("failed", "budget_exceeded")
    assert "nothing is left" in workflow["error"]
    assert (user.team.planned, user.team.called) == (2, [])


def test_plan_whose_planning_uses_up_monthly_budget_is_refused_with_its_cost(
    user: PlanUser, settings: Settings
) -> None:
    settings(monthly_budget_usd=0.06)
    user.team.plans = [Say(json.dumps({"tasks": user.team.tasks()}), tokens=(100_000, 10))]

    workflow = user.ended(user.ask()["workflow_id"])

    assert (workflow["status"], workflow["error_code"], workflow["tasks"]) == ("failed", "budget_exceeded", [])
    assert "nothing is left" in workflow["error"]
    assert workflow["cost"] > 0.06
    assert user.team.called == []


def test_renewed_approval_shows_remaining_monthly_budget(user: PlanUser, upper_end: float, settings: Settings) -> None:
    settings(approval_seconds=1, plans={"approve_from_tasks": 1})
    expired = user.until(user.ask()["workflow_id"], "timeout")
    [old] = user.person.get("/my/approvals", status="expired")["items"]
    settings(monthly_budget_usd=0)
    refused = user.person.http.post(f"/my/approvals/{old['id']}/ask-again")
    assert "nothing is left" in assert_problem(refused, 409, "budget_exceeded")["detail"]

    settings(monthly_budget_usd=upper_end / 2)
    again = user.person.http.post(f"/my/approvals/{old['id']}/ask-again")

    assert again.status_code == 201, again.text
    assert "month_left" not in old["details"]
    assert again.json()["details"]["month_left"] == pytest.approx(upper_end / 2)
    assert again.json()["details"]["graph"] == old["details"]["graph"]
    user.decide(again.json()["id"])
    assert user.ended(expired["id"])["status"] == "completed"


def test_budget_approval_shows_remaining_monthly_budget(user: PlanUser, settings: Settings) -> None:
    settings(monthly_budget_usd=3.05, plans={"approve_from_tasks": 1})
    user.team.needs = {"a": "", "b": "a"}
    user.team.does = {"a": Say("Dear.", tokens=(100_000, 10))}
    first = user.until(user.ask()["workflow_id"], "awaiting_approval")
    assert "month_left" not in _asked(user, first)["details"]
    user.decide(first["approval_id"])

    def asked_for_more() -> dict[str, Any]:
        now = user.workflow(first["id"])
        return now if now["approval_id"] not in (None, first["approval_id"]) else {}

    approval = _asked(user, eventually(asked_for_more, 30))
    assert approval["kind"] == "budget"
    assert 0 < approval["details"]["month_left"] < 0.05
    assert approval["details"]["reason"] == "The plan is about to cost more than was agreed."
    user.decide(approval["id"], "reject")
    assert user.ended(first["id"])["status"] == "partial"
