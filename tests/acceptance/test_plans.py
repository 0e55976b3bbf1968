"""Requests to the orchestrator: planning, estimate, approval, parallel tasks, merged answer."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
import sqlalchemy
from aiohttp import web

from artel.brain import prices
from artel.db import tables
from tests.actors.plan_user import PlanUser
from tests.actors.team import DIAMOND, FirstThen, Team, Together
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, ModelRequest, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server
from tests.streams import Event, Stream

pytestmark = pytest.mark.any_database

AGENTS = {
    "coder": "agent_coder",
    "writer": "agent_writer",
    "analyzer": "agent_analyzer",
    "researcher": "agent_researcher",
}


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def user(person: Person, script: ByMark, mark: str) -> PlanUser:
    script[mark] = team = Team(mark)
    project = person.project()
    return PlanUser(person, project, person.session(project["id"]), team)


@pytest.mark.req("UWS-07.2", "UWS-23.1", "UWS-24.2", "CHT-03.1")
def test_request_for_one_agent_runs_without_approval_and_merge(user: PlanUser) -> None:
    user.team.needs = {"1": ""}

    accepted = user.ask()
    workflow = user.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert workflow["answer"] == "Result of 1."
    assert (user.team.planned, user.team.called, user.team.merged) == (1, ["1"], 0)
    [task] = workflow["tasks"]
    assert (task["agent"], task["status"], task["result"]) == ("agent_coder", "completed", "Result of 1.")
    assert [(m["role"], m["content"]) for m in user.person.history(user.session)][1] == ("assistant", "Result of 1.")


@pytest.mark.req("UWS-23.2", "UWS-23.3", "CHT-03.2", "CHT-03.3", "CHT-03.4", "UWS-24.2")
def test_plan_is_shown_approved_executed_and_answered(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    assert (accepted["mode"], "workflow_id" in accepted) == ("orchestrated", True)
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    assert user.statuses(waits) == dict.fromkeys("abcd", "pending")
    assert user.team.called == []
    assert 0 < waits["estimated_cost_low"] <= waits["estimated_cost"] <= waits["estimated_cost_high"]

    user.decide(waits["approval_id"])
    workflow = user.ended(accepted["workflow_id"])

    assert (workflow["status"], workflow["answer"]) == ("completed", "All of it, in one.")
    assert user.team.called[0] == "a"
    assert user.team.called[-1] == "d"
    assert sorted(user.team.called) == ["a", "b", "c", "d"]
    assert "Result of b." in user.team.requests["d"].text
    assert "Result of c." in user.team.requests["d"].text
    assert "Result of a." not in user.team.requests["d"].text
    assert 0 < workflow["cost"] <= workflow["agreed_cost"]
    types = [event.type for event in user.person.events_of(user.session, accepted["turn_id"])]
    assert types[0] == "message_created"
    assert types[-1] == "turn_completed"
    ordered = ["task_plan_created", "plan_request", "approval_resolved", "task_started", "task_completed"]
    assert [types.index(name) for name in ordered] == sorted(types.index(name) for name in ordered)
    assert types.count("task_started") == types.count("task_completed") == 4
    assert "task_progress" in types


@pytest.mark.req("UWS-23.2")
def test_independent_tasks_run_at_the_same_time(user: PlanUser) -> None:
    together = Together(3)
    user.team.needs, user.team.does = {"a": "", "b": "", "c": ""}, dict.fromkeys("abc", together)

    workflow = user.approved()

    assert (workflow["status"], together.most) == ("completed", 3)


@pytest.mark.req("UWS-23.2", "UWS-24.2")
def test_the_answer_is_merged_from_every_result(user: PlanUser) -> None:
    user.team.needs = {"a": "", "b": "", "c": "a"}
    agents = {"a": "agent_writer", "b": "agent_analyzer", "c": "agent_coder"}
    user.team.agent = agents.__getitem__
    user.team.does = {name: Say(f"Found out by {name}: {name * 7}.") for name in "abc"}

    workflow = user.approved()

    assert workflow["answer"] == "All of it, in one."
    [request] = user.team.merges
    results = [json.loads(line) for line in request.body["messages"][0]["content"].splitlines() if line.startswith("{")]
    assert [(result["agent"], result["result"]) for result in results] == [
        (agents[name], f"Found out by {name}: {name * 7}.") for name in "abc"
    ]
    assert request.text.endswith("Please do it all.")


@pytest.mark.req("UWS-13.4")
def test_task_of_agent_at_capacity_goes_to_free_agent_of_same_role(user: PlanUser, script: ByMark) -> None:
    pid = user.project["id"]
    busy, free = (user.person.agent(pid, name=name, role="tester", concurrency_limit=1) for name in ("first", "second"))
    script[f"busy{user.team.mark}"] = hold = Hold()
    asking: list[ModelRequest] = []

    async def plan(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        asking.append(request)
        return await Say(json.dumps({"tasks": user.team.tasks()}))(request, http)

    user.team.needs, user.team.agent, user.team.plans = {"1": ""}, lambda _: busy["name"], [plan, plan, plan]
    other = user.person.session(pid)
    user.person.submit(other, f"busy{user.team.mark}", busy["id"])
    eventually(lambda: hold.arrived)
    try:
        workflow = user.ended(user.ask("Test it.")["workflow_id"])
        assert [task["agent"] for task in workflow["tasks"]] == [free["name"]]
        assert workflow["status"] == "completed"
        told = asking[0].body["messages"][0]["content"]
        assert f'"name": "{busy["name"]}"' in told
        assert '"status": "at_capacity"' in told
        named = user.ask(f"Let {busy['name']} test it.")["workflow_id"]
        assert [task["agent"] for task in user.until(named, "running")["tasks"]] == [busy["name"]]
    finally:
        hold.release()
    assert user.ended(named)["status"] == "completed"


def test_every_task_prompt_contains_the_request_even_a_long_one(user: PlanUser) -> None:
    dear = {"plans": {"approve_over_usd": 10}}
    user.person.http.patch(f"/my/projects/{user.project['id']}", json={"settings": dear})
    user.team.needs = {"1": ""}
    long = "Summarise this: " + "long words " * 800 + "the very end."

    workflow = user.ended(user.ask(long)["workflow_id"])

    assert workflow["status"] == "completed"
    assert user.team.requests["1"].text.endswith("the very end.")
    user.team.needs = {"a": "", "b": ""}
    user.ended(user.ask(f"Again. {long}")["workflow_id"])
    for task in "ab":
        assert "Again. Summarise this" in user.team.requests[task].text
        assert "the very end." in user.team.requests[task].text
        assert len(user.team.requests[task].text) < 6_000


def test_results_with_many_tokens_are_shortened_for_the_next_task(
    user: PlanUser,
) -> None:
    letters = [chr(0x4E00 + number * 5) for number in range(3_900)]
    user.team.needs = {"a": "", "b": "", "c": "", "d": "a b c"}
    user.team.does = {task: Say(f"Begin {task}. {''.join(letters)} End {task}.") for task in "abc"}

    workflow = user.approved()

    assert user.statuses(workflow) == dict.fromkeys("abcd", "completed")
    for task in "abc":
        assert f"Begin {task}." in user.team.requests["d"].text
        assert f"End {task}." in user.team.requests["d"].text
    assert "characters were left out here" in user.team.requests["d"].text


def test_tool_events_of_a_task_come_between_its_start_and_its_end(user: PlanUser) -> None:
    user.team.needs = {"a": "", "b": "", "c": ""}
    tool = Say(tools=[Tool("memory_read", json.dumps({"query": "anything"}))])
    user.team.does = {task: FirstThen(tool, 1, Say("Done.")) for task in "abc"}

    workflow = user.approved()

    assert workflow["status"] == "completed"
    events = user.person.events_of(user.session, workflow["turn_id"])
    for task in "abc":
        types = [event.type for event in events if event.data.get("task_id") == task]
        assert types[0] == "task_started"
        assert types[-1] == "task_completed"
        assert types.index("tool_called") < types.index("tool_result")
    assert events[-1].type == "turn_completed"


SHAPES = {
    "three": {"a": "", "b": "", "c": ""},
    "chain": {"a": "", "b": "a", "c": "b"},
    "diamond": DIAMOND,
    "wide": {str(number): "" for number in range(20)},
    "deep": {str(number): str(number - 1) if number else "" for number in range(8)},
}


def _needs(needs: Mapping[str, str], task: str) -> set[str]:
    direct = set(needs[task].split())
    return direct.union(*(_needs(needs, one) for one in direct))


@pytest.mark.req("CHT-08.2")
@pytest.mark.parametrize(
    ("shape", "bad"),
    [
        *((shape, bad) for shape in ("three", "chain", "diamond", "deep") for bad in SHAPES[shape]),
        *(("wide", bad) for bad in ("0", "10", "19")),  # none of its twenty differs from another
    ],
)
def test_failed_task_aborts_its_dependents_and_retry_runs_only_those(user: PlanUser, shape: str, bad: str) -> None:
    user.team.needs = needs = SHAPES[shape]
    user.team.does = {bad: Fail(400)}

    workflow = user.approved()

    undone = {one for one in needs if bad in _needs(needs, one)}
    done = set(needs) - undone - {bad}
    expected = dict.fromkeys(done, "completed") | dict.fromkeys(undone, "aborted") | {bad: "failed"}
    assert user.statuses(workflow) == expected
    assert workflow["status"] == ("partial" if done else "failed")
    if done:
        assert "Not done:" in workflow["answer"]
        assert f"do {bad}." in workflow["answer"]
    before = list(user.team.called)
    user.team.does = {}

    again = user.person.http.post(f"/my/workflows/{workflow['id']}/retry")
    assert again.status_code == 202, again.text
    workflow = user.ended(workflow["id"])

    assert (workflow["status"], set(user.statuses(workflow).values())) == ("completed", {"completed"})
    assert sorted(user.team.called[len(before) :]) == sorted({bad} | undone)
    assert user.team.planned == 1
    assert workflow["cost"] <= workflow["agreed_cost"]


@pytest.mark.req("CHT-08.2")
def test_retry_skips_a_failed_task_and_gives_another_to_an_other_agent(user: PlanUser, other: Person) -> None:
    user.team.needs = {"a": "", "b": "a", "c": "", "d": "b c"}
    user.team.does = {"b": Fail(400), "c": Fail(400)}
    workflow = user.approved()
    assert user.statuses(workflow) == {"a": "completed", "b": "failed", "c": "failed", "d": "aborted"}
    url, before = f"/my/workflows/{workflow['id']}/retry", len(user.team.called)

    done = user.person.http.post(url, json={"tasks": [{"id": "a", "drop": True}]})
    assert "These tasks are done" in assert_problem(done, 422, "plan_not_possible")["detail"]
    stranger = user.person.http.post(url, json={"tasks": [{"id": "c", "agent": "agent_nobody"}]})
    assert_problem(stranger, 422, "plan_not_possible")
    assert_problem(other.http.post(url, json={"tasks": [{"id": "b", "drop": True}]}), 404, "workflow_not_found")
    assert user.person.get(f"/my/workflows/{workflow['id']}")["status"] == "partial"

    user.team.does = {}
    changes = [{"id": "b", "drop": True}, {"id": "c", "agent": "agent_writer"}]
    again = user.person.http.post(url, json={"tasks": changes})
    assert again.status_code == 202, again.text
    ended = user.ended(workflow["id"])

    assert user.statuses(ended) == {"a": "completed", "c": "completed", "d": "completed"}
    assert sorted(user.team.called[before:]) == ["c", "d"]
    tasks = {task["id"]: task for task in ended["tasks"]}
    assert (tasks["c"]["agent"], tasks["d"]["depends_on"]) == ("agent_writer", ["c", "a"])
    assert (ended["status"], ended["agreed_cost"]) == ("completed", workflow["agreed_cost"])
    assert "Not done" not in ended["answer"]
    over = user.person.http.post(url, json={"tasks": [{"id": "d", "drop": True}]})
    assert_problem(over, 409, "workflow_not_over")


@pytest.mark.parametrize("shape", ["wide", "deep"])
def test_plans_of_other_shapes_complete(user: PlanUser, shape: str) -> None:
    user.team.needs = SHAPES[shape]

    workflow = user.approved()

    assert workflow["status"] == "completed"
    assert sorted(user.team.called) == sorted(SHAPES[shape])
    for task, after in SHAPES[shape].items():
        for needed in after.split():
            assert f"Result of {needed}." in user.team.requests[task].text


@pytest.mark.req("CHT-03.3")
def test_rejected_plan_runs_no_task(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")

    user.decide(waits["approval_id"], "reject")
    workflow = user.ended(accepted["workflow_id"])

    assert workflow["status"] == "rejected"
    assert user.team.called == []
    assert user.person.turn(user.session, accepted["turn_id"])["status"] == "rejected"
    assert set(user.statuses(workflow).values()) == {"cancelled"}


def test_feedback_makes_new_plan_that_needs_its_own_approval(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    first = user.until(accepted["workflow_id"], "awaiting_approval")
    user.team.needs = {"a": "", "z": "a"}

    user.decide(first["approval_id"], "reject", feedback="Only two tasks, please")
    second = eventually(lambda: _another(user, accepted["workflow_id"], first["approval_id"]))

    assert [task["id"] for task in second["tasks"]] == ["a", "z"]
    assert second["plan_id"] != first["plan_id"]
    assert user.team.planned == 2
    asked = user.person.get(f"/my/approvals/{second['approval_id']}")
    assert "z: new, for agent_coder" in asked["details"]["changed"]
    assert "b: left out" in asked["details"]["changed"]
    again = user.person.http.post(f"/my/approvals/{first['approval_id']}/confirm", json={"decision": "approve"})
    assert_problem(again, 409, "approval_decided")
    assert user.team.called == []
    user.decide(second["approval_id"])
    assert user.ended(accepted["workflow_id"])["status"] == "completed"
    assert sorted(user.team.called) == ["a", "z"]


def _another(user: PlanUser, workflow_id: str, approval_id: str) -> dict[str, Any]:
    now = user.workflow(workflow_id)
    return now if now["approval_id"] not in (None, approval_id) else {}


def test_an_approval_can_change_the_plan_and_add_an_instruction(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    changes = {
        "tasks": [
            {"id": "a", "drop": True},
            {"id": "b", "agent": "agent_writer"},
            {"id": "c", "description": f"{user.team.mark} do c. Shortly."},
        ]
    }

    user.decide(waits["approval_id"], changes=changes, instruction="Write in French.")
    workflow = user.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert sorted(user.team.called) == ["b", "c", "d"]
    by_id = {task["id"]: task for task in workflow["tasks"]}
    assert (by_id["b"]["agent"], by_id["b"]["depends_on"]) == ("agent_writer", [])
    assert all("Write in French." in asked.text for asked in user.team.requests.values())
    assert "Shortly." in user.team.requests["c"].text
    assert workflow["instruction"] == "Write in French."
    assert workflow["agreed_cost"] == workflow["estimated_cost_high"] < waits["estimated_cost_high"]
    assert sum(task["estimated_cost"] for task in workflow["tasks"]) < workflow["estimated_cost"]


@pytest.mark.parametrize(
    "change",
    [
        {"id": "nobody", "drop": True},
        {"id": "a", "agent": "agent_nobody"},
        {"id": "a", "description": "   "},
    ],
)
def test_invalid_changes_are_refused_and_plan_can_still_be_approved(user: PlanUser, change: dict[str, Any]) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")

    refused = user.person.http.post(
        f"/my/approvals/{waits['approval_id']}/confirm", json={"decision": "approve", "changes": {"tasks": [change]}}
    )

    assert refused.status_code == 422, refused.text
    assert user.workflow(accepted["workflow_id"])["status"] == "awaiting_approval"
    user.decide(waits["approval_id"])
    assert user.ended(accepted["workflow_id"])["status"] == "completed"


def test_a_plan_is_decided_once_and_by_its_owner_only(user: PlanUser, other: Person) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    confirm = f"/my/approvals/{waits['approval_id']}/confirm"

    assert_problem(other.http.post(confirm, json={"decision": "approve"}), 404, "approval_not_found")
    assert_problem(other.http.get(f"/my/workflows/{waits['id']}"), 404, "workflow_not_found")
    user.decide(waits["approval_id"])
    assert_problem(user.person.http.post(confirm, json={"decision": "reject"}), 409, "approval_decided")

    assert user.ended(accepted["workflow_id"])["status"] == "completed"
    assert other.get("/my/workflows")["total"] == 0


def test_workflows_are_listed_by_session_and_project(user: PlanUser, other: Person) -> None:
    user.team.needs = {"1": ""}
    here = user.ask()["workflow_id"]
    elsewhere = replace(user, session=user.person.session(user.project["id"]))
    there = elsewhere.ask()["workflow_id"]

    def listed(**query: Any) -> list[str]:
        return [one["id"] for one in user.person.get("/my/workflows", **query)["items"]]

    assert listed(session_id=user.session) == [here]
    assert listed(session_id=elsewhere.session) == [there]
    assert listed(project_id=user.project["id"]) == [there, here]
    assert listed(project_id=user.person.project()["id"]) == []
    query = {"session_id": user.session}
    assert_problem(other.http.get("/my/workflows", params=query), 404, "session_not_found")


@pytest.mark.req("CHT-12.1", "UWS-25.2")
def test_undecided_plan_times_out_and_approval_can_be_renewed(user: PlanUser) -> None:
    settings = {"settings": {"approval_seconds": 1}}
    assert user.person.http.patch(f"/my/projects/{user.project['id']}", json=settings).status_code == 200
    user.team.needs = DIAMOND
    accepted = user.ask()
    workflow = user.ended(accepted["workflow_id"])
    assert workflow["status"] == "timeout"
    [expired] = user.person.get("/my/approvals", status="expired")["items"]
    late = user.person.http.post(f"/my/approvals/{expired['id']}/confirm", json={"decision": "approve"})
    assert_problem(late, 409, "approval_decided")
    assert user.person.get(f"/my/chat/sessions/{user.session}")["state"] == "idle"  # nothing has failed
    assert user.person.get("/my/failures")["items"] == []
    activity = user.person.get(f"/my/projects/{user.project['id']}/activity")
    assert (activity["totals"]["messages"], activity["totals"]["failed"]) == (1, 0)
    assert [(agent["messages"], agent["failed"]) for agent in activity["by_agent"] if not agent["agent"]] == [(1, 0)]
    timeline = user.person.get(f"/my/chat/{user.session}/timeline")["items"]
    [plan] = [item["plan"] for item in timeline if item["kind"] == "plan"]
    assert (plan["status"], plan["error_code"]) == ("timeout", "approval_timeout")
    user.person.http.patch(f"/my/projects/{user.project['id']}", json={"settings": {}})

    again = user.person.http.post(f"/my/approvals/{expired['id']}/ask-again")

    assert again.status_code == 201, again.text
    assert again.json()["details"]["estimated_cost_high"] > 0
    now = user.workflow(accepted["workflow_id"])
    assert (now["status"], now["approval_id"]) == ("awaiting_approval", again.json()["id"])
    user.decide(again.json()["id"])
    assert user.ended(accepted["workflow_id"])["status"] == "completed"
    assert user.team.planned == 1
    assert sorted(user.team.called) == ["a", "b", "c", "d"]


def test_agent_deleted_before_start_causes_new_plan(user: PlanUser) -> None:
    user.team.needs, user.team.agent = DIAMOND, lambda name: "agent_writer" if name == "b" else "agent_coder"
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    writer = next(agent["id"] for agent in user.project["agents"] if agent["name"] == "agent_writer")
    user.person.http.delete(f"/my/projects/{user.project['id']}/agents/{writer}")
    user.team.agent = lambda _: "agent_coder"

    user.decide(waits["approval_id"])
    second = eventually(lambda: _another(user, accepted["workflow_id"], waits["approval_id"]))

    assert user.team.called == []
    assert {task["agent"] for task in second["tasks"]} == {"agent_coder"}
    user.decide(second["approval_id"])
    assert user.ended(accepted["workflow_id"])["status"] == "completed"


@pytest.mark.req("CHT-03.5")
def test_cancelled_workflow_stops_running_tasks_and_keeps_results(user: PlanUser) -> None:
    hold = Hold()
    user.team.needs, user.team.does = {"a": "", "b": "a", "c": "b"}, {"b": hold}
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    user.decide(waits["approval_id"])
    eventually(lambda: hold.arrived)

    stopped = user.person.http.post(f"/my/workflows/{accepted['workflow_id']}/cancel")

    assert stopped.status_code == 200, stopped.text
    assert hold.abandoned.wait(10)
    workflow = user.workflow(accepted["workflow_id"])
    assert workflow["status"] == "cancelled"
    assert user.statuses(workflow) == {"a": "completed", "b": "cancelled", "c": "cancelled"}
    told = user.person.events_of(user.session, accepted["turn_id"])
    assert [(event.type, event.data.get("task_id")) for event in told[-2:]] == [
        ("task_cancelled", "b"),
        ("turn_cancelled", None),
    ]
    assert workflow["cost"] > 0  # also of what was cut off
    hold.release()
    user.team.does = {}
    user.person.http.post(f"/my/workflows/{workflow['id']}/retry")
    assert user.ended(workflow["id"])["status"] == "completed"
    assert user.team.called == ["a", "b", "b", "c"]


def test_the_same_request_is_planned_once(user: PlanUser) -> None:
    user.team.needs = {"1": ""}
    first = user.ended(user.ask("Write the report about everything.")["workflow_id"])
    second = user.ended(user.ask("Write the report  about everything.")["workflow_id"])
    assert user.team.planned == 1
    assert (first["planned_by"], second["planned_by"]) == ("model", "cache")
    assert user.team.called == ["1", "1"]

    user.person.agent(user.project["id"], name="agent_new")
    third = user.ended(user.ask("Write the report about everything.")["workflow_id"])

    assert (user.team.planned, third["planned_by"]) == (2, "model")


@pytest.mark.req("CHT-03.2")
def test_plan_over_cost_threshold_needs_approval(user: PlanUser) -> None:
    user.team.needs = {"1": ""}
    settings = {"settings": {"plans": {"approve_over_usd": 0.0001}}}
    assert user.person.http.patch(f"/my/projects/{user.project['id']}", json=settings).status_code == 200

    accepted = user.ask()

    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    assert waits["estimated_cost"] > 0.0001
    user.decide(waits["approval_id"])
    assert user.ended(accepted["workflow_id"])["status"] == "completed"


@pytest.mark.req("CHT-11.1")
def test_unapproved_spending_of_session_counts_only_for_plans_of_two_tasks(user: PlanUser) -> None:
    user.settings(approve_over_usd=0.3)
    user.team.needs = {"1": "", "2": ""}
    user.team.does = {name: Say("Much.", tokens=(1_500, 500)) for name in "12"}
    first = user.ended(user.ask("Do something first of all.")["workflow_id"])
    assert first["status"] == "completed"
    assert first["estimated_cost"] < 0.3 < first["cost"] + first["estimated_cost"]

    waits = user.until(user.ask("Do something second of all.")["workflow_id"], "awaiting_approval")

    assert waits["estimated_cost"] < 0.3
    user.decide(waits["approval_id"], "reject")
    user.team.needs = {"1": ""}
    assert user.ended(user.ask("A single thing.")["workflow_id"])["status"] == "completed"


@pytest.mark.req("CHT-11.1", "CHT-11.2")
def test_long_small_talk_never_needs_approval(user: PlanUser) -> None:
    user.team.needs = {"1": ""}
    user.team.does = {"1": Say("A monad is " + "a burrito, more or less; " * 25, tokens=(3_000, 180))}
    spent = 0.0
    for number in range(10):
        workflow = user.ended(user.ask(f"And what is number {number}?")["workflow_id"])
        assert (workflow["status"], workflow["approval_id"]) == ("completed", None)
        spent += workflow["cost"]

    assert spent > 0.5  # at the prices of gpt-4
    assert user.person.get("/my/approvals")["items"] == []


@pytest.mark.req("CHT-11.1", "CHT-11.2")
def test_small_talk_after_turns_with_tools_needs_no_approval(user: PlanUser) -> None:
    user.settings(approve_over_usd=10)
    user.team.needs = {"1": ""}
    look = Say(tools=[Tool("memory_read", json.dumps({"query": "anything"}))], tokens=(2_000, 500))
    answers = [look, look, look, Say("Looked.", tokens=(2_000, 500))] * 3

    async def next_answer(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        return await answers.pop(0)(request, http)

    user.team.does = {"1": next_answer}
    for number in range(3):
        assert user.ended(user.ask(f"Look at number {number}.")["workflow_id"])["status"] == "completed"
    assert answers == []
    user.settings()
    user.team.does = {}
    user.session = user.person.session(user.project["id"])

    workflow = user.until(user.ask("Thanks!")["workflow_id"], "completed", "awaiting_approval")

    assert (workflow["status"], workflow["approval_id"]) == ("completed", None)


@pytest.mark.req("CHT-11.2")
def test_demo_brain_output_does_not_count_as_usual_output(user: PlanUser, server: Server) -> None:
    user.team.needs = {"1": ""}
    user.team.does = {"1": Say("Much.", tokens=(1_000, 2_000))}  # for $0.12 at the prices of gpt-4
    user.ended(user.ask("Write much.")["workflow_id"])
    waits = user.until(user.ask("Thanks!")["workflow_id"], "awaiting_approval")
    user.decide(waits["approval_id"], "reject")
    engine = sqlalchemy.create_engine(server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        of_project = tables.tasks.c.project_id == user.project["id"]
        made_by_demo = {"model": "demo", "calls": 1, "output_tokens": 2_000, "cost_usd": 0.0}
        connection.execute(sqlalchemy.update(tables.tasks).where(of_project).values(usage=made_by_demo))
    engine.dispose()

    workflow = user.until(user.ask("Thanks a lot!")["workflow_id"], "completed", "awaiting_approval")

    assert (workflow["status"], workflow["approval_id"]) == ("completed", None)


@pytest.mark.req("CHT-11.2")
def test_a_short_question_is_priced_by_the_agents_usual_output(user: PlanUser) -> None:
    user.team.needs = {"1": ""}
    user.team.does = {"1": Say("Short.", tokens=(1_000, 20))}
    before = user.ended(user.ask("What is it?")["workflow_id"])
    after = user.ended(user.ask("What else is it?")["workflow_id"])

    output = prices.cost("gpt-4", 0, 500)
    assert output is not None
    assert output < before["tasks"][0]["estimated_cost"] < 0.1  # 4,096 tokens alone would be $0.25
    assert after["tasks"][0]["estimated_cost"] < before["tasks"][0]["estimated_cost"] - output / 2


@pytest.mark.req("CHT-03.2")
def test_three_cheap_tasks_need_approval_and_two_do_not(user: PlanUser) -> None:
    user.change_agent(model="gpt-4o-mini")
    user.team.needs = {"1": "", "2": ""}
    two = user.ended(user.ask("Do both.")["workflow_id"])
    assert (two["status"], two["approval_id"]) == ("completed", None)

    user.team.needs = {"1": "", "2": "", "3": ""}
    waits = user.until(user.ask("Do all three.")["workflow_id"], "awaiting_approval")

    assert waits["estimated_cost"] < 0.05
    assert sorted(user.team.called) == ["1", "2"]


@pytest.mark.req("CHT-03.2", "CHT-11.1")
def test_task_over_ten_cents_needs_approval_and_one_just_under_does_not(user: PlanUser) -> None:
    per_word = prices.cost("gpt-4", 1, 0)
    assert per_word is not None
    words = 2_000
    user.team.needs = {"1": ""}
    user.team.does = {"1": Say("Done.", tokens=(10, 500))}
    free = Say(json.dumps({"tasks": user.team.tasks()}), tokens=(1, 1))  # planning costs next to nothing

    def ask(number_of_words: int) -> dict[str, Any]:
        user.change_agent(system_prompt="word " * number_of_words, tools=[], memory=False)
        user.team.plans = [free]
        user.session = user.person.session(user.project["id"])
        workflow_id = user.ask(f"With {number_of_words} words.")["workflow_id"]
        return user.until(workflow_id, "awaiting_approval", "completed")

    measured = ask(words)
    assert measured["status"] == "completed"
    words += int((0.1 - measured["estimated_cost"]) / per_word)
    under, over = ask(words - 5), ask(words + 5)
    assert (under["status"], over["status"]) == ("completed", "awaiting_approval")
    assert 0.0995 < under["estimated_cost"] <= 0.1 < over["estimated_cost"] < 0.1005


def test_model_without_known_price_needs_approval_that_names_it(user: PlanUser) -> None:
    user.person.agent(user.project["id"], name="agent_odd", model="openai/nobody-knows-this")
    user.team.needs, user.team.agent = {"1": "", "2": ""}, lambda _: "agent_odd"

    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")

    assert waits["estimated_cost"] is None
    asked = user.person.get(f"/my/approvals/{waits['approval_id']}")
    assert asked["details"]["unknown_prices"] == ["openai/nobody-knows-this"]
    user.decide(waits["approval_id"])
    workflow = user.ended(accepted["workflow_id"])
    assert (workflow["status"], workflow["tasks"][0]["cost"]) == ("completed", None)


@pytest.mark.req("UWS-07.3", "UWS-24.4")
def test_direct_and_orchestrated_turns_share_history(user: PlanUser) -> None:
    user.team.needs = {"1": ""}
    user.person.say(user.session, "My name is Ada.")

    user.ended(user.ask()["workflow_id"])

    told = [message["content"] for message in user.team.requests["1"].body["messages"]]
    assert "My name is Ada." in told
    user.person.say(user.session, "And what did they say?")
    history = [(m["role"], m["content"]) for m in user.person.history(user.session)]
    assert ("assistant", "Result of 1.") in history


@pytest.mark.req("UWS-24.3")
def test_exchange_and_results_are_stored_in_memory_with_source(user: PlanUser) -> None:
    user.team.needs = {"a": "", "b": "a"}

    workflow = user.approved()

    coder = next(agent["id"] for agent in user.project["agents"] if agent["name"] == "agent_coder")
    items = user.person.get(f"/my/projects/{user.project['id']}/agents/{coder}/context")["items"]
    assert sorted(item["type"] for item in items) == ["conversation", "task", "task"]
    assert all(item["metadata"]["workflow_id"] == workflow["id"] for item in items)
    assert any("Result of b." in item["content"] for item in items)


def test_tool_approval_blocks_only_its_task(user: PlanUser) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    user.team.needs = {"a": "", "b": "", "c": "a"}
    user.team.does = {"a": delete}
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    user.decide(waits["approval_id"])
    approvals = eventually(lambda: user.person.get("/my/approvals", status="pending")["items"])
    assert (approvals[0]["tool"], approvals[0]["details"]["task_id"]) == ("tool_delete_file", "a")
    turn = eventually(lambda: _waits(user, accepted["turn_id"]))
    assert turn["status"] == "waiting"
    assert user.statuses(user.workflow(accepted["workflow_id"])) == {"a": "waiting", "b": "completed", "c": "pending"}
    user.team.does = {}

    user.decide(approvals[0]["id"], "reject", feedback="Keep it.")
    workflow = user.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert "Keep it." in json.dumps(user.team.requests["a"].body["messages"])


def test_approved_task_waits_for_room_in_the_queue_of_its_agent_and_continues(
    user: PlanUser, server: Server, script: ByMark
) -> None:
    task, pid = f"t{user.project['id']}", user.project["id"]
    worker = user.person.agent(pid, name="worker", concurrency_limit=1, memory=False, tools=["tool_delete_file"])
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    user.team.needs, user.team.agent = {task: ""}, lambda _: worker["name"]
    user.team.does = {task: FirstThen(delete, 1, Say("Continued."))}
    user.settings(approve_over_usd=10)
    accepted = user.ask()
    [approval] = eventually(lambda: user.person.get("/my/approvals", status="pending")["items"], 30)
    eventually(lambda: _waits(user, accepted["turn_id"]))
    script[f"busy{user.team.mark}"] = hold = Hold()

    def submit(_: int) -> None:
        user.person.submit(user.person.session(pid), f"busy{user.team.mark}", worker["id"])

    def is_full() -> bool:
        status = user.person.get(f"/my/projects/{pid}/agents/{worker['id']}/status")
        return bool(status["queued_tasks"] == 100)

    submit(0)
    eventually(lambda: hold.arrived)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(submit, range(100)))
    eventually(is_full, 30)

    user.decide(approval["id"], "reject")
    eventually(lambda: [line for line in server.log_lines() if line.get("task_id") == task])
    hold.release()

    assert user.ended(accepted["workflow_id"])["answer"] == "Continued."
    roles = [message["role"] for message in user.team.requests[task].body["messages"]]
    assert roles[-2:] == ["assistant", "tool"]  # it was not begun anew
    assert user.team.called == [task, task]


def test_task_continues_without_call_whose_approval_is_renewed(user: PlanUser) -> None:
    recall = Say(tools=[Tool("memory_read", json.dumps({"query": "anything"}))])
    hold = Hold()
    user.team.needs, user.team.does = {"a": "", "b": ""}, {"a": FirstThen(recall, 1, Say("Without.")), "b": hold}
    rules = {"memory_read": {"requires_approval": True}}
    settings = {"plans": {"approve_over_usd": 10}, "approval_seconds": 1, "tools": rules}
    user.person.http.patch(f"/my/projects/{user.project['id']}", json={"settings": settings})
    accepted = user.ask()
    [asked] = eventually(lambda: user.person.get("/my/approvals", status="expired")["items"], 30)

    again = user.person.http.post(f"/my/approvals/{asked['id']}/ask-again")
    hold.release()

    assert again.status_code == 201, again.text
    workflow = user.ended(accepted["workflow_id"])
    assert workflow["status"] == "completed"
    assert user.statuses(workflow) == {"a": "completed", "b": "completed"}


def _waits(user: PlanUser, turn_id: str) -> dict[str, Any]:
    turn = user.person.turn(user.session, turn_id)
    return turn if turn["status"] == "waiting" else {}


def test_plan_asks_before_exceeding_agreed_cost(user: PlanUser) -> None:
    user.team.needs = {"a": "", "b": "a", "c": "b"}
    user.team.does = {"a": Say("Dear.", tokens=(4_000_000, 10))}
    accepted = user.ask()
    first = user.until(accepted["workflow_id"], "awaiting_approval")

    user.decide(first["approval_id"])
    second = eventually(lambda: _another(user, accepted["workflow_id"], first["approval_id"]), 30)

    assert second["status"] == "awaiting_approval"
    assert user.team.called == ["a"]
    asked = user.person.get(f"/my/approvals/{second['approval_id']}")
    assert asked["kind"] == "budget"
    assert asked["details"]["spent"] > asked["details"]["agreed_cost"]
    user.decide(second["approval_id"])
    workflow = user.ended(accepted["workflow_id"])
    assert workflow["status"] == "completed"
    assert user.team.called == ["a", "b", "c"]
    assert workflow["cost"] <= workflow["agreed_cost"]


def test_budget_reserved_by_running_call_causes_no_approval(user: PlanUser) -> None:
    model, hold = "gpt-4o", Hold()
    fields = {"name": "agent_plain", "model": model, "tools": [], "memory": False, "max_tokens": 1_000}
    agent = user.person.agent(user.project["id"], **fields)
    user.team.needs, user.team.agent = {"a": "", "b": "", "c": "a b"}, lambda _: "agent_plain"
    user.team.does = {"a": hold, "b": hold}
    accepted = user.ask()
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    # Now there is enough for one call at a time, and each takes much less in the end.
    most = int(waits["estimated_cost_high"] * 0.7 / (prices.cost(model, 0, 1) or 0.0))
    url = f"/my/projects/{user.project['id']}/agents/{agent['id']}"
    assert user.person.http.patch(url, json={"max_tokens": most}).status_code == 200
    user.decide(waits["approval_id"])
    eventually(lambda: hold.arrived and "waiting" in user.statuses(user.workflow(waits["id"])).values(), 30)

    hold.release()
    workflow = user.until(accepted["workflow_id"], "completed", "partial", "failed", "awaiting_approval")

    assert workflow["status"] == "completed"
    assert sorted(user.team.called) == ["a", "b", "c"]
    assert [one["kind"] for one in user.person.get("/my/approvals")["items"]] == ["plan"]
    assert workflow["cost"] <= workflow["agreed_cost"]


def test_budget_and_tool_approvals_can_be_decided_in_any_order(user: PlanUser) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    user.team.needs = {"a": "", "b": "", "c": "b"}
    expensive = Hold("Dear.", tokens=(4_000_000, 10))
    user.team.does = {"a": delete, "b": expensive}
    accepted = user.ask()
    user.decide(user.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    eventually(lambda: user.person.get("/my/approvals", status="pending")["items"], 30)
    expensive.release()  # not before: what `a` asks its model would have to wait for the money, too

    def both() -> dict[str, dict[str, Any]]:
        approvals = {
            approval["kind"]: approval for approval in user.person.get("/my/approvals", status="pending")["items"]
        }
        return approvals if len(approvals) == 2 else {}

    approvals = eventually(both, 30)
    user.team.does = {}
    user.decide(approvals["tool"]["id"], "reject", feedback="Keep it.")
    eventually(lambda: _waits(user, accepted["turn_id"]))
    assert [approval["id"] for approval in user.person.get("/my/approvals", status="pending")["items"]] == [
        approvals["budget"]["id"]
    ]

    user.decide(approvals["budget"]["id"])
    workflow = user.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert set(user.statuses(workflow).values()) == {"completed"}
    assert user.person.get("/my/approvals", status="pending")["items"] == []


def test_plan_continues_in_next_worker_space(user: PlanUser) -> None:
    hold = Hold("Result of a.")
    user.team.needs = {"a": "", "b": "a", "c": "b"}
    user.team.does = {"a": hold}
    accepted = user.ask()
    user.decide(user.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    eventually(lambda: hold.arrived)

    with ThreadPoolExecutor(1) as threads:
        cleaned = threads.submit(user.person.http.post, f"/my/projects/{user.project['id']}/space/cleanup")
        hold.release()
        assert cleaned.result(60).status_code == 204

    workflow = user.ended(accepted["workflow_id"])
    assert (workflow["status"], user.team.called) == ("completed", ["a", "b", "c"])


def test_planning_restarts_in_next_worker_space(user: PlanUser) -> None:
    never = Hold()
    user.team.needs, user.team.plans = {"a": "", "b": "a", "c": "b"}, [never]
    accepted = user.ask()
    eventually(lambda: never.arrived)

    cleaned = user.person.http.post(f"/my/projects/{user.project['id']}/space/cleanup")

    assert cleaned.status_code == 204
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    assert (waits["planned_by"], [task["id"] for task in waits["tasks"]]) == ("model", ["a", "b", "c"])
    assert never.abandoned.wait(10)
    user.decide(waits["approval_id"])
    assert user.ended(accepted["workflow_id"])["status"] == "completed"


def test_plan_feedback_survives_change_of_worker_space(user: PlanUser) -> None:
    user.team.needs = DIAMOND
    accepted = user.ask()
    first = user.until(accepted["workflow_id"], "awaiting_approval")
    never = Hold()
    user.team.plans = [never]
    user.decide(first["approval_id"], "reject", feedback="Without b, please")
    eventually(lambda: never.arrived)
    user.team.needs = {"a": "", "c": "a"}

    assert user.person.http.post(f"/my/projects/{user.project['id']}/space/cleanup").status_code == 204

    second = eventually(lambda: _another(user, accepted["workflow_id"], first["approval_id"]), 30)
    assert second["planned_by"] == "model"
    assert "b: left out" in user.person.get(f"/my/approvals/{second['approval_id']}")["details"]["changed"]
    assert user.team.planned == 3


def test_refused_budget_ends_plan_with_partial_results(user: PlanUser) -> None:
    user.team.needs = {"a": "", "b": "a", "c": "b"}
    user.team.does = {"a": Say("Dear.", tokens=(4_000_000, 10))}
    accepted = user.ask()
    first = user.until(accepted["workflow_id"], "awaiting_approval")
    user.decide(first["approval_id"])
    second = eventually(lambda: _another(user, accepted["workflow_id"], first["approval_id"]), 30)

    user.decide(second["approval_id"], "reject")
    workflow = user.ended(accepted["workflow_id"])

    assert workflow["status"] == "partial"
    assert user.team.called == ["a"]
    assert user.statuses(workflow)["b"] == "cancelled"
    assert "Dear." in workflow["answer"]


def test_expired_budget_approval_ends_plan_and_retry_asks_again(user: PlanUser) -> None:
    user.team.needs = {"a": "", "b": "a", "c": "b"}
    user.team.does = {"a": Say("Dear.", tokens=(4_000_000, 10))}
    accepted = user.ask()
    first = user.until(accepted["workflow_id"], "awaiting_approval")
    settings = {"settings": {"approval_seconds": 1}}
    user.person.http.patch(f"/my/projects/{user.project['id']}", json=settings)
    user.decide(first["approval_id"])

    workflow = user.ended(accepted["workflow_id"])

    assert (workflow["status"], user.team.called) == ("partial", ["a"])
    [second] = user.person.get("/my/approvals", status="expired")["items"]
    again = user.person.http.post(f"/my/approvals/{second['id']}/ask-again")
    assert "retry" in assert_problem(again, 409, "approval_decided")["detail"]
    user.person.http.patch(f"/my/projects/{user.project['id']}", json={"settings": {}})
    user.person.http.post(f"/my/workflows/{workflow['id']}/retry")
    third = eventually(lambda: _another(user, accepted["workflow_id"], second["id"]), 30)
    user.decide(third["approval_id"])
    assert user.ended(workflow["id"])["status"] == "completed"
    assert user.team.called == ["a", "b", "c"]


def test_project_stays_within_monthly_budget(user: PlanUser) -> None:
    settings = {"settings": {"monthly_budget_usd": 0.0001}}
    assert user.person.http.patch(f"/my/projects/{user.project['id']}", json=settings).status_code == 200
    user.team.needs = {"1": ""}

    workflow = user.ended(user.ask()["workflow_id"])

    assert workflow["status"] == "failed"
    assert workflow["error_code"] == "budget_exceeded"
    assert user.team.called == []


def test_direct_message_counts_against_monthly_budget(user: PlanUser) -> None:
    url = f"/my/projects/{user.project['id']}"
    user.person.http.patch(url, json={"settings": {"monthly_budget_usd": 0.5}})
    spent = user.person.say(user.session, "Hello")["usage"]["cost_usd"]
    assert 0 < spent < 0.1

    user.person.http.patch(url, json={"settings": {"monthly_budget_usd": spent}})
    refused = user.person.post(user.session, "Hello again")

    problem = assert_problem(refused, 409, "budget_exceeded")
    assert "Monthly budget of the project" in problem["detail"]
    user.person.http.patch(url, json={"settings": {}})
    assert user.person.say(user.session, "And again")["content"] == "You said: And again"


def test_task_is_retried_when_model_is_rate_limited(user: PlanUser, server: Server) -> None:
    task = f"t{user.project['id']}"
    user.team.needs = {task: ""}
    user.team.does = {task: FirstThen(Fail(429), 3, Say("At last."))}  # as often as the model itself is tried again

    workflow = user.ended(user.ask()["workflow_id"])

    assert (workflow["status"], workflow["answer"]) == ("completed", "At last.")
    assert workflow["tasks"][0]["attempts"] == 2
    [retry] = [line for line in server.log_lines() if line["event"] == "task_retried" and line["task_id"] == task]
    assert 1 <= retry["pause_seconds"] <= 2


def test_short_rate_limit_fails_no_task(user: PlanUser) -> None:
    overrun = FirstThen(Fail(429), 18, Say("At last."))  # six tasks give up for now, one after another
    user.team.needs = {f"t{number}": "" for number in range(8)}
    user.team.does = dict.fromkeys(user.team.needs, overrun)

    workflow = user.approved()

    assert workflow["status"] == "completed", workflow["tasks"]


@pytest.mark.req("AGT-04.4")
def test_planner_sees_capabilities_and_fallback_task_goes_to_capable_agent(user: PlanUser) -> None:
    user.person.agent(user.project["id"], name="agent_polyglot", role="linguist", capabilities=["translate_latin"])
    user.team.needs = {"1": ""}
    requests: list[ModelRequest] = []

    @dataclass
    class Listening:
        async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
            requests.append(request)
            return await Say("No plan.")(request, http)

    user.team.plans = [Listening(), Listening()]

    workflow = user.ended(user.ask("Somebody with translate_latin should do 1.")["workflow_id"])

    assert '"capabilities": ["translate_latin"]' in requests[0].body["messages"][0]["content"]
    assert [task["agent"] for task in workflow["tasks"]] == ["agent_polyglot"]


def test_invalid_plans_fall_back_to_one_task_for_best_agent(user: PlanUser) -> None:
    user.team.needs = {"1": ""}
    user.team.plans = [Say("I would rather not."), Say('{"tasks": []}')]

    workflow = user.ended(user.ask("Let the writer do 1.")["workflow_id"])

    assert (workflow["status"], workflow["planned_by"]) == ("completed", "fallback")
    [task] = workflow["tasks"]
    assert task["agent"] == "agent_writer"
    assert user.team.planned == 2


def test_results_are_the_answer_when_merging_fails(user: PlanUser) -> None:
    user.team.needs, user.team.does = {"a": "", "b": ""}, {"merge": Fail(400)}

    workflow = user.approved()

    assert workflow["status"] == "completed"
    assert "Result of a." in workflow["answer"]
    assert "Result of b." in workflow["answer"]


def test_reconnecting_client_gets_events_without_gaps(user: PlanUser) -> None:
    hold = Hold()
    user.team.needs, user.team.does = DIAMOND, {"b": hold}
    accepted = user.ask()
    user.decide(user.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    with user.person.follow(user.session, 0) as following:
        first = _until(following, "task_started", task_id="b")
    hold.release()
    with user.person.follow(user.session, first[-1].number) as following:
        rest = _until(following, "turn_completed")

    with user.person.follow(user.session, 0) as following:
        whole = _until(following, "turn_completed")
    assert [event.number for event in whole] == list(range(1, len(whole) + 1))
    assert [(event.number, event.data) for event in [*first, *rest]] == [(event.number, event.data) for event in whole]
    types = [event.type for event in whole]
    order = ["message_created", "task_plan_created", "plan_request", "task_started", "task_completed", "turn_completed"]
    assert [types.index(kind) for kind in order] == sorted(types.index(kind) for kind in order)
    assert types.count("turn_completed") == 1


def _until(following: Stream, kind: str, **data: str) -> list[Event]:
    """Return the stored events up to the first one of this type."""
    heard = []
    for event in following:
        if event.number is not None:
            heard.append(event)
            if event.type == kind and data.items() <= event.data.items():
                break
    return heard
