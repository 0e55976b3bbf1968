"""Status and cancellation of turns, through HTTP, on SQLite and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold, ModelServer
from tests.people import Person, assert_problem, client
from tests.running import Server


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def test_turn_status_goes_from_queued_to_completed(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold()
    project = person.project()
    session = person.session(project["id"])
    first, second = person.submit(session, f"{mark} 1"), person.submit(session, f"{mark} 2")
    eventually(lambda: hold.arrived)

    running, queued = person.turn(session, first), person.turn(session, second)
    hold.release()
    eventually(lambda: person.turn(session, second)["status"] == "completed")
    done = person.turn(session, second)

    coder = next(agent["id"] for agent in project["agents"] if agent["name"] == "agent_coder")
    assert (running["status"], queued["status"]) == ("running", "queued")
    assert running["started_at"]
    assert (queued["started_at"], queued["finished_at"], queued["usage"]) == (None, None, None)
    assert (queued["id"], queued["session_id"], queued["mode"], queued["agent_id"]) == (
        second,
        session,
        "direct",
        coder,
    )
    moments = [datetime.fromisoformat(done[name]) for name in ("created_at", "started_at", "finished_at")]
    assert moments == sorted(moments)
    assert done["duration_ms"] == round((moments[2] - moments[0]).total_seconds() * 1000)
    assert (done["error_code"], done["error"]) == (None, None)
    assert done["usage"]["calls"] == 1


def test_cancelling_a_running_turn_closes_the_connection_to_the_model(
    person: Person, script: ByMark, mark: str
) -> None:
    script[mark] = hold = Hold(word="Well, ")
    session = person.session()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(person.post, session, mark)
        eventually(lambda: hold.arrived)
        turn = person.history(session)[0]["turn_id"]

        answer = person.http.post(f"/my/chat/{session}/turns/{turn}/cancel")

        assert answer.status_code == 200
        assert (answer.json()["status"], answer.json()["error_code"]) == ("cancelled", "cancelled")
        assert_problem(waiting.result(), 409, "cancelled")
    assert hold.abandoned.wait(10)
    note = person.history(session)[-1]
    assert (note["role"], note["status"]) == ("system", "failed")
    assert [event.type for event in person.events_of(session, turn)[-2:]] == ["task_cancelled", "turn_cancelled"]
    assert person.say(session, "Next")["content"] == "You said: Next"


def test_cancelling_a_queued_turn_never_asks_the_model(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    script[mark] = hold = Hold()
    session = person.session()
    first, second, third = (person.submit(session, f"{mark} {number}") for number in range(3))
    eventually(lambda: hold.arrived)

    answer = person.http.post(f"/my/chat/{session}/turns/{second}/cancel")
    hold.release()

    assert answer.json()["status"] == "cancelled"
    eventually(lambda: person.turn(session, third)["status"] == "completed")
    assert person.turn(session, first)["status"] == "completed"
    assert person.turn(session, second)["status"] == "cancelled"
    assert [asked.text for asked in model.asked_about(mark)] == [f"{mark} 0", f"{mark} 2"]


def test_cancelling_a_turn_that_has_ended_changes_nothing(person: Person) -> None:
    session = person.session()
    turn = person.say(session, "Hello")["turn_id"]
    before = person.turn(session, turn)

    answers = [person.http.post(f"/my/chat/{session}/turns/{turn}/cancel") for _ in range(2)]

    assert [answer.json() for answer in answers] == [before, before]
    assert len(person.history(session)) == 2


def test_a_turn_is_found_only_in_its_own_session_and_by_its_owner(person: Person, other: Person) -> None:
    session = person.session()
    turn = person.say(session, "Hello")["turn_id"]

    for who, where in ((person, person.session()), (other, other.session())):
        for answer in (
            who.http.get(f"/my/chat/{where}/turns/{turn}"),
            who.http.post(f"/my/chat/{where}/turns/{turn}/cancel"),
        ):
            assert_problem(answer, 404, "turn_not_found")
    for answer in (
        other.http.get(f"/my/chat/{session}/turns/{turn}"),
        other.http.post(f"/my/chat/{session}/turns/{turn}/cancel"),
    ):
        assert answer.status_code == 404


def test_deleting_session_cancels_its_turns_and_ends_waiting_requests(
    person: Person, script: ByMark, mark: str
) -> None:
    script[mark] = hold = Hold(word="Well, ")
    session = person.session()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(person.post, session, mark)
        eventually(lambda: hold.arrived)

        assert person.http.delete(f"/my/chat/sessions/{session}").status_code == 204

        assert hold.abandoned.wait(10)
        assert waiting.result(timeout=60).status_code == 404


@pytest.mark.req("UWS-08.3", "CHT-10.2")
def test_after_crash_running_turns_fail_once_and_queued_turns_run(
    start_server: StartServer, model: ModelServer, script: ByMark, mark: str
) -> None:
    script[f"{mark} 0"] = hold = Hold(word="Well, ")
    settings = with_model(model) | {"ARTEL_HOST_LEASE_SECONDS": "5"}
    crashing = start_server(**settings)
    person = Person.register(crashing.url)
    project = person.project()
    session = person.session(project["id"])
    turns = [person.submit(session, f"{mark} {number}") for number in range(3)]
    eventually(lambda: hold.arrived)
    eventually(lambda: crashing.drafts() == [(turns[0], "Well, ")])

    crashing.kill()
    folder = crashing.log.parent
    again = Server.start(folder, crashing.env)
    try:
        back = Person(person.email, person.user_id, person.token, client(again.url, person.token))
        eventually(lambda: back.turn(session, turns[2])["status"] == "completed", 30)

        states = [back.turn(session, turn) for turn in turns]
        assert [state["status"] for state in states] == ["failed", "completed", "completed"]
        assert states[0]["error_code"] == "interrupted"
        notes = [message for message in back.history(session) if message["turn_id"] == turns[0]]
        assert [(note["role"], note["status"], note["content"]) for note in notes] == [
            ("user", "ok", f"{mark} 0"),
            ("assistant", "cut_off", "Well, "),
            ("system", "failed", "The server restarted; the answer was cut off."),
        ]
        assert {note["error_code"] for note in notes[1:]} == {"interrupted"}
        assert not crashing.drafts()
        assert [event.type for event in back.events_of(session, turns[0])].count("turn_failed") == 1
        last = back.get(f"/my/chat/sessions/{session}")["last_event"]
        with back.follow(session, 0) as following:
            assert [event.number for event in following.take(last)] == list(range(1, last + 1))
        space = back.get(f"/my/projects/{project['id']}/space")
        assert (space["active_agents"], space["is_healthy"]) == (4, True)
        assert len(model.asked_about(f"{mark} 0")) == 1
    finally:
        again.stop()
