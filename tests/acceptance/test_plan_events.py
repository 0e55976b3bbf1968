"""Events of plans that are revised, retried or resumed."""

import json
from typing import Any

import pytest

from tests.actors.plan_user import PlanUser
from tests.actors.team import DIAMOND, Team
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, Say, Tool
from tests.people import Person
from tests.running import Server
from tests.streams import Event

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def user(person: Person, script: ByMark, mark: str) -> PlanUser:
    script[mark] = team = Team(mark, DIAMOND)
    project = person.project()
    return PlanUser(person, project, person.session(project["id"]), team)


def _plan_event_types(events: list[Event], *types: str) -> list[str]:
    """Return the types of the events about the plan, in order."""
    return [
        f"{event.type} {event.data['phase']}" if event.type == "task_progress" else event.type
        for event in events
        if event.type in types or (event.type == "task_progress" and event.data["task_id"] == event.data["turn_id"])
    ]


def _progress(events: list[Event], phase: str) -> list[dict[str, Any]]:
    return [event.data for event in events if event.type == "task_progress" and event.data["phase"] == phase]


def test_workflow_status_is_planning_while_replanned(user: PlanUser) -> None:
    accepted = user.ask()
    first = user.until(accepted["workflow_id"], "awaiting_approval")
    hold = Hold(json.dumps({"tasks": user.team.tasks()[:1]}))
    user.team.plans = [hold]

    user.decide(first["approval_id"], "reject", feedback="Only the first, please")
    eventually(lambda: hold.arrived)
    between = user.workflow(accepted["workflow_id"])
    hold.release()

    assert (between["status"], between["approval_id"]) == ("planning", None)
    assert [task["id"] for task in between["tasks"]] == list(DIAMOND)  # what is being replaced can still be seen
    second = user.until(accepted["workflow_id"], "awaiting_approval")
    user.decide(second["approval_id"], "reject")
    assert user.ended(accepted["workflow_id"])["status"] == "rejected"
    events = user.person.events_of(user.session, accepted["turn_id"])
    made = ["task_progress planning", "task_plan_created", "plan_request", "approval_resolved"]
    assert _plan_event_types(events, "task_plan_created", "plan_request", "approval_resolved") == made * 2
    assert [told["workflow_id"] for told in _progress(events, "planning")] == [accepted["workflow_id"]] * 2


@pytest.mark.req("CHT-03.2")
def test_project_stream_names_the_approval_of_a_plan(user: PlanUser) -> None:
    accepted = user.ask()
    waiting = user.until(accepted["workflow_id"], "awaiting_approval")

    with user.person.follow_project(user.project["id"], 0) as following:
        required = following.until("approval_required")[-1].data

    assert (required["approval_id"], required["session_of_approval"]) == (waiting["approval_id"], user.session)
    assert required["tool"] == "plan"


def test_changes_that_raise_the_price_send_planning_and_approval_events(user: PlanUser) -> None:
    accepted = user.ask()
    first = user.until(accepted["workflow_id"], "awaiting_approval")
    longer = {"id": "a", "description": f"{user.team.mark} do a. " + "Look at everything twice. " * 100}

    user.decide(first["approval_id"], changes={"tasks": [longer]})

    def asked_again() -> dict[str, Any]:
        now = user.workflow(accepted["workflow_id"])
        return now if now["approval_id"] not in (None, first["approval_id"]) else {}

    second = eventually(asked_again, 30)
    assert second["estimated_cost_high"] > first["estimated_cost_high"]
    user.decide(second["approval_id"], "reject")
    assert user.ended(accepted["workflow_id"])["status"] == "rejected"
    events = user.person.events_of(user.session, accepted["turn_id"])
    assert _plan_event_types(events, "plan_request") == ["task_progress planning", "plan_request"] * 2


def test_retry_turn_names_its_workflow(user: PlanUser) -> None:
    user.team.needs = {"a": "", "b": "a"}
    user.team.does = {"b": Fail(400)}
    workflow = user.approved()
    assert workflow["status"] == "partial"
    user.team.does = {}

    retried = user.person.http.post(f"/my/workflows/{workflow['id']}/retry").json()

    assert user.ended(workflow["id"])["status"] == "completed"
    [again] = _progress(user.person.events_of(user.session, retried["turn_id"]), "retry")
    assert (again["workflow_id"], again["state"]) == (workflow["id"], "queued")


def test_resumed_task_has_its_own_event(user: PlanUser) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    user.team.needs, user.team.does = {"a": "", "b": "a"}, {"a": delete}
    user.person.http.patch(f"/my/projects/{user.project['id']}", json={"settings": {"plans": {"approve_over_usd": 10}}})
    accepted = user.ask()
    [approval] = eventually(lambda: user.person.get("/my/approvals", status="pending")["items"], 30)
    user.team.does = {}

    user.decide(approval["id"], "reject", feedback="Keep it.")

    assert user.ended(accepted["workflow_id"])["status"] == "completed"
    events = user.person.events_of(user.session, accepted["turn_id"])
    [resumed] = _progress(events, "resumed")
    assert (resumed["task_id"], resumed["state"], resumed["workflow_id"]) == ("a", "running", accepted["workflow_id"])
    types_of_a = [event.type for event in events if event.data.get("task_id") == "a"]
    assert [kind for kind in types_of_a if kind in ("task_started", "tool_request", "task_completed")] == [
        "task_started",
        "tool_request",
        "task_completed",
    ]
    asked_at = types_of_a.index("tool_request")
    assert "task_progress" in types_of_a[asked_at : types_of_a.index("task_completed")]
