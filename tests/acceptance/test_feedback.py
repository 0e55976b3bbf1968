"""Feedback of users on answers and plans, in the memory of the agents."""

import json
from typing import Any

import httpx
import pytest

from tests.actors.agent_memory import AgentMemory
from tests.actors.plan_user import PlanUser
from tests.actors.team import DIAMOND, Team
from tests.model_server import ByMark, ModelServer, Say
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def rate(person: Person, session: str, message: str, **body: Any) -> httpx.Response:
    return person.http.post(f"/my/chat/{session}/messages/{message}/feedback", json=body)


def feedback_of(person: Person, project: dict[str, Any], agent: str = "agent_coder") -> list[dict[str, Any]]:
    """Return the feedback that an agent remembers."""
    agent_id = next(item["id"] for item in project["agents"] if item["name"] == agent)
    items: list[dict[str, Any]] = AgentMemory(person, project["id"], agent_id).listed(type="feedback")["items"]
    return items


@pytest.mark.req("AGT-03.4")
def test_rating_of_an_answer_is_remembered_and_quoted_in_later_prompts(
    person: Person, model: ModelServer, mark: str
) -> None:
    project = person.project()
    session = person.session(project["id"])
    answer = person.say(session, f"{mark} How should a zeppelin be parked?")

    rated = rate(person, session, answer["message_id"], rating="bad", comment="Zeppelins need a mast.")

    assert rated.status_code == 200, rated.text
    assert rated.json()["feedback"] == {"rating": "bad", "comment": "Zeppelins need a mast."}
    [memory] = feedback_of(person, project)
    assert (memory["success"], memory["task_id"]) == (False, answer["turn_id"])
    assert memory["metadata"]["message_id"] == answer["message_id"]
    for part in ("rated an answer as bad", "Zeppelins need a mast.", "How should a zeppelin be parked?"):
        assert part in memory["content"]
    found = AgentMemory(person, project["id"], answer["agent_id"]).search("zeppelin mast", type="feedback")
    assert [item["id"] for item in found] == [memory["id"]]

    later = person.say(person.session(project["id"]), f"{mark} again: where does a zeppelin stay?")

    assert "feedback" in {item["type"] for item in later["context"]}
    system = "\n".join(message["content"] for message in model.asked_about(f"{mark} again")[-1].body["messages"][:-1])
    quoted = [json.loads(line) for line in system.splitlines() if line.startswith('{"source": "feedback of')]
    assert [line["text"] for line in quoted] == [memory["content"]]


@pytest.mark.req("AGT-03.4")
def test_new_rating_replaces_the_one_before(person: Person) -> None:
    project = person.project()
    session = person.session(project["id"])
    answer = person.say(session, "Hello there")
    memory = AgentMemory(person, project["id"], answer["agent_id"])
    rate(person, session, answer["message_id"], rating="bad", comment="Too curt for a quokka.")
    [before] = feedback_of(person, project)
    assert memory.search("quokka", type="feedback")  # it is indexed, or at least found

    assert rate(person, session, answer["message_id"], rating="good").status_code == 200

    [after] = feedback_of(person, project)
    assert after["success"]
    assert "quokka" not in after["content"]
    assert after["id"] == before["id"]
    found = memory.search("quokka", type="feedback")
    assert all("quokka" not in item["content"] for item in found)
    [question, shown] = person.history(session)
    assert question["feedback"] is None
    assert shown["feedback"] == {"rating": "good", "comment": ""}


@pytest.mark.req("AGT-03.4")
def test_only_own_answers_can_be_rated(person: Person, other: Person) -> None:
    session = person.session()
    answer = person.say(session, "Hello there")
    question = person.history(session)[0]["id"]
    elsewhere = person.session()

    assert_problem(rate(person, session, question, rating="good"), 409, "not_an_answer")
    assert_problem(rate(other, session, answer["message_id"], rating="good"), 404, "session_not_found")
    assert_problem(rate(person, elsewhere, answer["message_id"], rating="good"), 404, "message_not_found")
    assert_problem(rate(person, session, "no-such-message", rating="good"), 404, "message_not_found")
    for wrong in ({"rating": "fine"}, {}, {"rating": "bad", "comment": "x" * 2_001}, {"rating": "bad", "stars": 1}):
        assert rate(person, session, answer["message_id"], **wrong).status_code == 422
    assert person.history(session)[1]["feedback"] is None


