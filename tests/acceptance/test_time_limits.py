"""Time limits of tasks that make progress."""

import json
import time

import pytest

from tests.actors.plan_user import PlanUser
from tests.actors.team import FirstThen, Team
from tests.conftest import StartServer
from tests.deadlines import eventually
from tests.model_server import Hang, Hold, ModelServer, Say, Tool
from tests.people import Person, assert_problem

pytestmark = pytest.mark.any_database

# Also the healthy calls of these tests have to end within it, on a busy machine too; only what hangs reaches it.
LIMIT_SECONDS = 6.0
ENDLESS = Say(pieces=["more "] * 600, pause=0.1)


@pytest.mark.req("CHT-08.3")
def test_task_over_total_time_limit_times_out(start_server: StartServer) -> None:
    with ModelServer(ENDLESS).running_in_thread() as model:
        limits = {"ARTEL_TASK_TIMEOUT_SECONDS": f"{LIMIT_SECONDS:g}", "ARTEL_PROGRESS_TIMEOUT_SECONDS": "30"}
        person = Person.register(start_server(OPENAI_API_KEY="x", OPENAI_BASE_URL=model.url, **limits).url)
        project = person.project()
        person.agent(project["id"], name="agent_talker", model="gpt-4o-mini")
        session = person.session(project["id"])

        answer = person.post(session, "Talk.", target_agent="talker")

        assert_problem(answer, 504, "timeout")
        note = person.history(session)[-1]
        assert (note["role"], note["status"]) == ("system", "failed")
        turn = person.turn(session, note["turn_id"])
        assert (turn["status"], turn["error_code"]) == ("timeout", "timeout")
        assert turn["usage"]["calls"] == 1


@pytest.mark.req("CHT-08.3")
def test_plan_task_over_time_limit_ends_and_other_results_are_the_answer(start_server: StartServer) -> None:
    with ModelServer(team := Team("mark", {"a": "", "b": "", "c": "a"})).running_in_thread() as model:
        team.does = {"a": ENDLESS}
        limits = {"ARTEL_TASK_TIMEOUT_SECONDS": f"{LIMIT_SECONDS:g}", "ARTEL_PROGRESS_TIMEOUT_SECONDS": "30"}
        person = Person.register(start_server(OPENAI_API_KEY="x", OPENAI_BASE_URL=model.url, **limits).url)
        project = person.project()
        user = PlanUser(person, project, person.session(project["id"]), team)

        workflow = user.approved()

        assert workflow["status"] == "partial"
        assert user.statuses(workflow) == {"a": "timeout", "b": "completed", "c": "aborted"}
        assert "took too long" in workflow["answer"]


def test_plan_task_with_silent_model_is_retried(start_server: StartServer) -> None:
    with ModelServer(team := Team("mark", {"1": ""})).running_in_thread() as model:
        team.does = {"1": FirstThen(Hang(), 1, Say("At last."))}
        limits = {"ARTEL_TASK_TIMEOUT_SECONDS": "120", "ARTEL_PROGRESS_TIMEOUT_SECONDS": f"{LIMIT_SECONDS:g}"}
        person = Person.register(start_server(OPENAI_API_KEY="x", OPENAI_BASE_URL=model.url, **limits).url)
        project = person.project()
        settings = {"settings": {"plans": {"approve_over_usd": 10}}}
        person.http.patch(f"/my/projects/{project['id']}", json=settings)
        user = PlanUser(person, project, person.session(project["id"]), team)

        workflow = user.ended(user.ask()["workflow_id"])

        assert (workflow["status"], workflow["answer"]) == ("completed", "At last.")
        assert team.called == ["1", "1"]


def test_waiting_for_approval_does_not_count_as_task_time(start_server: StartServer) -> None:
    recall = Say(tools=[Tool("memory_read", json.dumps({"query": "anything"}))])
    first, second = Hold(), Hold()
    with ModelServer(team := Team("mark", {"a": "", "b": "", "c": "b"})).running_in_thread() as model:
        team.does = {"a": FirstThen(recall, 1, Say("As allowed.")), "b": first, "c": second}
        team.agent = lambda task: "agent_writer" if task in "az" else "agent_coder"
        limits = {"ARTEL_TASK_TIMEOUT_SECONDS": f"{LIMIT_SECONDS:g}", "ARTEL_PROGRESS_TIMEOUT_SECONDS": "30"}
        person = Person.register(start_server(OPENAI_API_KEY="x", OPENAI_BASE_URL=model.url, **limits).url)
        project = person.project()
        rules = {
            "plans": {"approve_from_tasks": 21, "approve_over_usd": 10},
            "tools": {"memory_read": {"requires_approval": True}},
        }
        person.http.patch(f"/my/projects/{project['id']}", json={"settings": rules})
        user = PlanUser(person, project, person.session(project["id"]), team)
        accepted = user.ask(Prefer="respond-async")
        [approval] = eventually(lambda: person.get("/my/approvals", status="pending")["items"], 30)
        since = time.monotonic()  # it has begun by now, so its time would be over then
        eventually(lambda: time.monotonic() > since + LIMIT_SECONDS / 2, LIMIT_SECONDS)
        first.release()  # others have their own time: one after the other they keep the plan at work
        eventually(lambda: time.monotonic() > since + LIMIT_SECONDS, LIMIT_SECONDS)

        user.decide(approval["id"])

        statuses = eventually(lambda: _ended(user, accepted["workflow_id"], "a"), 30)
        second.release()
        assert statuses["a"] == "completed"
        user.ended(accepted["workflow_id"])
        team.needs = {"z": ""}
        again = user.ended(user.ask("And once more.")["workflow_id"])
        assert again["estimated_duration"] < LIMIT_SECONDS  # nor is it what the agent usually takes


def _ended(user: PlanUser, workflow_id: str, task: str) -> dict[str, str]:
    statuses = user.statuses(user.workflow(workflow_id))
    return statuses if statuses[task] not in ("pending", "running", "waiting") else {}
