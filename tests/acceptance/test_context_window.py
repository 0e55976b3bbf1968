"""Requests fit the context window of the model: in direct chat, with tools, after an approval, and in plans."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.actors.file_server import file_content, serving
from tests.actors.plan_user import PlanUser
from tests.actors.team import Team
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import ByMark, ModelRequest, ModelServer, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server
from tests.windows import Windowed, tokens_of

# What is tested has nothing to do with the database.
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")

GUIDANCE = "Tests are called after what they prove, and docs are written first. "
MAX_CONTEXT_TOKENS = 8_000


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def system(request: ModelRequest) -> str:
    return "\n".join(one["content"] for one in request.body["messages"] if one["role"] == "system")


def call(name: str, number: int, **arguments: Any) -> Say:
    return Say(tools=[Tool(name, json.dumps(arguments), f"call_{number}")])


@pytest.mark.req("AGT-03.2")
def test_a_full_conversation_with_tools_and_guidance_fits_gpt_4(
    person: Person, script: ByMark, mark: str, tmp_path: Path
) -> None:
    project = person.project()["id"]
    session = person.session(project)
    model = Windowed(Say("word " * 300))
    script[mark] = model
    work = tmp_path / "work"
    work.mkdir()
    (work / "big.txt").write_text("a line of a large file, with numbers 1234567890\n" * 2_000)
    (work / "AGENTS.md").write_text(GUIDANCE * 400)
    with connected_folder(tmp_path, person, project, "--yes"):
        for number in range(6):
            person.say(session, f"{mark} {number}: " + "talk " * 500)
        answers = [call("tool_read_file", number, path="big.txt") for number in range(3)]
        answers.append(call("tool_write_file", 3, path="new.txt", content="written words " * 1_500))
        model.taken.clear()
        script[mark] = [*(Windowed(answer, model.refused, model.taken) for answer in answers), model]

        answer = person.say(session, f"{mark} Now read big.txt, and write it anew.")

    assert answer["content"].startswith("word")
    assert model.refused == []
    assert (work / "new.txt").read_text().startswith("written words")
    assert len(model.taken) == 5
    for request in model.taken:
        assert tokens_of(request) <= MAX_CONTEXT_TOKENS
        assert request.body["max_tokens"] >= 256
        assert request.text == f"{mark} Now read big.txt, and write it anew."
        assert "tool_read_file" in json.dumps(request.body["tools"])
        assert GUIDANCE in system(request)
    results = [message["content"] for message in model.taken[-1].body["messages"] if message["role"] == "tool"]
    assert "a line of a large file" in results[2]


@pytest.mark.req("AGT-03.2")
def test_newest_messages_stay_in_window_with_tools(person: Person, script: ByMark, mark: str) -> None:
    model = Windowed(Say("word " * 200))
    script[mark] = model
    project = person.project()
    coder = next(agent["id"] for agent in project["agents"] if agent["name"] == "agent_coder")
    person.http.patch(f"/my/projects/{project['id']}/agents/{coder}", json={"memory": False})
    session = person.session(project["id"])
    for number in range(5):
        person.say(session, f"{mark} {number}: " + "talk " * 600)

    assert model.refused == []
    last = model.taken[-1]
    texts = [message["content"] for message in last.body["messages"] if message["role"] in ("user", "assistant")]
    assert texts[-1].startswith(f"{mark} 4")
    assert texts[-2].startswith("word")
    assert not any(text.startswith(f"{mark} 0") for text in texts)
    assert last.body["max_tokens"] == 4_096


@pytest.mark.req("AGT-03.2")
def test_resumed_run_fits_window(person: Person, script: ByMark, mark: str) -> None:
    project = person.project()["id"]
    session = person.session(project)
    model = Windowed(Say("word " * 300))
    script[mark] = model
    for number in range(4):
        person.say(session, f"{mark} {number}: " + "talk " * 700)
    write = call("tool_write_file", 1, path=".bashrc", content="written words " * 1_700)
    script[mark] = [Windowed(write, model.refused, model.taken), model]
    with serving(person, project, file_content, mode="yes"):
        accepted = person.post(session, f"{mark} Write it.").json()
        assert accepted["status"] == "waiting"

        person.http.post(f"/my/approvals/{accepted['approval_id']}/confirm", json={"decision": "approve"})

        ended = eventually(lambda: (turn := person.turn(session, accepted["turn_id"]))["finished_at"] and turn)
    assert (ended["status"], model.refused) == ("completed", [])


@pytest.mark.req("AGT-03.2")
def test_task_results_and_merge_fit_window(user: PlanUser, script: ByMark) -> None:
    user.team.needs = {"1": "", "2": "", "3": "1 2"}
    user.team.does = {name: Say(f"Result of {name}. " + "found " * 3_500) for name in "123"}
    model = Windowed(user.team)
    script[user.team.mark] = model

    ended = user.approved()

    assert (ended["status"], model.refused) == ("completed", [])
    assert "Result of 1." in user.team.requests["3"].text
    assert "Result of 2." in user.team.requests["3"].text


@pytest.fixture
def user(person: Person, script: ByMark, mark: str) -> PlanUser:
    script[mark] = team = Team(mark)
    project = person.project()
    return PlanUser(person, project, person.session(project["id"]), team)


@pytest.mark.req("AGT-03.2")
def test_a_message_that_is_too_long_for_the_model_is_refused_with_422(
    person: Person, model: ModelServer, mark: str
) -> None:
    project = person.project()
    coder = next(agent["id"] for agent in project["agents"] if agent["name"] == "agent_coder")
    person.http.patch(f"/my/projects/{project['id']}/agents/{coder}", json={"model": "gpt-4o-mini"})  # nobody asks
    session = person.session(project["id"])

    answer = person.post(session, f"{mark} " + "word " * 20_000)

    assert "Shorten the message" in assert_problem(answer, 422, "context_too_large")["detail"]
    assert model.asked_about(mark) == []
    planned = person.post(session, f"{mark} " + "word " * 20_000, None, {"Prefer": "wait=30"})
    assert_problem(planned, 422, "context_too_large")
    assert {asked.schema_name for asked in model.asked_about(mark)} == {"plan"}
