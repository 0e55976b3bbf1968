"""History of sessions: storage, use in prompts, memory, and forks."""

import json
import socket
from datetime import UTC, datetime, timedelta

import pytest

from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold, ModelRequest, ModelServer, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def conversation(request: ModelRequest) -> list[str]:
    """Return the user's and assistant's messages in a model request."""
    return [message["content"] for message in request.body["messages"] if message["role"] in ("user", "assistant")]


@pytest.mark.req("CHT-05.1", "CHT-05.2", "CHT-05.3", "CHT-04.3")
def test_message_and_answer_are_stored_with_author_and_time(person: Person) -> None:
    project = person.project()
    session = person.session(project["id"])
    before = datetime.now(UTC) - timedelta(seconds=1)

    answers = [person.say(session, "First", "coder"), person.say(session, "Second", "writer")]

    history = person.history(session)
    assert [(message["role"], message["content"]) for message in history] == [
        ("user", "First"),
        ("assistant", "You said: First"),
        ("user", "Second"),
        ("assistant", "You said: Second"),
    ]
    by_name = {agent["name"]: agent["id"] for agent in project["agents"]}
    assert [(message["agent"], message["agent_id"]) for message in history] == [
        (None, None),
        ("agent_coder", by_name["agent_coder"]),
        (None, None),
        ("agent_writer", by_name["agent_writer"]),
    ]
    timestamps = [datetime.fromisoformat(message["timestamp"]) for message in history]
    assert timestamps == sorted(timestamps)
    assert before < timestamps[0] <= timestamps[-1] <= datetime.now(UTC) + timedelta(seconds=1)
    numbers = [message["number"] for message in history]
    assert numbers == sorted(numbers)
    assert all(message["status"] == "ok" and message["tokens"] > 0 for message in history)
    assert [history[1]["turn_id"], history[3]["turn_id"]] == [answer["turn_id"] for answer in answers]
    shown = person.get(f"/my/chat/sessions/{session}")
    assert shown["messages"] == history
    assert (shown["session_id"], shown["project_id"]) == (session, project["id"])


@pytest.mark.req("CHT-05.4", "CHT-05.5", "CHT-04.3")
def test_history_is_read_by_page_by_role_or_from_the_end(person: Person) -> None:
    session = person.session()
    for number in range(11):
        person.say(session, f"Message {number}")
    url = f"/my/chat/{session}/messages/"
    everything = person.get(url, limit=100)

    assert (everything["total"], len(everything["items"])) == (22, 22)
    pages = [person.get(url, limit=5, offset=offset) for offset in range(0, 25, 5)]
    assert [message for page in pages for message in page["items"]] == everything["items"]
    assert [(page["total"], page["limit"]) for page in pages] == [(22, 5)] * 5
    assistants = person.get(url, role="assistant", limit=4, offset=2)
    contents = [message["content"] for message in assistants["items"]]
    assert assistants["total"] == 11
    assert contents == [f"You said: Message {number}" for number in range(2, 6)]
    assert person.get(url, role="system")["items"] == []
    newest = person.get(url, last=3)
    assert newest["items"] == everything["items"][-3:]
    assert (newest["total"], newest["offset"]) == (22, 19)
    assert (
        person.get(url, last=2, role="user")["items"]
        == [message for message in everything["items"] if message["role"] == "user"][-2:]
    )
    assert person.get(f"/my/chat/sessions/{session}")["messages"] == everything["items"][-20:]


@pytest.mark.parametrize("query", [{"role": "robot"}, {"last": 0}, {"last": 101}, {"limit": 101}, {"offset": -1}])
def test_invalid_page_is_refused(person: Person, query: dict[str, str | int]) -> None:
    answer = person.http.get(f"/my/chat/{person.session()}/messages", params=query)

    assert_problem(answer, 422, "invalid_request")


@pytest.mark.req("CHT-07.1", "CHT-07.2", "AGT-03.1")
def test_prompt_contains_the_last_ten_messages(person: Person, model: ModelServer, mark: str) -> None:
    session = person.session()
    for number in range(8):
        person.say(session, f"{mark} number {number}.")

    request = model.asked_about(f"{mark} number 7.")[0]

    pairs = [[f"{mark} number {number}.", f"You said: {mark} number {number}."] for number in range(8)]
    texts = [text for pair in pairs for text in pair][:-1]
    assert conversation(request) == texts[-10:]
    assert conversation(model.asked_about(f"{mark} number 0.")[0]) == [
        f"{mark} number 0."
    ]  # the first prompt has no history
    assert mark not in json.dumps([each.body["messages"][0] for each in model.asked_about(mark)])


