"""Requests to the orchestrator: planned, priced, approved, carried out in parallel, answered once."""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import sqlalchemy
from aiohttp import web

from artel.brain import prices
from artel.db import tables
from tests.deadlines import eventually
from tests.model_server import Behaviour, ByMark, Fail, Hold, ModelRequest, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server
from tests.streams import Event, Stream

AGENTS = {
    "coder": "agent_coder",
    "writer": "agent_writer",
    "analyzer": "agent_analyzer",
    "researcher": "agent_researcher",
}


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@dataclass
class Team:
    """A model that plans as it is told, and does each task as it is told."""

    mark: str
    needs: Mapping[str, str] = field(default_factory=dict)
    does: dict[str, Behaviour] = field(default_factory=dict)
    plans: list[Behaviour] = field(default_factory=list)
    agent: Callable[[str], str] = lambda _: "agent_coder"
    asked: list[str] = field(default_factory=list)
    planned: int = 0
    merged: int = 0
    merges: list[ModelRequest] = field(default_factory=list)
    told: dict[str, ModelRequest] = field(default_factory=dict)

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        if request.schema_name == "plan":
            self.planned += 1
            plan = self.plans.pop(0) if self.plans else Say(json.dumps({"tasks": self.tasks()}))
            return await plan(request, http)
        task = next((name for name in self.needs if request.text.startswith(f"{self.mark} do {name}.")), None)
        if task is None:
            self.merged += 1
            self.merges.append(request)
            return await self.does.get("merge", Say("All of it, in one."))(request, http)
        self.asked.append(task)
        self.told[task] = request
        return await self.does.get(task, Say(f"Result of {task}."))(request, http)

    def tasks(self) -> list[dict[str, Any]]:
        return [
            {
                "id": name,
                "agent": self.agent(name),
                "description": f"{self.mark} do {name}.",
                "depends_on": after.split(),
            }
            for name, after in self.needs.items()
        ]


class Together:
    """Return requests only once so many are in flight at the same time."""

    def __init__(self, parties: int) -> None:
        self.most = 0
        self._parties = parties
        self._inside = 0
        self._all = asyncio.Event()

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        self._inside += 1
        self.most = max(self.most, self._inside)
        if self._inside >= self._parties:
            self._all.set()
        try:
            await asyncio.wait_for(self._all.wait(), 25)
        except TimeoutError:
            return await Fail(400, {"message": "It is alone."})(request, http)
        finally:
            self._inside -= 1
        return await Say("Done together.")(request, http)


@dataclass
class Desk:
    """Somebody who asks the orchestrator, in one session of one project."""

    person: Person
    project: dict[str, Any]
    session: str
    team: Team

    def ask(self, text: str = "Please do it all.", **headers: str) -> dict[str, Any]:
        answer = self.person.post(self.session, f"{self.team.mark} {text}", None, headers or None)
        assert answer.status_code in (200, 202), answer.text
        accepted: dict[str, Any] = answer.json()
        return accepted

    def workflow(self, workflow_id: str) -> dict[str, Any]:
        return self.person.get(f"/my/workflows/{workflow_id}")

    def until(self, workflow_id: str, *statuses: str) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            now = self.workflow(workflow_id)
            return now if now["status"] in statuses else {}

        return eventually(look, 30)

    def ended(self, workflow_id: str) -> dict[str, Any]:
        return self.until(workflow_id, "completed", "partial", "failed", "rejected", "cancelled", "timeout")

    def decide(self, approval_id: str, decision: str = "approve", **more: Any) -> dict[str, Any]:
        answer = self.person.http.post(f"/my/approvals/{approval_id}/confirm", json={"decision": decision, **more})
        assert answer.status_code == 200, answer.text
        decided: dict[str, Any] = answer.json()
        return decided

    def approved(self, text: str = "Please do it all.", **more: Any) -> dict[str, Any]:
        """Ask, approve the plan, and return how it ended."""
        accepted = self.ask(text)
        waits = self.until(accepted["workflow_id"], "awaiting_approval")
        self.decide(waits["approval_id"], **more)
        return self.ended(accepted["workflow_id"])

    def settings(self, **plans: Any) -> None:
        answer = self.person.http.patch(f"/my/projects/{self.project['id']}", json={"settings": {"plans": plans}})
        assert answer.status_code == 200, answer.text

    def change_agent(self, name: str = "agent_coder", **fields: Any) -> None:
        agent = next(one["id"] for one in self.project["agents"] if one["name"] == name)
        answer = self.person.http.patch(f"/my/projects/{self.project['id']}/agents/{agent}", json=fields)
        assert answer.status_code == 200, answer.text

    def statuses(self, workflow: dict[str, Any]) -> dict[str, str]:
        return {task["id"]: task["status"] for task in workflow["tasks"]}


@pytest.fixture
def desk(person: Person, script: ByMark, mark: str) -> Desk:
    script[mark] = team = Team(mark)
    project = person.project()
    return Desk(person, project, person.session(project["id"]), team)


@pytest.mark.req("UWS-07.2", "UWS-23.1", "UWS-24.2", "CHT-03.1")
def test_a_request_that_one_agent_can_answer_is_answered_without_ceremony(desk: Desk) -> None:
    desk.team.needs = {"1": ""}

    accepted = desk.ask()
    workflow = desk.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert workflow["answer"] == "Result of 1."
    assert (desk.team.planned, desk.team.asked, desk.team.merged) == (1, ["1"], 0)
    [task] = workflow["tasks"]
    assert (task["agent"], task["status"], task["result"]) == ("agent_coder", "completed", "Result of 1.")
    assert [(m["role"], m["content"]) for m in desk.person.history(desk.session)][1] == ("assistant", "Result of 1.")


DIAMOND = {"a": "", "b": "a", "c": "a", "d": "b c"}


