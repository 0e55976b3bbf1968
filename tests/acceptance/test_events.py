"""Event streams of sessions and projects, on SQLite and PostgreSQL."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.conftest import StartServer
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, Say
from tests.people import Person, assert_problem
from tests.running import Server
from tests.streams import Event, stored

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def numbers(events: list[Event]) -> list[int | None]:
    return [event.number for event in stored(events)]


def test_event_numbers_have_no_gaps_and_streams_resume_after_any(person: Person) -> None:
    session = person.session()
    for text in ("one", "two", "three"):
        person.say(session, text)
    last = person.get(f"/my/chat/sessions/{session}")["last_event"]

    with person.follow(session, 0) as following:
        everything = following.take(last)

    assert numbers(everything) == list(range(1, last + 1))
    assert everything[-1].type == "turn_completed"
    for after in (1, 5, last - 1):
        with person.follow(session, after) as following:
            assert following.take(last - after) == everything[after:]
        with person.follow(session, None, {"Last-Event-ID": str(after)}) as following:
            assert following.take(last - after) == everything[after:]
    with person.follow(session, last - 1, {"Last-Event-ID": "1"}) as following:  # `after` overrides Last-Event-ID
        assert following.take(1) == everything[-1:]


@pytest.mark.parametrize("last_event_id", [None, "", "abc", "-1", "1.5", "٣", "9" * 40])
def test_stream_without_valid_number_starts_now(person: Person, last_event_id: str | None) -> None:
    session = person.session()
    person.say(session, "before")
    last = person.get(f"/my/chat/sessions/{session}")["last_event"]
    head = {} if last_event_id is None else {"Last-Event-ID": last_event_id.encode()}

    with person.follow(session, None, head) as following:  # type: ignore[arg-type]
        assert following.first_line().startswith("retry:")
        person.submit(session, "after")
        events = following.until("turn_completed")

    assert stored(events)[0].type == "message_created"
    assert stored(events)[0].data["content"] == "after"
    assert numbers(events)[0] == last + 1


@pytest.mark.parametrize("after", ["-1", "x", str(2**31), ""])
def test_invalid_after_parameter_is_refused(person: Person, after: str) -> None:
    session = person.session()

    answer = person.http.get(f"/my/chat/{session}/events", params={"after": after})

    assert_problem(answer, 422, "invalid_request")


def test_late_reader_gets_a_snapshot_of_the_partial_answer(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold("and the rest.", word="The beginning ")
    session = person.session()
    turn = person.submit(session, mark)
    with person.follow(session, 0) as early:
        early.until("message_delta", "message_snapshot")
        with person.follow(session) as late:
            snapshot = late.until("message_snapshot")[-1]  # events of the turn may come before it
            hold.release()
            rest = late.until("turn_completed")

    assert snapshot.number is None
    assert (snapshot.data["text"], snapshot.data["n"], snapshot.data["task_id"]) == ("The beginning ", 1, turn)
    pieces = [event.data for event in rest if event.type == "message_delta"]
    assert [piece["n"] for piece in pieces] == list(range(2, len(pieces) + 2))
    assert "".join([snapshot.data["text"], *(piece["text"] for piece in pieces)]) == "The beginning and the rest."
    [completed] = [event.data for event in rest if event.type == "message_completed"]
    assert completed["message_id"] == snapshot.data["message_id"]
    assert completed["content"] == "The beginning and the rest."


def test_restarted_answer_sends_an_empty_snapshot(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = [Fail(500), Say("Second try.")]
    session = person.session()

    with person.follow(session, 0) as following:
        person.submit(session, mark)
        events = following.until("turn_completed")

    written = [event for event in events if event.type in ("message_delta", "message_snapshot")]
    assert (written[0].type, written[0].data["text"]) == ("message_snapshot", "")
    assert "".join(event.data["text"] for event in written) == "Second try."
    assert [event.data["n"] for event in written] == list(range(1, len(written) + 1))


def test_many_readers_get_the_same_events(person: Person) -> None:
    session = person.session()

    def read(_: int) -> list[Event]:
        with person.follow(session, 0) as following:
            return stored(following.until("turn_completed"))

    with ThreadPoolExecutor(10) as threads:
        reading = [threads.submit(read, number) for number in range(10)]
        person.say(session, "Hello all")
        received = [future.result() for future in reading]

    assert all(events == received[0] for events in received)
    assert len(received[0]) >= 7


def test_a_deleted_session_ends_its_streams(person: Person) -> None:
    session = person.session()
    person.say(session, "Hello")

    with person.follow(session, 0) as following:
        following.until("turn_completed")
        assert person.http.delete(f"/my/chat/sessions/{session}").status_code == 204
        assert list(following) == []

    assert_problem(person.http.get(f"/my/chat/{session}/events"), 404, "session_not_found")


def test_a_deleted_project_ends_the_streams_of_its_sessions_and_its_own(person: Person) -> None:
    project = person.project()
    session = person.session(project["id"])

    with person.follow(session) as of_session, person.follow_project(project["id"]) as of_project:
        assert of_session.first_line()
        assert of_project.first_line()
        assert person.http.delete(f"/my/projects/{project['id']}").status_code == 204
        assert list(of_session) == []
        assert {event.type for event in of_project} <= {"session_changed"}  # that of the new session is written late


@pytest.mark.req("UWS-09.1", "UWS-09.3")
def test_events_of_others_can_be_neither_followed_nor_resumed(person: Person, other: Person) -> None:
    project = person.project()
    session = person.session(project["id"])
    person.say(session, "Private")
    mine = other.session()

    for url in (f"/my/chat/{session}/events?after=0", f"/my/projects/{project['id']}/events?after=0"):
        answer = other.http.get(url)
        assert answer.status_code == 404
        assert "Private" not in answer.text
    with other.follow(mine, 0) as following:
        person.say(session, "Still private")
        other.submit(mine, "My own")
        events = following.until("turn_completed")
    assert {event.data["session_id"] for event in events} == {mine}
    assert "rivate" not in json.dumps([event.data for event in events])


@pytest.mark.req("UWS-09.2", "UWS-09.3")
def test_project_stream_has_only_events_of_that_project(person: Person) -> None:
    here, there = person.project("here"), person.project("there")
    with person.follow_project(here["id"], 0) as following:
        person.say(person.session(there["id"]), "Elsewhere")
        session = person.session(here["id"])
        person.say(session, "Here")
        events = [event for _ in range(2) for event in following.until("agent_status_changed")]

    agents = {agent["id"] for agent in here["agents"]}
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert {event.data["project_id"] for event in events} == {here["id"]}
    changes = [event.data for event in events if event.type == "agent_status_changed"]
    assert {change["agent_id"] for change in changes} <= agents
    assert [(change["old_status"], change["new_status"]) for change in changes] == [
        ("idle", "processing"),
        ("processing", "idle"),
    ]
    others = {event.type: event.data["session_id"] for event in events if event.type != "agent_status_changed"}
    assert others == {"session_changed": session}
    with person.follow_project(here["id"], len(events) - 1) as following:
        assert following.take(1) == events[-1:]


@pytest.mark.req("UWS-09.2")
def test_project_stream_has_the_agents_that_are_created_changed_and_deleted(person: Person) -> None:
    project = person.project()["id"]
    with person.follow_project(project, 0) as following:
        agent = person.agent(project)["id"]
        created = following.take(1)
        assert person.http.patch(f"/my/projects/{project}/agents/{agent}", json={"role": "reader"}).status_code == 200
        changed = following.take(1)
        assert person.http.delete(f"/my/projects/{project}/agents/{agent}").status_code == 204
        deleted = following.take(1)

    heard = [(event.type, event.data["agent_id"]) for event in (*created, *changed, *deleted)]
    assert heard == [("agent_created", agent), ("agent_changed", agent), ("agent_deleted", agent)]


def test_a_stream_needs_a_token(person: Person, server: Server) -> None:
    session = person.session()

    answer = httpx.get(f"{server.url}/my/chat/{session}/events", timeout=30)

    assert answer.status_code == 401


def test_stream_is_not_cached_or_buffered(person: Person) -> None:
    with person.follow(person.session()) as following:
        assert following.response.headers["x-accel-buffering"] == "no"
        assert "content-length" not in following.response.headers


def test_streams_end_when_the_server_stops(start_server: StartServer) -> None:
    started = start_server()
    person = Person.register(started.url)
    with person.follow(person.session()) as following:
        assert following.first_line()
        with ThreadPoolExecutor(1) as threads:
            stopping = threads.submit(started.stop)
            assert list(following) == []
            assert stopping.result() == 0
    eventually(lambda: started.process.poll() is not None)
