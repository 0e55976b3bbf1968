"""A task that makes progress for ever is ended all the same."""

import pytest

from tests.acceptance.test_plans import Desk, FirstThen, Team
from tests.conftest import StartServer
from tests.model_server import Hang, ModelServer, Say
from tests.people import Person, assert_problem


@pytest.mark.req("CHT-08.3")
def test_a_task_that_takes_too_long_in_all_is_ended_and_answered_as_a_time_out(start_server: StartServer) -> None:
    endless = Say(pieces=["more "] * 2_000, pause=0.02)
    with ModelServer(endless).running_in_thread() as model:
        limits = {"ARTEL_TASK_TIMEOUT_SECONDS": "1", "ARTEL_PROGRESS_TIMEOUT_SECONDS": "30"}
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
def test_a_task_of_a_plan_that_takes_too_long_is_ended_and_the_rest_is_the_answer(start_server: StartServer) -> None:
    endless = Say(pieces=["more "] * 2_000, pause=0.02)
    with ModelServer(team := Team("mark", {"a": "", "b": "", "c": "a"})).running_in_thread() as model:
        team.does = {"a": endless}
        limits = {"ARTEL_TASK_TIMEOUT_SECONDS": "1", "ARTEL_PROGRESS_TIMEOUT_SECONDS": "30"}
        person = Person.register(start_server(OPENAI_API_KEY="x", OPENAI_BASE_URL=model.url, **limits).url)
        project = person.project()
        desk = Desk(person, project, person.session(project["id"]), team)

        workflow = desk.approved()

        assert workflow["status"] == "partial"
        assert desk.statuses(workflow) == {"a": "timeout", "b": "completed", "c": "aborted"}
        assert "took too long" in workflow["answer"]


def test_a_task_of_a_plan_whose_model_falls_silent_is_tried_again(start_server: StartServer) -> None:
    with ModelServer(team := Team("mark", {"1": ""})).running_in_thread() as model:
        team.does = {"1": FirstThen(Hang(), 1, Say("At last."))}
        limits = {"ARTEL_TASK_TIMEOUT_SECONDS": "120", "ARTEL_PROGRESS_TIMEOUT_SECONDS": "1"}
        person = Person.register(start_server(OPENAI_API_KEY="x", OPENAI_BASE_URL=model.url, **limits).url)
        project = person.project()
        settings = {"settings": {"plans": {"approve_over_usd": 10}}}
        person.http.patch(f"/my/projects/{project['id']}", json=settings)
        desk = Desk(person, project, person.session(project["id"]), team)

        workflow = desk.ended(desk.ask()["workflow_id"])

        assert (workflow["status"], workflow["answer"]) == ("completed", "At last.")
        assert team.asked == ["1", "1"]