@pytest.mark.req("UWS-23.2", "UWS-23.3", "CHT-03.2", "CHT-03.3", "CHT-03.4", "UWS-24.2")
def test_a_plan_is_shown_approved_carried_out_and_answered(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    assert (accepted["mode"], "workflow_id" in accepted) == ("orchestrated", True)
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    assert desk.statuses(waits) == dict.fromkeys("abcd", "pending")
    assert desk.team.asked == []
    assert 0 < waits["estimated_cost_low"] <= waits["estimated_cost"] <= waits["estimated_cost_high"]

    desk.decide(waits["approval_id"])
    workflow = desk.ended(accepted["workflow_id"])

    assert (workflow["status"], workflow["answer"]) == ("completed", "All of it, in one.")
    assert desk.team.asked[0] == "a"
    assert desk.team.asked[-1] == "d"
    assert sorted(desk.team.asked) == ["a", "b", "c", "d"]
    assert "Result of b." in desk.team.told["d"].text
    assert "Result of c." in desk.team.told["d"].text
    assert "Result of a." not in desk.team.told["d"].text
    assert 0 < workflow["cost"] <= workflow["agreed_cost"]
    types = [event.type for event in desk.person.events_of(desk.session, accepted["turn_id"])]
    assert types[0] == "message_created"
    assert types[-1] == "turn_completed"
    ordered = ["task_plan_created", "plan_request", "approval_resolved", "task_started", "task_completed"]
    assert [types.index(name) for name in ordered] == sorted(types.index(name) for name in ordered)
    assert types.count("task_started") == types.count("task_completed") == 4
    assert "task_progress" in types


@pytest.mark.req("UWS-23.2")
def test_independent_tasks_run_at_the_same_time(desk: Desk) -> None:
    together = Together(3)
    desk.team.needs, desk.team.does = {"a": "", "b": "", "c": ""}, dict.fromkeys("abc", together)

    workflow = desk.approved()

    assert (workflow["status"], together.most) == ("completed", 3)


@pytest.mark.req("UWS-23.2", "UWS-24.2")
def test_the_answer_is_merged_from_every_result(desk: Desk) -> None:
    desk.team.needs = {"a": "", "b": "", "c": "a"}
    agents = {"a": "agent_writer", "b": "agent_analyzer", "c": "agent_coder"}
    desk.team.agent = agents.__getitem__
    desk.team.does = {name: Say(f"Found out by {name}: {name * 7}.") for name in "abc"}

    workflow = desk.approved()

    assert workflow["answer"] == "All of it, in one."
    [request] = desk.team.merges
    results = [json.loads(line) for line in request.body["messages"][0]["content"].splitlines() if line.startswith("{")]
    assert [(result["agent"], result["result"]) for result in results] == [
        (agents[name], f"Found out by {name}: {name * 7}.") for name in "abc"
    ]
    assert request.text.endswith("Please do it all.")


@pytest.mark.req("UWS-13.4")
def test_a_task_of_an_agent_at_capacity_goes_to_a_free_one_of_the_same_role(desk: Desk, script: ByMark) -> None:
    pid = desk.project["id"]
    busy, free = (desk.person.agent(pid, name=name, role="tester", concurrency_limit=1) for name in ("first", "second"))
    script[f"busy{desk.team.mark}"] = hold = Hold()
    asking: list[ModelRequest] = []

    async def plan(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        asking.append(request)
        return await Say(json.dumps({"tasks": desk.team.tasks()}))(request, http)

    desk.team.needs, desk.team.agent, desk.team.plans = {"1": ""}, lambda _: busy["name"], [plan, plan, plan]
    other = desk.person.session(pid)
    desk.person.submit(other, f"busy{desk.team.mark}", busy["id"])
    eventually(lambda: hold.arrived)
    try:
        workflow = desk.ended(desk.ask("Test it.")["workflow_id"])
        assert [task["agent"] for task in workflow["tasks"]] == [free["name"]]
        assert workflow["status"] == "completed"
        told = asking[0].body["messages"][0]["content"]
        assert f'"name": "{busy["name"]}"' in told
        assert '"status": "at_capacity"' in told
        named = desk.ask(f"Let {busy['name']} test it.")["workflow_id"]
        assert [task["agent"] for task in desk.until(named, "running")["tasks"]] == [busy["name"]]
    finally:
        hold.release()
    assert desk.ended(named)["status"] == "completed"


def test_every_task_is_told_the_request_and_a_long_one_is_lost_to_nobody(desk: Desk) -> None:
    dear = {"plans": {"approve_over_usd": 10}}
    desk.person.http.patch(f"/my/projects/{desk.project['id']}", json={"settings": dear})
    desk.team.needs = {"1": ""}
    long = "Summarise this: " + "long words " * 800 + "the very end."

    workflow = desk.ended(desk.ask(long)["workflow_id"])

    assert workflow["status"] == "completed"
    assert desk.team.told["1"].text.endswith("the very end.")
    desk.team.needs = {"a": "", "b": ""}
    desk.ended(desk.ask(f"Again. {long}")["workflow_id"])
    for task in "ab":
        assert "Again. Summarise this" in desk.team.told[task].text
        assert "the very end." in desk.team.told[task].text
        assert len(desk.team.told[task].text) < 6_000


def test_results_in_a_language_of_many_tokens_are_handed_on_shortened_to_what_an_agent_may_be_sent(desk: Desk) -> None:
    letters = [chr(0x4E00 + number * 5) for number in range(3_900)]
    desk.team.needs = {"a": "", "b": "", "c": "", "d": "a b c"}
    desk.team.does = {task: Say(f"Begin {task}. {''.join(letters)} End {task}.") for task in "abc"}

    workflow = desk.approved()

    assert desk.statuses(workflow) == dict.fromkeys("abcd", "completed")
    for task in "abc":
        assert f"Begin {task}." in desk.team.told["d"].text
        assert f"End {task}." in desk.team.told["d"].text
    assert "characters were left out here" in desk.team.told["d"].text


def test_what_a_task_does_is_told_between_its_start_and_its_end(desk: Desk) -> None:
    desk.team.needs = {"a": "", "b": "", "c": ""}
    tool = Say(tools=[Tool("memory_read", json.dumps({"query": "anything"}))])
    desk.team.does = {task: FirstThen(tool, 1, Say("Done.")) for task in "abc"}

    workflow = desk.approved()

    assert workflow["status"] == "completed"
    events = desk.person.events_of(desk.session, workflow["turn_id"])
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


@pytest.mark.any_database
@pytest.mark.req("CHT-08.2")
@pytest.mark.parametrize(
    ("shape", "bad"),
    [
        *((shape, bad) for shape in ("three", "chain", "diamond", "deep") for bad in SHAPES[shape]),
        *(("wide", bad) for bad in ("0", "10", "19")),  # none of its twenty differs from another
    ],
)
def test_a_failed_task_stops_what_depends_on_it_and_a_retry_does_only_that(desk: Desk, shape: str, bad: str) -> None:
    desk.team.needs = needs = SHAPES[shape]
    desk.team.does = {bad: Fail(400)}

    workflow = desk.approved()

    undone = {one for one in needs if bad in _needs(needs, one)}
    done = set(needs) - undone - {bad}
    expected = dict.fromkeys(done, "completed") | dict.fromkeys(undone, "aborted") | {bad: "failed"}
    assert desk.statuses(workflow) == expected
    assert workflow["status"] == ("partial" if done else "failed")
    if done:
        assert "Not done:" in workflow["answer"]
        assert f"do {bad}." in workflow["answer"]
    before = list(desk.team.asked)
    desk.team.does = {}

    again = desk.person.http.post(f"/my/workflows/{workflow['id']}/retry")
    assert again.status_code == 202, again.text
    workflow = desk.ended(workflow["id"])

    assert (workflow["status"], set(desk.statuses(workflow).values())) == ("completed", {"completed"})
    assert sorted(desk.team.asked[len(before) :]) == sorted({bad} | undone)
    assert desk.team.planned == 1
    assert workflow["cost"] <= workflow["agreed_cost"]


@pytest.mark.any_database
@pytest.mark.parametrize("shape", ["wide", "deep"])
def test_plans_of_other_shapes_are_done(desk: Desk, shape: str) -> None:
    desk.team.needs = SHAPES[shape]

    workflow = desk.approved()

    assert workflow["status"] == "completed"
    assert sorted(desk.team.asked) == sorted(SHAPES[shape])
    for task, after in SHAPES[shape].items():
        for needed in after.split():
            assert f"Result of {needed}." in desk.team.told[task].text


@pytest.mark.req("CHT-03.3")
def test_a_rejected_plan_runs_nothing(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")

    desk.decide(waits["approval_id"], "reject")
    workflow = desk.ended(accepted["workflow_id"])

    assert workflow["status"] == "rejected"
    assert desk.team.asked == []
    assert desk.person.turn(desk.session, accepted["turn_id"])["status"] == "rejected"
    assert set(desk.statuses(workflow).values()) == {"cancelled"}


def test_feedback_makes_another_plan_which_needs_its_own_approval(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    first = desk.until(accepted["workflow_id"], "awaiting_approval")
    desk.team.needs = {"a": "", "z": "a"}

    desk.decide(first["approval_id"], "reject", feedback="Only two tasks, please")
    second = eventually(lambda: _another(desk, accepted["workflow_id"], first["approval_id"]))

    assert [task["id"] for task in second["tasks"]] == ["a", "z"]
    assert second["plan_id"] != first["plan_id"]
    assert desk.team.planned == 2
    asked = desk.person.get(f"/my/approvals/{second['approval_id']}")
    assert "z: new, for agent_coder" in asked["details"]["changed"]
    assert "b: left out" in asked["details"]["changed"]
    again = desk.person.http.post(f"/my/approvals/{first['approval_id']}/confirm", json={"decision": "approve"})
    assert_problem(again, 409, "approval_decided")
    assert desk.team.asked == []
    desk.decide(second["approval_id"])
    assert desk.ended(accepted["workflow_id"])["status"] == "completed"
    assert sorted(desk.team.asked) == ["a", "z"]


def _another(desk: Desk, workflow_id: str, approval_id: str) -> dict[str, Any]:
    now = desk.workflow(workflow_id)
    return now if now["approval_id"] not in (None, approval_id) else {}


def test_an_approval_can_change_the_plan_and_add_an_instruction(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    changes = {
        "tasks": [
            {"id": "a", "drop": True},
            {"id": "b", "agent": "agent_writer"},
            {"id": "c", "description": f"{desk.team.mark} do c. Shortly."},
        ]
    }

    desk.decide(waits["approval_id"], changes=changes, instruction="Write in French.")
    workflow = desk.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert sorted(desk.team.asked) == ["b", "c", "d"]
    by_id = {task["id"]: task for task in workflow["tasks"]}
    assert (by_id["b"]["agent"], by_id["b"]["depends_on"]) == ("agent_writer", [])
    assert all("Write in French." in asked.text for asked in desk.team.told.values())
    assert "Shortly." in desk.team.told["c"].text
    assert workflow["instruction"] == "Write in French."
    assert workflow["agreed_cost"] == workflow["estimated_cost_high"] < waits["estimated_cost_high"]
    assert sum(task["estimated_cost"] for task in workflow["tasks"]) < workflow["estimated_cost"]


@pytest.mark.any_database
@pytest.mark.parametrize(
    "change",
    [
        {"id": "nobody", "drop": True},
        {"id": "a", "agent": "agent_nobody"},
        {"id": "a", "description": "   "},
    ],
)
def test_changes_that_make_no_plan_are_refused_and_it_can_still_be_approved(desk: Desk, change: dict[str, Any]) -> None:
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")

    refused = desk.person.http.post(
        f"/my/approvals/{waits['approval_id']}/confirm", json={"decision": "approve", "changes": {"tasks": [change]}}
    )

    assert refused.status_code == 422, refused.text
    assert desk.workflow(accepted["workflow_id"])["status"] == "awaiting_approval"
    desk.decide(waits["approval_id"])
    assert desk.ended(accepted["workflow_id"])["status"] == "completed"


def test_a_plan_is_decided_once_and_by_its_owner_only(desk: Desk, other: Person) -> None:
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    confirm = f"/my/approvals/{waits['approval_id']}/confirm"

    assert_problem(other.http.post(confirm, json={"decision": "approve"}), 404, "approval_not_found")
    assert_problem(other.http.get(f"/my/workflows/{waits['id']}"), 404, "workflow_not_found")
    desk.decide(waits["approval_id"])
    assert_problem(desk.person.http.post(confirm, json={"decision": "reject"}), 409, "approval_decided")

    assert desk.ended(accepted["workflow_id"])["status"] == "completed"
    assert other.get("/my/workflows")["total"] == 0


def test_workflows_are_listed_by_session_and_project(desk: Desk, other: Person) -> None:
    desk.team.needs = {"1": ""}
    here = desk.ask()["workflow_id"]
    elsewhere = replace(desk, session=desk.person.session(desk.project["id"]))
    there = elsewhere.ask()["workflow_id"]

    def listed(**query: Any) -> list[str]:
        return [one["id"] for one in desk.person.get("/my/workflows", **query)["items"]]

    assert listed(session_id=desk.session) == [here]
    assert listed(session_id=elsewhere.session) == [there]
    assert listed(project_id=desk.project["id"]) == [there, here]
    assert listed(project_id=desk.person.project()["id"]) == []
    query = {"session_id": desk.session}
    assert_problem(other.http.get("/my/workflows", params=query), 404, "session_not_found")


def test_a_plan_that_nobody_decides_about_times_out_and_can_be_asked_for_again(desk: Desk) -> None:
    settings = {"settings": {"approval_seconds": 1}}
    assert desk.person.http.patch(f"/my/projects/{desk.project['id']}", json=settings).status_code == 200
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    workflow = desk.ended(accepted["workflow_id"])
    assert workflow["status"] == "timeout"
    [expired] = desk.person.get("/my/approvals", status="expired")["items"]
    late = desk.person.http.post(f"/my/approvals/{expired['id']}/confirm", json={"decision": "approve"})
    assert_problem(late, 409, "approval_decided")
    desk.person.http.patch(f"/my/projects/{desk.project['id']}", json={"settings": {}})

    again = desk.person.http.post(f"/my/approvals/{expired['id']}/ask-again")

    assert again.status_code == 201, again.text
    assert again.json()["details"]["estimated_cost_high"] > 0
    now = desk.workflow(accepted["workflow_id"])
    assert (now["status"], now["approval_id"]) == ("awaiting_approval", again.json()["id"])
    desk.decide(again.json()["id"])
    assert desk.ended(accepted["workflow_id"])["status"] == "completed"
    assert desk.team.planned == 1
    assert sorted(desk.team.asked) == ["a", "b", "c", "d"]


def test_an_agent_that_is_deleted_before_the_start_makes_another_plan(desk: Desk) -> None:
    desk.team.needs, desk.team.agent = DIAMOND, lambda name: "agent_writer" if name == "b" else "agent_coder"
    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    writer = next(agent["id"] for agent in desk.project["agents"] if agent["name"] == "agent_writer")
    desk.person.http.delete(f"/my/projects/{desk.project['id']}/agents/{writer}")
    desk.team.agent = lambda _: "agent_coder"

    desk.decide(waits["approval_id"])
    second = eventually(lambda: _another(desk, accepted["workflow_id"], waits["approval_id"]))

    assert desk.team.asked == []
    assert {task["agent"] for task in second["tasks"]} == {"agent_coder"}
    desk.decide(second["approval_id"])
    assert desk.ended(accepted["workflow_id"])["status"] == "completed"


@pytest.mark.req("CHT-03.5")
def test_a_cancelled_workflow_stops_what_runs_and_keeps_what_is_done(desk: Desk) -> None:
    hold = Hold()
    desk.team.needs, desk.team.does = {"a": "", "b": "a", "c": "b"}, {"b": hold}
    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    desk.decide(waits["approval_id"])
    eventually(lambda: hold.arrived)

    stopped = desk.person.http.post(f"/my/workflows/{accepted['workflow_id']}/cancel")

    assert stopped.status_code == 200, stopped.text
    assert hold.abandoned.wait(10)
    workflow = desk.workflow(accepted["workflow_id"])
    assert workflow["status"] == "cancelled"
    assert desk.statuses(workflow) == {"a": "completed", "b": "cancelled", "c": "cancelled"}
    told = desk.person.events_of(desk.session, accepted["turn_id"])
    assert [(event.type, event.data.get("task_id")) for event in told[-2:]] == [
        ("task_cancelled", "b"),
        ("turn_cancelled", None),
    ]
    assert workflow["cost"] > 0  # also of what was cut off
    hold.release()
    desk.team.does = {}
    desk.person.http.post(f"/my/workflows/{workflow['id']}/retry")
    assert desk.ended(workflow["id"])["status"] == "completed"
    assert desk.team.asked == ["a", "b", "b", "c"]


def test_the_same_request_is_planned_once(desk: Desk) -> None:
    desk.team.needs = {"1": ""}
    first = desk.ended(desk.ask("Write the report about everything.")["workflow_id"])
    second = desk.ended(desk.ask("Write the report  about everything.")["workflow_id"])
    assert desk.team.planned == 1
    assert (first["planned_by"], second["planned_by"]) == ("model", "cache")
    assert desk.team.asked == ["1", "1"]

    desk.person.agent(desk.project["id"], name="agent_new")
    third = desk.ended(desk.ask("Write the report about everything.")["workflow_id"])

    assert (desk.team.planned, third["planned_by"]) == (2, "model")


@pytest.mark.req("CHT-03.2")
def test_what_costs_more_than_the_threshold_is_asked_for(desk: Desk) -> None:
    desk.team.needs = {"1": ""}
    settings = {"settings": {"plans": {"approve_over_usd": 0.0001}}}
    assert desk.person.http.patch(f"/my/projects/{desk.project['id']}", json=settings).status_code == 200

    accepted = desk.ask()

    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    assert waits["estimated_cost"] > 0.0001
    desk.decide(waits["approval_id"])
    assert desk.ended(accepted["workflow_id"])["status"] == "completed"


@pytest.mark.req("CHT-11.1")
def test_what_a_session_spent_unasked_counts_for_plans_of_two_tasks_only(desk: Desk) -> None:
    desk.settings(approve_over_usd=0.3)
    desk.team.needs = {"1": "", "2": ""}
    desk.team.does = {name: Say("Much.", tokens=(1_500, 500)) for name in "12"}
    first = desk.ended(desk.ask("Do something first of all.")["workflow_id"])
    assert first["status"] == "completed"
    assert first["estimated_cost"] < 0.3 < first["cost"] + first["estimated_cost"]

    waits = desk.until(desk.ask("Do something second of all.")["workflow_id"], "awaiting_approval")

    assert waits["estimated_cost"] < 0.3
    desk.decide(waits["approval_id"], "reject")
    desk.team.needs = {"1": ""}
    assert desk.ended(desk.ask("A single thing.")["workflow_id"])["status"] == "completed"


@pytest.mark.req("CHT-11.1", "CHT-11.2")
def test_small_talk_is_never_asked_about_however_long_it_goes_on(desk: Desk) -> None:
    desk.team.needs = {"1": ""}
    desk.team.does = {"1": Say("A monad is " + "a burrito, more or less; " * 25, tokens=(3_000, 180))}
    spent = 0.0
    for number in range(10):
        workflow = desk.ended(desk.ask(f"And what is number {number}?")["workflow_id"])
        assert (workflow["status"], workflow["approval_id"]) == ("completed", None)
        spent += workflow["cost"]

    assert spent > 0.5  # at the prices of gpt-4
    assert desk.person.get("/my/approvals")["items"] == []


@pytest.mark.req("CHT-11.1", "CHT-11.2")
def test_small_talk_is_not_asked_about_after_turns_with_tools(desk: Desk) -> None:
    desk.settings(approve_over_usd=10)
    desk.team.needs = {"1": ""}
    look = Say(tools=[Tool("memory_read", json.dumps({"query": "anything"}))], tokens=(2_000, 500))
    answers = [look, look, look, Say("Looked.", tokens=(2_000, 500))] * 3

    async def next_answer(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        return await answers.pop(0)(request, http)

    desk.team.does = {"1": next_answer}
    for number in range(3):
        assert desk.ended(desk.ask(f"Look at number {number}.")["workflow_id"])["status"] == "completed"
    assert answers == []
    desk.settings()
    desk.team.does = {}
    desk.session = desk.person.session(desk.project["id"])

    workflow = desk.until(desk.ask("Thanks!")["workflow_id"], "completed", "awaiting_approval")

    assert (workflow["status"], workflow["approval_id"]) == ("completed", None)


@pytest.mark.req("CHT-11.2")
def test_what_the_demo_brain_wrote_is_not_the_usual_output_of_a_model(desk: Desk, server: Server) -> None:
    desk.team.needs = {"1": ""}
    desk.team.does = {"1": Say("Much.", tokens=(1_000, 2_000))}  # for $0.12 at the prices of gpt-4
    desk.ended(desk.ask("Write much.")["workflow_id"])
    waits = desk.until(desk.ask("Thanks!")["workflow_id"], "awaiting_approval")
    desk.decide(waits["approval_id"], "reject")
    engine = sqlalchemy.create_engine(server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        of_project = tables.tasks.c.project_id == desk.project["id"]
        made_by_demo = {"model": "demo", "calls": 1, "output_tokens": 2_000, "cost_usd": 0.0}
        connection.execute(sqlalchemy.update(tables.tasks).where(of_project).values(usage=made_by_demo))
    engine.dispose()

    workflow = desk.until(desk.ask("Thanks a lot!")["workflow_id"], "completed", "awaiting_approval")

    assert (workflow["status"], workflow["approval_id"]) == ("completed", None)


@pytest.mark.req("CHT-11.2")
def test_a_short_question_is_priced_by_the_agents_usual_output(desk: Desk) -> None:
    desk.team.needs = {"1": ""}
    desk.team.does = {"1": Say("Short.", tokens=(1_000, 20))}
    before = desk.ended(desk.ask("What is it?")["workflow_id"])
    after = desk.ended(desk.ask("What else is it?")["workflow_id"])

    output = prices.cost("gpt-4", 0, 500)
    assert output is not None
    assert output < before["tasks"][0]["estimated_cost"] < 0.1  # 4,096 tokens alone would be $0.25
    assert after["tasks"][0]["estimated_cost"] < before["tasks"][0]["estimated_cost"] - output / 2


@pytest.mark.req("CHT-03.2")
def test_three_cheap_tasks_are_asked_about_and_two_are_not(desk: Desk) -> None:
    desk.change_agent(model="gpt-4o-mini")
    desk.team.needs = {"1": "", "2": ""}
    two = desk.ended(desk.ask("Do both.")["workflow_id"])
    assert (two["status"], two["approval_id"]) == ("completed", None)

    desk.team.needs = {"1": "", "2": "", "3": ""}
    waits = desk.until(desk.ask("Do all three.")["workflow_id"], "awaiting_approval")

    assert waits["estimated_cost"] < 0.05
    assert sorted(desk.team.asked) == ["1", "2"]


@pytest.mark.req("CHT-03.2", "CHT-11.1")
def test_a_task_just_under_ten_cents_is_not_asked_about_and_one_just_over_is(desk: Desk) -> None:
    per_word = prices.cost("gpt-4", 1, 0)
    assert per_word is not None
    words = 2_000
    desk.team.needs = {"1": ""}
    desk.team.does = {"1": Say("Done.", tokens=(10, 500))}
    free = Say(json.dumps({"tasks": desk.team.tasks()}), tokens=(1, 1))  # planning costs next to nothing

    def ask(number_of_words: int) -> dict[str, Any]:
        desk.change_agent(system_prompt="word " * number_of_words, tools=[], memory=False)
        desk.team.plans = [free]
        desk.session = desk.person.session(desk.project["id"])
        workflow_id = desk.ask(f"With {number_of_words} words.")["workflow_id"]
        return desk.until(workflow_id, "awaiting_approval", "completed")

    measured = ask(words)
    assert measured["status"] == "completed"
    words += int((0.1 - measured["estimated_cost"]) / per_word)
    under, over = ask(words - 5), ask(words + 5)
    assert (under["status"], over["status"]) == ("completed", "awaiting_approval")
    assert 0.0995 < under["estimated_cost"] <= 0.1 < over["estimated_cost"] < 0.1005


def test_a_model_without_a_known_price_is_asked_for_and_named(desk: Desk) -> None:
    desk.person.agent(desk.project["id"], name="agent_odd", model="openai/nobody-knows-this")
    desk.team.needs, desk.team.agent = {"1": ""}, lambda _: "agent_odd"

    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")

    assert waits["estimated_cost"] is None
    asked = desk.person.get(f"/my/approvals/{waits['approval_id']}")
    assert asked["details"]["unknown_prices"] == ["openai/nobody-knows-this"]
    desk.decide(waits["approval_id"])
    workflow = desk.ended(accepted["workflow_id"])
    assert (workflow["status"], workflow["tasks"][0]["cost"]) == ("completed", None)


@pytest.mark.req("UWS-07.3", "UWS-24.4")
def test_both_kinds_alternate_and_know_of_each_other(desk: Desk) -> None:
    desk.team.needs = {"1": ""}
    desk.person.say(desk.session, "My name is Ada.")

    desk.ended(desk.ask()["workflow_id"])

    told = [message["content"] for message in desk.team.told["1"].body["messages"]]
    assert "My name is Ada." in told
    desk.person.say(desk.session, "And what did they say?")
    history = [(m["role"], m["content"]) for m in desk.person.history(desk.session)]
    assert ("assistant", "Result of 1.") in history


@pytest.mark.req("UWS-24.3")
def test_the_exchange_and_the_results_are_remembered_with_their_source(desk: Desk) -> None:
    desk.team.needs = {"a": "", "b": "a"}

    workflow = desk.approved()

    coder = next(agent["id"] for agent in desk.project["agents"] if agent["name"] == "agent_coder")
    items = desk.person.get(f"/my/projects/{desk.project['id']}/agents/{coder}/context")["items"]
    assert sorted(item["type"] for item in items) == ["conversation", "task", "task"]
    assert all(item["metadata"]["workflow_id"] == workflow["id"] for item in items)
    assert any("Result of b." in item["content"] for item in items)


def test_a_tool_that_needs_approval_lets_only_its_task_wait(desk: Desk) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    desk.team.needs = {"a": "", "b": "", "c": "a"}
    desk.team.does = {"a": delete}
    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    desk.decide(waits["approval_id"])
    approvals = eventually(lambda: desk.person.get("/my/approvals", status="pending")["items"])
    assert (approvals[0]["tool"], approvals[0]["details"]["task_id"]) == ("tool_delete_file", "a")
    turn = eventually(lambda: _waits(desk, accepted["turn_id"]))
    assert turn["status"] == "waiting"
    assert desk.statuses(desk.workflow(accepted["workflow_id"])) == {"a": "waiting", "b": "completed", "c": "pending"}
    desk.team.does = {}

    desk.decide(approvals[0]["id"], "reject", feedback="Keep it.")
    workflow = desk.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert "Keep it." in json.dumps(desk.team.told["a"].body["messages"])


def test_a_call_that_is_asked_for_again_lets_its_task_go_on_without_it(desk: Desk) -> None:
    recall = Say(tools=[Tool("memory_read", json.dumps({"query": "anything"}))])
    hold = Hold()
    desk.team.needs, desk.team.does = {"a": "", "b": ""}, {"a": FirstThen(recall, 1, Say("Without.")), "b": hold}
    rules = {"memory_read": {"requires_approval": True}}
    settings = {"plans": {"approve_over_usd": 10}, "approval_seconds": 1, "tools": rules}
    desk.person.http.patch(f"/my/projects/{desk.project['id']}", json={"settings": settings})
    accepted = desk.ask()
    [asked] = eventually(lambda: desk.person.get("/my/approvals", status="expired")["items"], 30)

    again = desk.person.http.post(f"/my/approvals/{asked['id']}/ask-again")
    hold.release()

    assert again.status_code == 201, again.text
    workflow = desk.ended(accepted["workflow_id"])
    assert workflow["status"] == "completed"
    assert desk.statuses(workflow) == {"a": "completed", "b": "completed"}


def _waits(desk: Desk, turn_id: str) -> dict[str, Any]:
    turn = desk.person.turn(desk.session, turn_id)
    return turn if turn["status"] == "waiting" else {}


def test_a_plan_that_would_cost_more_than_agreed_asks_before_it_does(desk: Desk) -> None:
    desk.team.needs = {"a": "", "b": "a", "c": "b"}
    desk.team.does = {"a": Say("Dear.", tokens=(4_000_000, 10))}
    accepted = desk.ask()
    first = desk.until(accepted["workflow_id"], "awaiting_approval")

    desk.decide(first["approval_id"])
    second = eventually(lambda: _another(desk, accepted["workflow_id"], first["approval_id"]), 30)

    assert second["status"] == "awaiting_approval"
    assert desk.team.asked == ["a"]
    asked = desk.person.get(f"/my/approvals/{second['approval_id']}")
    assert asked["kind"] == "budget"
    assert asked["details"]["spent"] > asked["details"]["agreed_cost"]
    desk.decide(second["approval_id"])
    workflow = desk.ended(accepted["workflow_id"])
    assert workflow["status"] == "completed"
    assert desk.team.asked == ["a", "b", "c"]
    assert workflow["cost"] <= workflow["agreed_cost"]


def test_money_that_is_short_only_while_another_call_is_made_is_not_asked_for(desk: Desk) -> None:
    model, hold = "gpt-4o", Hold()
    fields = {"name": "agent_plain", "model": model, "tools": [], "memory": False, "max_tokens": 1_000}
    agent = desk.person.agent(desk.project["id"], **fields)
    desk.team.needs, desk.team.agent = {"a": "", "b": "", "c": "a b"}, lambda _: "agent_plain"
    desk.team.does = {"a": hold, "b": hold}
    accepted = desk.ask()
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    # Now there is enough for one call at a time, and each takes much less in the end.
    most = int(waits["estimated_cost_high"] * 0.7 / (prices.cost(model, 0, 1) or 0.0))
    url = f"/my/projects/{desk.project['id']}/agents/{agent['id']}"
    assert desk.person.http.patch(url, json={"max_tokens": most}).status_code == 200
    desk.decide(waits["approval_id"])
    eventually(lambda: hold.arrived and "waiting" in desk.statuses(desk.workflow(waits["id"])).values(), 30)

    hold.release()
    workflow = desk.until(accepted["workflow_id"], "completed", "partial", "failed", "awaiting_approval")

    assert workflow["status"] == "completed"
    assert sorted(desk.team.asked) == ["a", "b", "c"]
    assert [one["kind"] for one in desk.person.get("/my/approvals")["items"]] == ["plan"]
    assert workflow["cost"] <= workflow["agreed_cost"]


def test_money_and_a_call_can_be_asked_for_at_once_and_decided_in_any_order(desk: Desk) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    desk.team.needs = {"a": "", "b": "", "c": "b"}
    expensive = Hold("Dear.", tokens=(4_000_000, 10))
    desk.team.does = {"a": delete, "b": expensive}
    accepted = desk.ask()
    desk.decide(desk.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    eventually(lambda: desk.person.get("/my/approvals", status="pending")["items"], 30)
    expensive.release()  # not before: what `a` asks its model would have to wait for the money, too

    def both() -> dict[str, dict[str, Any]]:
        approvals = {
            approval["kind"]: approval for approval in desk.person.get("/my/approvals", status="pending")["items"]
        }
        return approvals if len(approvals) == 2 else {}

    approvals = eventually(both, 30)
    desk.team.does = {}
    desk.decide(approvals["tool"]["id"], "reject", feedback="Keep it.")
    eventually(lambda: _waits(desk, accepted["turn_id"]))
    assert [approval["id"] for approval in desk.person.get("/my/approvals", status="pending")["items"]] == [
        approvals["budget"]["id"]
    ]

    desk.decide(approvals["budget"]["id"])
    workflow = desk.ended(accepted["workflow_id"])

    assert workflow["status"] == "completed"
    assert set(desk.statuses(workflow).values()) == {"completed"}
    assert desk.person.get("/my/approvals", status="pending")["items"] == []


def test_a_plan_goes_on_in_the_next_worker_space(desk: Desk) -> None:
    hold = Hold("Result of a.")
    desk.team.needs = {"a": "", "b": "a", "c": "b"}
    desk.team.does = {"a": hold}
    accepted = desk.ask()
    desk.decide(desk.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    eventually(lambda: hold.arrived)

    with ThreadPoolExecutor(1) as threads:
        cleaned = threads.submit(desk.person.http.post, f"/my/projects/{desk.project['id']}/space/cleanup")
        hold.release()
        assert cleaned.result(60).status_code == 204

    workflow = desk.ended(accepted["workflow_id"])
    assert (workflow["status"], desk.team.asked) == ("completed", ["a", "b", "c"])


def test_what_is_being_planned_is_planned_in_the_next_worker_space(desk: Desk) -> None:
    never = Hold()
    desk.team.needs, desk.team.plans = {"a": "", "b": "a", "c": "b"}, [never]
    accepted = desk.ask()
    eventually(lambda: never.arrived)

    cleaned = desk.person.http.post(f"/my/projects/{desk.project['id']}/space/cleanup")

    assert cleaned.status_code == 204
    waits = desk.until(accepted["workflow_id"], "awaiting_approval")
    assert (waits["planned_by"], [task["id"] for task in waits["tasks"]]) == ("model", ["a", "b", "c"])
    assert never.abandoned.wait(10)
    desk.decide(waits["approval_id"])
    assert desk.ended(accepted["workflow_id"])["status"] == "completed"


def test_what_the_user_said_of_a_plan_is_known_in_the_next_worker_space(desk: Desk) -> None:
    desk.team.needs = DIAMOND
    accepted = desk.ask()
    first = desk.until(accepted["workflow_id"], "awaiting_approval")
    never = Hold()
    desk.team.plans = [never]
    desk.decide(first["approval_id"], "reject", feedback="Without b, please")
    eventually(lambda: never.arrived)
    desk.team.needs = {"a": "", "c": "a"}

    assert desk.person.http.post(f"/my/projects/{desk.project['id']}/space/cleanup").status_code == 204

    second = eventually(lambda: _another(desk, accepted["workflow_id"], first["approval_id"]), 30)
    assert second["planned_by"] == "model"
    assert "b: left out" in desk.person.get(f"/my/approvals/{second['approval_id']}")["details"]["changed"]
    assert desk.team.planned == 3


def test_no_more_money_ends_the_plan_with_what_is_done(desk: Desk) -> None:
    desk.team.needs = {"a": "", "b": "a", "c": "b"}
    desk.team.does = {"a": Say("Dear.", tokens=(4_000_000, 10))}
    accepted = desk.ask()
    first = desk.until(accepted["workflow_id"], "awaiting_approval")
    desk.decide(first["approval_id"])
    second = eventually(lambda: _another(desk, accepted["workflow_id"], first["approval_id"]), 30)

    desk.decide(second["approval_id"], "reject")
    workflow = desk.ended(accepted["workflow_id"])

    assert workflow["status"] == "partial"
    assert desk.team.asked == ["a"]
    assert desk.statuses(workflow)["b"] == "cancelled"
    assert "Dear." in workflow["answer"]


def test_money_that_nobody_decides_about_ends_the_plan_and_a_retry_asks_anew(desk: Desk) -> None:
    desk.team.needs = {"a": "", "b": "a", "c": "b"}
    desk.team.does = {"a": Say("Dear.", tokens=(4_000_000, 10))}
    accepted = desk.ask()
    first = desk.until(accepted["workflow_id"], "awaiting_approval")
    settings = {"settings": {"approval_seconds": 1}}
    desk.person.http.patch(f"/my/projects/{desk.project['id']}", json=settings)
    desk.decide(first["approval_id"])

    workflow = desk.ended(accepted["workflow_id"])

    assert (workflow["status"], desk.team.asked) == ("partial", ["a"])
    [second] = desk.person.get("/my/approvals", status="expired")["items"]
    again = desk.person.http.post(f"/my/approvals/{second['id']}/ask-again")
    assert "retry" in assert_problem(again, 409, "approval_decided")["detail"]
    desk.person.http.patch(f"/my/projects/{desk.project['id']}", json={"settings": {}})
    desk.person.http.post(f"/my/workflows/{workflow['id']}/retry")
    third = eventually(lambda: _another(desk, accepted["workflow_id"], second["id"]), 30)
    desk.decide(third["approval_id"])
    assert desk.ended(workflow["id"])["status"] == "completed"
    assert desk.team.asked == ["a", "b", "c"]


def test_a_project_spends_no_more_in_a_month_than_it_may(desk: Desk) -> None:
    settings = {"settings": {"monthly_budget_usd": 0.0001}}
    assert desk.person.http.patch(f"/my/projects/{desk.project['id']}", json=settings).status_code == 200
    desk.team.needs = {"1": ""}

    workflow = desk.ended(desk.ask()["workflow_id"])

    assert workflow["status"] == "failed"
    assert workflow["error_code"] == "budget_exceeded"
    assert desk.team.asked == []


def test_a_direct_call_is_paid_out_of_the_month_too(desk: Desk) -> None:
    url = f"/my/projects/{desk.project['id']}"
    desk.person.http.patch(url, json={"settings": {"monthly_budget_usd": 0.5}})
    spent = desk.person.say(desk.session, "Hello")["usage"]["cost_usd"]
    assert 0 < spent < 0.1

    desk.person.http.patch(url, json={"settings": {"monthly_budget_usd": spent}})
    refused = desk.person.post(desk.session, "Hello again")

    problem = assert_problem(refused, 409, "budget_exceeded")
    assert "Monthly budget of the project" in problem["detail"]
    desk.person.http.patch(url, json={"settings": {}})
    assert desk.person.say(desk.session, "And again")["content"] == "You said: And again"


@dataclass
class FirstThen:
    """Do one thing so often, then another."""

    first: Behaviour
    times: int
    then: Behaviour

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        self.times -= 1
        return await (self.first if self.times >= 0 else self.then)(request, http)


@pytest.mark.any_database
def test_a_task_whose_model_is_overrun_is_tried_again(desk: Desk) -> None:
    desk.team.needs = {"1": ""}
    desk.team.does = {"1": FirstThen(Fail(429), 3, Say("At last."))}  # as often as the model itself is tried again

    workflow = desk.ended(desk.ask()["workflow_id"])

    assert (workflow["status"], workflow["answer"]) == ("completed", "At last.")
    assert workflow["tasks"][0]["attempts"] == 2


@pytest.mark.any_database
def test_a_model_that_is_overrun_for_a_moment_fails_none_of_many_tasks(desk: Desk) -> None:
    overrun = FirstThen(Fail(429), 18, Say("At last."))  # six tasks give up for now, one after another
    desk.team.needs = {f"t{number}": "" for number in range(8)}
    desk.team.does = dict.fromkeys(desk.team.needs, overrun)

    workflow = desk.approved()

    assert workflow["status"] == "completed", workflow["tasks"]


@pytest.mark.req("AGT-04.4")
def test_the_planner_is_told_what_agents_can_and_without_a_plan_who_can_it_does_it(desk: Desk) -> None:
    desk.person.agent(desk.project["id"], name="agent_polyglot", role="linguist", capabilities=["translate_latin"])
    desk.team.needs = {"1": ""}
    requests: list[ModelRequest] = []

    @dataclass
    class Listening:
        async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
            requests.append(request)
            return await Say("No plan.")(request, http)

    desk.team.plans = [Listening(), Listening()]

    workflow = desk.ended(desk.ask("Somebody with translate_latin should do 1.")["workflow_id"])

    assert '"capabilities": ["translate_latin"]' in requests[0].body["messages"][0]["content"]
    assert [task["agent"] for task in workflow["tasks"]] == ["agent_polyglot"]


def test_a_model_that_plans_nonsense_leaves_one_task_for_the_agent_that_fits(desk: Desk) -> None:
    desk.team.needs = {"1": ""}
    desk.team.plans = [Say("I would rather not."), Say('{"tasks": []}')]

    workflow = desk.ended(desk.ask("Let the writer do 1.")["workflow_id"])

    assert (workflow["status"], workflow["planned_by"]) == ("completed", "fallback")
    [task] = workflow["tasks"]
    assert task["agent"] == "agent_writer"
    assert desk.team.planned == 2


def test_without_a_model_to_merge_them_the_results_are_the_answer(desk: Desk) -> None:
    desk.team.needs, desk.team.does = {"a": "", "b": ""}, {"merge": Fail(400)}

    workflow = desk.approved()

    assert workflow["status"] == "completed"
    assert "Result of a." in workflow["answer"]
    assert "Result of b." in workflow["answer"]


def test_a_client_that_comes_back_hears_one_story_without_gaps(desk: Desk) -> None:
    hold = Hold()
    desk.team.needs, desk.team.does = DIAMOND, {"b": hold}
    accepted = desk.ask()
    desk.decide(desk.until(accepted["workflow_id"], "awaiting_approval")["approval_id"])
    with desk.person.follow(desk.session, 0) as following:
        first = _until(following, "task_started", task_id="b")
    hold.release()
    with desk.person.follow(desk.session, first[-1].number) as following:
        rest = _until(following, "turn_completed")

    with desk.person.follow(desk.session, 0) as following:
        whole = _until(following, "turn_completed")
    assert [event.number for event in whole] == list(range(1, len(whole) + 1))
    assert [(event.number, event.data) for event in [*first, *rest]] == [(event.number, event.data) for event in whole]
    types = [event.type for event in whole]
    order = ["message_created", "task_plan_created", "plan_request", "task_started", "task_completed", "turn_completed"]
    assert [types.index(kind) for kind in order] == sorted(types.index(kind) for kind in order)
    assert types.count("turn_completed") == 1


def _until(following: Stream, kind: str, **data: str) -> list[Event]:
    """Return the numbered events up to one like this."""
    heard = []
    for event in following:
        if event.number is not None:
            heard.append(event)
            if event.type == kind and data.items() <= event.data.items():
                break
    return heard
