"""Revised plans: a new approval lists the changes and the reason."""

from typing import Any

import pytest

from tests.actors.plan_user import PlanUser
from tests.actors.team import DIAMOND, Team
from tests.deadlines import eventually
from tests.model_server import ByMark
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def user(person: Person, script: ByMark, mark: str) -> PlanUser:
    script[mark] = team = Team(mark)
    project = person.project()
    return PlanUser(person, project, person.session(project["id"]), team)


def _asked_again(user: PlanUser, workflow_id: str, approval_id: str) -> dict[str, Any]:
    """Return the approval that follows this one."""

    def look() -> dict[str, Any]:
        now = user.workflow(workflow_id)["approval_id"]
        return user.person.get(f"/my/approvals/{now}") if now not in (None, approval_id) else {}

    return eventually(look, 30)


def test_changes_that_raise_the_price_ask_for_approval_again_with_the_reason(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    user.person.agent(user.project["id"], name="agent_dear", model="o1-pro")
    user.person.agent(user.project["id"], name="agent_new", model="nobody-knows-it")
    accepted = user.ask()
    first = user.until(accepted["workflow_id"], "awaiting_approval")
    everything = [{"id": task, "agent": "agent_dear"} for task in "abc"]

    user.decide(first["approval_id"], changes={"tasks": [*everything, {"id": "d", "agent": "agent_new"}]})
    second = _asked_again(user, accepted["workflow_id"], first["approval_id"])

    unknown, more_expensive = second["details"]["changed"]
    assert unknown == "with your changes: the price of nobody-knows-it is not known"
    agreed, wanted = first["estimated_cost_high"], second["details"]["estimated_cost_high"]
    assert more_expensive == f"with your changes: up to ${wanted:.4f} instead of ${agreed:.4f}"
    assert user.team.called == []
    user.decide(second["id"], "reject")
    assert user.ended(accepted["workflow_id"])["status"] == "rejected"


def test_changes_ask_nothing_again_below_a_cent_or_the_limit_that_was_agreed_to(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    user.person.agent(user.project["id"], name="agent_dear", model="o1-pro")
    first = user.until(user.ask()["workflow_id"], "awaiting_approval")
    changed = {"id": "b", "description": f"{user.team.mark} do b. Quickly."}
    user.decide(first["approval_id"], changes={"tasks": [changed]})
    assert user.ended(first["id"])["status"] == "completed"

    second = user.until(user.ask()["workflow_id"], "awaiting_approval")
    changes = {"tasks": [{"id": "a", "agent": "agent_dear"}]}
    price = user.person.http.post(f"/my/approvals/{second['approval_id']}/price", json={"changes": changes}).json()
    assert price["estimated_cost_high"] > second["estimated_cost_high"] + 0.01
    user.decide(second["approval_id"], changes={**changes, "limit_usd": price["estimated_cost_high"] + 0.01})
    ended = user.ended(second["id"])
    assert ended["status"] == "completed"
    assert ended["agreed_cost"] == price["estimated_cost_high"]


def test_plan_rejected_too_often_ends_with_advice(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    approval_id = user.until(accepted["workflow_id"], "awaiting_approval")["approval_id"]
    for _ in range(10):
        user.decide(approval_id, "reject", feedback="Otherwise.")
        approval_id = _asked_again(user, accepted["workflow_id"], approval_id)["id"]

    user.decide(approval_id, "reject", feedback="Otherwise.")
    workflow = user.ended(accepted["workflow_id"])

    assert (workflow["status"], user.team.planned) == ("rejected", 11)
    assert (
        workflow["error"] == "Planned 11 times, and nothing was done. Send a message that says what you want instead."
    )


@pytest.mark.parametrize(
    "decision",
    [
        {"decision": "reject", "changes": {"tasks": [{"id": "a", "drop": True}]}},
        {"decision": "reject", "instruction": "Write in French."},
    ],
)
def test_decision_with_contradicting_fields_is_refused(user: PlanUser, decision: dict[str, Any]) -> None:
    user.team.needs = DIAMOND
    waits = user.until(user.ask()["workflow_id"], "awaiting_approval")

    refused = user.person.http.post(f"/my/approvals/{waits['approval_id']}/confirm", json=decision)

    assert "feedback" in assert_problem(refused, 422, "plan_not_possible")["detail"]
    assert user.workflow(waits["id"])["status"] == "awaiting_approval"


def test_task_cannot_be_removed_and_changed_at_once(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    waits = user.until(user.ask()["workflow_id"], "awaiting_approval")
    both = [{"id": "a", "description": "Shortly."}, {"id": "a", "drop": True}]

    refused = user.person.http.post(
        f"/my/approvals/{waits['approval_id']}/confirm", json={"decision": "approve", "changes": {"tasks": both}}
    )

    assert "Task a" in assert_problem(refused, 422, "plan_not_possible")["detail"]


def test_same_request_with_other_history_is_planned_again(user: PlanUser) -> None:
    user.team.needs = {"1": ""}
    words = "Please translate all of it into French."
    assert user.ended(user.ask(words)["workflow_id"])["planned_by"] == "model"
    user.session = user.person.session(user.project["id"])
    user.person.say(user.session, "Here is a contract.")

    assert user.ended(user.ask(words)["workflow_id"])["planned_by"] == "model"
    assert user.ended(user.ask(words)["workflow_id"])["planned_by"] == "cache"


def test_estimate_counts_only_history_that_agents_get(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    priced = []
    sessions = [user.session, user.person.session(user.project["id"])]
    for session, messages in zip(sessions, (2, 5), strict=True):
        for number in range(messages):
            user.person.say(session, f"{number} " + "word " * 2_000)
    for user.session in sessions:
        workflow = user.until(user.ask()["workflow_id"], "awaiting_approval")
        priced.append([task["estimated_cost"] for task in workflow["tasks"]])

    assert priced[0] == priced[1]