@pytest.mark.req("CHT-07.2")
def test_prompt_contains_at_most_4000_tokens_of_history(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    script[mark] = Say("short")
    session = person.session()
    long = "word " * 1500
    for number in range(4):
        person.say(session, f"{mark} {number}. {long}", "writer")
    tokens = {message["content"]: message["tokens"] for message in person.history(session)}

    person.say(session, f"{mark} last.", "writer")

    texts = conversation(model.asked_about(f"{mark} last.")[0])
    assert texts[-1] == f"{mark} last."
    assert [text[: len(mark) + 2] for text in texts if len(text) > 100] == [f"{mark} 2", f"{mark} 3"]
    assert sum(tokens.get(text, 10) for text in texts) <= 4000
    assert sum(tokens.get(text, 10) for text in texts) > 3000


@pytest.mark.req("UWS-20.1", "UWS-22.2")
def test_previous_turn_is_remembered_while_the_indexer_waits(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    project = person.project()["id"]
    script[f"busy{mark}"] = hold = Hold()
    busy = person.session(project)
    person.submit(busy, f"busy{mark}", "writer")  # the indexer waits while a turn runs
    eventually(lambda: hold.arrived)
    try:
        for thing, name in (("cat", "Minka"), ("boat", "Aurora"), ("server", "Turing")):
            person.say(person.session(project), f"{mark} Mind that the {thing} is called {name}.")
            question = f"{mark} How is the {thing} called?"
            person.say(person.session(project), question)
            [request] = model.asked_about(question)
            assert name in json.dumps(request.body["messages"][:-1])
    finally:
        hold.release()


@pytest.mark.req("UWS-20.1", "UWS-22.2")
def test_previous_turn_is_remembered_while_searches_time_out(
    start_server: StartServer, model: ModelServer, mark: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        index = f"http://127.0.0.1:{silent.getsockname()[1]}"
        person = Person.register(start_server(**with_model(model), ARTEL_QDRANT_URL=index).url)
        project = person.project()["id"]
        person.say(person.session(project), f"{mark} Mind that the cat is called Minka.")
        question = f"{mark} How is the cat called?"

        person.say(person.session(project), question)

        [request] = model.asked_about(question)
        assert "Minka" in json.dumps(request.body["messages"][:-1])
        health = person.get(f"/my/projects/{project}/space/health")
        assert health["status"] == "degraded"


@pytest.mark.req("CHT-07.3", "CHT-07.4", "UWS-22.2", "UWS-24.3")
def test_memory_of_one_session_is_found_in_another(person: Person, model: ModelServer, mark: str) -> None:
    project = person.project()
    coder = next(agent["id"] for agent in project["agents"] if agent["name"] == "agent_coder")
    url = f"/my/projects/{project['id']}/agents/{coder}/context"
    first = person.say(person.session(project["id"]), f"The deployment key of the heron is {mark}heron.")

    [memory] = eventually(lambda: person.get(url)["items"])
    assert f"The deployment key of the heron is {mark}heron." in memory["content"]
    assert f"You said: The deployment key of the heron is {mark}heron." in memory["content"]
    assert (memory["type"], memory["success"], memory["task_id"]) == ("conversation", True, first["turn_id"])
    eventually(lambda: person.get(f"{url}/stats")["waiting"] == 0)

    session = person.session(project["id"])
    answer = person.say(session, f"{mark} What is the deployment key of the heron?")

    assert [item["memory_id"] for item in answer["context"]] == [memory["id"]]
    assert answer["context"][0]["score"] > 0
    assert person.get(f"/my/chat/{session}/turns/{answer['turn_id']}/context")["items"] == answer["context"]
    prompt = model.asked_about(f"{mark} What")[0].body["messages"]
    roles = [message["role"] for message in prompt]
    assert roles[0] == "system"
    assert roles[-1] == "user"
    quoted = [
        message["content"] for message in prompt if message["role"] == "system" and f"{mark}heron" in message["content"]
    ]
    assert len(quoted) == 1
    assert "not instructions" in quoted[0]
    retrieved = [event for event in person.events_of(session, answer["turn_id"]) if event.type == "context_retrieved"]
    assert [(event.data["agent_id"], event.data["count"]) for event in retrieved] == [(coder, 1)]
    other = person.say(person.session(project["id"]), "What is the deployment key of the heron?", "writer")
    assert other["context"] == []  # another agent's memory


@pytest.mark.req("UWS-24.3")
def test_a_failed_exchange_is_not_remembered(person: Person, script: ByMark, mark: str) -> None:
    from tests.model_server import Fail

    script[f"{mark} fails"] = Fail(400)
    project = person.project()
    session = person.session(project["id"])

    person.post(session, f"{mark} fails")
    person.say(session, f"{mark} works")

    url = f"/my/projects/{project['id']}/agents/{project['agents'][0]['id']}/context"
    memories = eventually(lambda: person.get(url)["items"])
    assert [f"{mark} fails" in memory["content"] for memory in memories] == [False]


@pytest.mark.req("AGT-05.2", "AGT-01.3", "AGT-03.1")
def test_agent_continues_with_the_result_of_a_tool(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    project = person.project()
    coder = next(agent["id"] for agent in project["agents"] if agent["name"] == "agent_coder")
    url = f"/my/projects/{project['id']}/agents/{coder}/context"
    note = {"content": f"Herons nest at {mark}pond.", "type": "note", "success": True}
    assert person.http.post(url, json=note).status_code == 201
    script[f"{mark} where"] = [
        Say(tools=[Tool("memory_read", json.dumps({"query": "Where do herons nest?"}))], tokens=(10, 5)),
        Say("At the pond.", tokens=(20, 3)),
    ]
    session = person.session(project["id"])

    response = person.say(session, f"{mark} where?")

    assert response["content"] == "At the pond."
    usage = response["usage"]
    assert (usage["calls"], usage["input_tokens"], usage["output_tokens"]) == (2, 30, 8)
    first, second = model.asked_about(f"{mark} where")
    assert "memory_read" in {tool["function"]["name"] for tool in first.body["tools"]}
    call, answer = second.body["messages"][-2:]
    assert (call["role"], call["tool_calls"][0]["function"]["name"]) == ("assistant", "memory_read")
    assert (answer["role"], answer["tool_call_id"]) == ("tool", call["tool_calls"][0]["id"])
    assert f"{mark}pond" in answer["content"]
    events = {event.type: event.data for event in person.events_of(session, response["turn_id"])}
    assert (events["tool_called"]["tool"], events["tool_called"]["agent_id"]) == ("memory_read", coder)
    assert (events["tool_result"]["tool"], events["tool_result"]["success"]) == ("memory_read", True)
    later = person.say(session, f"{mark} thanks")
    assert later["usage"]["calls"] == 1
    assert "tool" not in {message["role"] for message in model.asked_about(f"{mark} thanks")[0].body["messages"]}


def test_fork_copies_messages_up_to_a_message_and_is_independent(person: Person, model: ModelServer, mark: str) -> None:
    project = person.project()
    session = person.session(project["id"], title="Trunk")
    for number in range(3):
        person.say(session, f"{mark} {number}.")
    history = person.history(session)

    answer = person.http.post(f"/my/chat/sessions/{session}/fork", json={"message_id": history[3]["id"]})

    assert answer.status_code == 201, answer.text
    fork = answer.json()
    assert (fork["project_id"], fork["title"]) == (project["id"], "Trunk (fork)")
    copied = person.history(fork["session_id"])
    names = ("role", "content", "agent_id", "agent", "status", "tokens")
    for copy, original in zip(copied, history[:4], strict=True):
        assert [copy[name] for name in names] == [original[name] for name in names]
    assert not {copy["id"] for copy in copied} & {message["id"] for message in history}
    person.say(fork["session_id"], f"{mark} branch.")
    assert conversation(model.asked_about(f"{mark} branch.")[0]) == [
        f"{mark} 0.",
        f"You said: {mark} 0.",
        f"{mark} 1.",
        f"You said: {mark} 1.",
        f"{mark} branch.",
    ]
    assert person.history(session) == history
    person.http.delete(f"/my/chat/sessions/{session}")
    assert len(person.history(fork["session_id"])) == 6
    last = person.get(f"/my/chat/sessions/{fork['session_id']}")["last_event"]
    with person.follow(fork["session_id"], 0) as following:
        assert [event.number for event in following.take(last)] == list(range(1, last + 1))


def test_a_fork_needs_a_message_of_that_session(person: Person, other: Person) -> None:
    session, elsewhere, foreign = person.session(), person.session(), other.session()
    for who, where in ((person, elsewhere), (other, foreign)):
        who.say(where, "Hello")
    before = person.get("/my/chat/sessions")["total"]

    for message_id in (person.history(elsewhere)[0]["id"], other.history(foreign)[0]["id"], "nothing"):
        answer = person.http.post(f"/my/chat/sessions/{session}/fork", json={"message_id": message_id})
        assert_problem(answer, 404, "message_not_found")
    mine = {"message_id": person.history(elsewhere)[0]["id"]}
    assert_problem(other.http.post(f"/my/chat/sessions/{elsewhere}/fork", json=mine), 404, "session_not_found")
    assert person.get("/my/chat/sessions")["total"] == before
