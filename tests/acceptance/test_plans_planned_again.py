"""Plans that take the place of others, or of what was known before: asked about with what is different, and why."""

from typing import Any

import pytest

from tests.acceptance.test_plans import DIAMOND, Desk
from tests.acceptance.test_plans import desk as desk  # noqa: PLC0414 - pytest looks for it here
from tests.deadlines import eventually
from tests.people import assert_problem
from tests.running import Server


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def _asked_again(desk: Desk, workflow_id: str, approval_id: str) -> dict[str, Any]:
    """Return what is asked after something else was."""

    def look() -> dict[str, Any]:
        now = desk.workflow(workflow_id)["approval_id"]
        return desk.person.get(f"/my/approvals/{now}") if now not in (None, approval_id) else {}

    return eventually(look, 30)


def test_changes_that_raise_the_price_ask_for_approval_again_with_the_reason(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    desk.person.agent(desk.project["id"], name="agent_dear", model="o1-pro")
    desk.person.agent(desk.project["id"], name="agent_new", model="nobody-knows-it")
    accepted = desk.ask()
    first = desk.until(accepted["workflow_id"], "awaiting_approval")
    everything = [{"id": task, "agent": "agent_dear"} for task in "abc"]

    desk.decide(first["approval_id"], changes={"tasks": [*everything, {"id": "d", "agent": "agent_new"}]})
    second = _asked_again(desk, accepted["workflow_id"], first["approval_id"])

    unknown, more_expensive = second["details"]["changed"]
    assert unknown == "with your changes: the price of nobody-knows-it is not known"
    agreed, wanted = first["estimated_cost_high"], second["details"]["estimated_cost_high"]
    assert more_expensive == f"with your changes: up to ${wanted:.4f} instead of ${agreed:.4f}"
    assert desk.team.asked == []
    desk.decide(second["id"], "reject")
    assert desk.ended(accepted["workflow_id"])["status"] == "rejected"


def test_a_plan_that_is_never_right_ends_with_advice(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    approval_id = desk.until(accepted["workflow_id"], "awaiting_approval")["approval_id"]
    for _ in range(10):
        desk.decide(approval_id, "reject", feedback="Otherwise.")
        approval_id = _asked_again(desk, accepted["workflow_id"], approval_id)["id"]

    desk.decide(approval_id, "reject", feedback="Otherwise.")
    workflow = desk.ended(accepted["workflow_id"])

    assert (workflow["status"], desk.team.planned) == ("rejected", 11)
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
def test_a_decision_whose_parts_would_be_lost_is_refused(desk: Desk, decision: dict[str, Any]) -> None:
    desk.team.needs = DIAMOND
    waits = desk.until(desk.ask()["workflow_id"], "awaiting_approval")

    refused = desk.person.http.post(f"/my/approvals/{waits['approval_id']}/confirm", json=decision)

    assert "feedback" in assert_problem(refused, 422, "plan_not_possible")["detail"]
    assert desk.workflow(waits["id"])["status"] == "awaiting_approval"


def test_a_task_is_left_out_or_changed_not_both(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    waits = desk.until(desk.ask()["workflow_id"], "awaiting_approval")
    both = [{"id": "a", "description": "Shortly."}, {"id": "a", "drop": True}]

    refused = desk.person.http.post(
        f"/my/approvals/{waits['approval_id']}/confirm", json={"decision": "approve", "changes": {"tasks": both}}
    )

    assert "Task a" in assert_problem(refused, 422, "plan_not_possible")["detail"]


def test_the_same_words_after_another_conversation_are_planned_anew(desk: Desk) -> None:
    desk.team.needs = {"1": ""}
    words = "Please translate all of it into French."
    assert desk.ended(desk.ask(words)["workflow_id"])["planned_by"] == "model"
    desk.session = desk.person.session(desk.project["id"])
    desk.person.say(desk.session, "Here is a contract.")

    assert desk.ended(desk.ask(words)["workflow_id"])["planned_by"] == "model"
    assert desk.ended(desk.ask(words)["workflow_id"])["planned_by"] == "cache"


def test_no_more_of_the_conversation_is_priced_than_agents_are_told(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    priced = []
    sessions = [desk.session, desk.person.session(desk.project["id"])]
    for session, messages in zip(sessions, (2, 5), strict=True):
        for number in range(messages):
            desk.person.say(session, f"{number} " + "word " * 2_000)
    for desk.session in sessions:
        workflow = desk.until(desk.ask()["workflow_id"], "awaiting_approval")
        priced.append([task["estimated_cost"] for task in workflow["tasks"]])

    assert priced[0] == priced[1]