@pytest.mark.req("AGT-03.4")
def test_agent_without_memory_remembers_no_rating(person: Person) -> None:
    project = person.project()
    agent = person.agent(project["id"], name="agent_forgetful", memory=False)
    session = person.session(project["id"])
    answer = person.say(session, "Hello there", "agent_forgetful")

    assert rate(person, session, answer["message_id"], rating="good").status_code == 200

    assert AgentMemory(person, project["id"], agent["id"]).listed()["total"] == 0
    assert person.history(session)[1]["feedback"]["rating"] == "good"
    fork = person.http.post(f"/my/chat/sessions/{session}/fork", json={"message_id": answer["message_id"]}).json()
    assert person.history(fork["session_id"])[1]["feedback"] is None


@pytest.fixture
def user(person: Person, script: ByMark, mark: str) -> PlanUser:
    agents = {"a": "agent_coder", "b": "agent_writer", "c": "agent_writer", "d": "agent_coder"}
    script[mark] = team = Team(mark, needs=DIAMOND, agent=agents.__getitem__)
    project = person.project()
    return PlanUser(person, project, person.session(project["id"]), team)


@pytest.mark.req("AGT-03.4")
def test_feedback_on_a_plan_is_remembered_by_its_agents(user: PlanUser) -> None:
    accepted = user.ask("Please build a lighthouse.")
    waits = user.until(accepted["workflow_id"], "awaiting_approval")
    user.decide(waits["approval_id"], "reject", feedback="No writer is needed for a lighthouse.")

    for agent in ("agent_coder", "agent_writer"):
        [memory] = feedback_of(user.person, user.project, agent)
        assert not memory["success"]
        assert memory["metadata"]["approval_id"] == waits["approval_id"]
        for part in ("rejected a plan", "No writer is needed", "build a lighthouse", "agent_writer"):
            assert part in memory["content"]
    assert feedback_of(user.person, user.project, "agent_analyzer") == []


@pytest.mark.req("AGT-03.4")
def test_changes_of_a_plan_are_remembered_also_by_agents_that_were_taken_out(user: PlanUser) -> None:
    changes = {"tasks": [{"id": "b", "agent": "agent_analyzer"}, {"id": "c", "drop": True}]}
    ended = user.approved("Please build a lighthouse.", changes=changes, instruction="Use bricks.")
    assert ended["status"] == "completed"

    for agent in ("agent_coder", "agent_writer", "agent_analyzer"):
        [memory] = feedback_of(user.person, user.project, agent)
        assert memory["success"]
        for part in ("approved a plan", "Instruction: Use bricks.", "c: left out", "b: other agent", "agent_analyzer"):
            assert part in memory["content"]


@pytest.mark.req("AGT-03.4")
def test_rating_of_a_merged_answer_is_remembered_by_all_who_worked_on_it(user: PlanUser) -> None:
    user.team.does["merge"] = Say("The whole lighthouse.")
    user.approved("Please build a lighthouse.")
    for agent in ("agent_coder", "agent_writer"):
        assert feedback_of(user.person, user.project, agent) == []  # an approval alone is no feedback
    answer = user.person.history(user.session)[-1]

    rated = rate(user.person, user.session, answer["id"], rating="good", comment="Sturdy.")

    assert rated.status_code == 200, rated.text
    for agent in ("agent_coder", "agent_writer"):
        [memory] = feedback_of(user.person, user.project, agent)
        assert memory["success"]
        assert "Sturdy." in memory["content"]
        assert "The whole lighthouse." in memory["content"]
    assert feedback_of(user.person, user.project, "agent_analyzer") == []
