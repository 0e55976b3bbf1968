"""Messages to agents and their answers, through HTTP, on SQLite and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import httpx
import pytest

from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hang, Hold, ModelServer, Say
from tests.people import Person, assert_problem
from tests.running import Server
from tests.streams import stored, stream

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.mark.req("CHT-01.1", "CHT-01.4", "CHT-06.1", "UWS-07.1", "UWS-22.2", "UWS-24.1")
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_message_with_a_target_is_answered_by_that_agent(
    person: Person, model: ModelServer, mark: str, slash: str
) -> None:
    project = person.project()
    session = person.session(project["id"])

    body = {"content": f"Hello {mark}", "target_agent": "agent_writer"}
    answer = person.http.post(f"/my/chat/{session}/message{slash}", json=body)

    assert answer.status_code == 200, answer.text
    reply = answer.json()
    writer = next(agent for agent in project["agents"] if agent["name"] == "agent_writer")
    assert reply["content"] == f"You said: Hello {mark}"
    assert (reply["session_id"], reply["mode"]) == (session, "direct")
    assert (reply["agent"], reply["agent_id"]) == ("agent_writer", writer["id"])
    assert reply["context"] == []
    assert reply["duration_ms"] >= 0
    assert reply["usage"]["model"] == "gpt-4"
    [request] = model.asked_about(mark)  # one call: nobody planned anything
    assert request.schema_name is None
    assert [message["id"] for message in person.history(session)][1] == reply["message_id"]
    assert person.turn(session, reply["turn_id"])["status"] == "completed"


@pytest.mark.req("AGT-01.1", "AGT-01.3")
def test_model_call_uses_agent_configuration_and_counts_usage(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    project = person.project()
    person.agent(
        project["id"],
        name="critic",
        model="gpt-4o-mini",
        temperature=1.25,
        max_tokens=321,
        system_prompt="You find the flaw.",
        tools=[],
        memory=False,
    )
    script[mark] = Say("Here it is.", tokens=(1000, 100))
    session = person.session(project["id"])

    answer = person.say(session, f"Look {mark}", "critic")

    [request] = model.asked_about(mark)
    assert request.body["model"] == "gpt-4o-mini"
    assert request.body["temperature"] == 1.25
    assert (request.body.get("max_tokens") or request.body.get("max_completion_tokens")) == 321
    assert request.body["messages"] == [
        {"role": "system", "content": "You find the flaw."},
        {"role": "user", "content": f"Look {mark}"},
    ]
    assert answer["usage"] == {
        "model": "gpt-4o-mini",
        "input_tokens": 1000,
        "output_tokens": 100,
        "cost_usd": pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6),
        "calls": 1,
    }
    assert person.turn(session, answer["turn_id"])["usage"] == answer["usage"]
    assert person.events_of(session, answer["turn_id"])[-1].data["usage"]["input_tokens"] == 1000


@pytest.mark.req("CHT-01.2", "CHT-06.2", "UWS-07.3")
def test_message_without_target_is_orchestrated_and_modes_may_alternate(person: Person, mark: str) -> None:
    session = person.session(person.project()["id"])
    modes = []

    for number, target in enumerate(["coder", None, "writer", None]):
        answer = person.post(session, f"{mark} number {number}", target, {"Prefer": "wait=30"})
        assert answer.status_code == 200, answer.text
        modes.append(answer.json()["mode"])

    assert modes == ["direct", "orchestrated", "direct", "orchestrated"]
    users = [message["content"] for message in person.history(session, role="user")]
    assert users == [f"{mark} number {number}" for number in range(4)]
    assert [message["role"] for message in person.history(session)] == ["user", "assistant"] * 4


@pytest.mark.req("CHT-01.2")
def test_message_without_target_returns_202(person: Person) -> None:
    session = person.session()

    answer = person.post(session, "Do it all", None)

    assert answer.status_code == 202
    accepted = answer.json()
    assert (accepted["session_id"], accepted["mode"]) == (session, "orchestrated")
    assert accepted["status"] in ("queued", "running")
    eventually(lambda: person.turn(session, accepted["turn_id"])["status"] == "completed")


@pytest.mark.req("CHT-06.3")
def test_the_choice_of_the_mode_is_logged(person: Person, server: Server) -> None:
    session = person.session()
    turns = [person.say(session, "one")["turn_id"], person.post(session, "two", None).json()["turn_id"]]

    lines = [line for line in server.log_lines() if line["event"] == "mode_chosen" and line["session_id"] == session]

    assert [(line["turn_id"], line["mode"]) for line in lines] == [(turns[0], "direct"), (turns[1], "orchestrated")]
    assert all(line["timestamp"] for line in lines)


@pytest.mark.req("CHT-01.3")
@pytest.mark.parametrize("target", ["nobody", "agent_nobody", "", "root", 2**40, "9" * 30, "Agent_coder", "%"])
def test_an_unknown_target_is_not_found_and_nothing_is_stored(person: Person, target: str | int) -> None:
    session = person.session()

    answer = person.post(session, "Hello", target)

    if target == "":
        assert_problem(answer, 422, "invalid_request")
    else:
        assert assert_problem(answer, 404, "agent_not_found")["detail"] == "Agent not found"
    assert person.history(session) == []


def test_target_is_full_name_short_name_or_id_and_exact_name_wins(person: Person) -> None:
    project = person.project()
    short = person.agent(project["id"], name="coder")
    coder = next(agent for agent in project["agents"] if agent["name"] == "agent_coder")
    session = person.session(project["id"])

    targets = ["coder", "agent_coder", "writer", coder["id"], str(short["id"])]
    answered = [person.say(session, "Who are you?", target)["agent"] for target in targets]

    assert answered == ["coder", "agent_coder", "agent_writer", "agent_coder", "coder"]


@pytest.mark.req("UWS-09.1", "UWS-09.2")
def test_agent_of_another_project_or_user_cannot_be_target(person: Person, other: Person) -> None:
    here, there = person.project("here"), person.project("there")
    only_there = person.agent(there["id"], name="only_there")
    foreign = other.project()["agents"][0]["id"]

    for target in ("only_there", only_there["id"], there["agents"][0]["id"], foreign):
        assert_problem(person.post(person.session(here["id"]), "Hello", target), 404, "agent_not_found")


@pytest.mark.req("CHT-01.4")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": ""},
        {"content": " \n"},
        {"content": "a\x00b"},
        {"content": 1},
        {"content": "x" * 200_001},
        {"content": "x", "target_agent": ["coder"]},
        {"content": "x", "target_agent": -1},
        {"content": "x", "idempotency_key": ""},
        {"content": "x", "colour": "red"},
    ],
)
def test_a_bad_message_is_refused_and_nothing_is_stored(person: Person, body: dict[str, object]) -> None:
    session = person.session()

    assert_problem(person.http.post(f"/my/chat/{session}/message", json=body), 422, "invalid_request")

    assert person.history(session) == []


def test_user_text_reaches_model_and_history_unchanged(person: Person, model: ModelServer, mark: str) -> None:
    session = person.session()
    text = f"  {mark}\r\n\t“Grüße”, 你好 🎉 \u202e <b>%s</b> {{x}} \\n  "

    person.say(session, text)

    assert person.history(session)[0]["content"] == text
    assert model.asked_about(mark)[0].text == text


def test_respond_async_is_accepted_at_once_and_answered_later(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold("At last.")
    session = person.session()

    answer = person.post(session, mark, headers={"Prefer": "respond-async"})

    assert answer.status_code == 202
    accepted = answer.json()
    assert accepted == {
        "session_id": session,
        "turn_id": accepted["turn_id"],
        "mode": "direct",
        "status": "queued",
    }
    eventually(lambda: hold.arrived)
    assert person.turn(session, accepted["turn_id"])["status"] == "running"
    hold.release()
    eventually(lambda: person.turn(session, accepted["turn_id"])["status"] == "completed")
    assert person.history(session)[-1]["content"] == "At last."


def test_wait_returns_202_for_slow_turn_that_continues(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold("At last.")
    session = person.session()

    answer = person.post(session, mark, headers={"Prefer": "wait=1"})

    assert answer.status_code == 202
    assert answer.json()["status"] == "running"
    hold.release()
    eventually(lambda: person.turn(session, answer.json()["turn_id"])["status"] == "completed")


@pytest.mark.parametrize("by", ["header", "field"])
def test_the_same_key_and_body_is_the_same_turn_with_the_same_answer(
    person: Person, model: ModelServer, script: ByMark, mark: str, by: str
) -> None:
    script[mark] = hold = Hold("Once.")
    session = person.session()

    def send(text: str) -> httpx.Response:
        if by == "header":
            return person.post(session, text, headers={"Idempotency-Key": mark})
        return person.post(session, text, idempotency_key=mark)

    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(send, mark) for _ in range(4)]
        eventually(lambda: hold.arrived)
        hold.release()
        answers = [each.result() for each in waiting]
    answers.append(send(mark))

    assert {answer.status_code for answer in answers} == {200}
    assert all(answer.json() == answers[0].json() for answer in answers)
    assert len(model.asked_about(mark)) == 1
    assert len(person.history(session)) == 2
    assert_problem(send(f"{mark} other"), 422, "idempotency_key_reused")
    assert len(person.history(session)) == 2


def test_header_and_field_are_the_same_key_and_each_session_has_keys_of_its_own(person: Person, mark: str) -> None:
    session, other_session = person.session(), person.session()

    first = person.post(session, "Hello", headers={"Idempotency-Key": mark}).json()
    again = person.post(session, "Hello", idempotency_key=mark).json()
    elsewhere = person.post(other_session, "Hello", idempotency_key=mark).json()

    assert first == again
    assert elsewhere["turn_id"] != first["turn_id"]


def test_failure_is_returned_again_for_same_key(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = Fail(400)
    session = person.session()

    answers = [person.post(session, mark, idempotency_key="k") for _ in range(2)]

    problems = [assert_problem(answer, 502, "agent_failed") for answer in answers]
    assert problems[0]["detail"] == problems[1]["detail"]
    assert len(person.history(session)) == 2


@pytest.mark.req("CHT-08.1", "UWS-22.3")
def test_failed_call_is_in_history_but_not_in_later_prompts(
    person: Person, model: ModelServer, script: ByMark, server: Server, mark: str
) -> None:
    script[f"{mark} fails"] = Fail(400)
    session = person.session()
    person.say(session, f"{mark} before")

    problem = assert_problem(person.post(session, f"{mark} fails"), 502, "agent_failed")

    assert "gpt-4" in problem["detail"]
    failure = person.history(session)[-1]
    assert (failure["role"], failure["status"]) == ("system", "failed")
    assert failure["content"] == problem["detail"]
    turn = person.turn(session, failure["turn_id"])
    assert (turn["status"], turn["error_code"], turn["error"]) == ("failed", "model_refused", problem["detail"])
    last = person.events_of(session, failure["turn_id"])[-2:]
    assert [event.type for event in last] == ["task_failed", "turn_failed"]
    assert all(event.data["error"] == problem["detail"] for event in last)
    [line] = [line for line in server.log_lines() if line["event"] == "task_failed" and line["task_id"] == turn["id"]]
    assert (line["user_id"], line["session_id"]) == (person.user_id, session)
    assert (line["error_type"], line["code"], line["reason"]) == ("execution", "model_refused", problem["detail"])

    person.say(session, f"{mark} after")

    told = model.asked_about(f"{mark} after")[0].body["messages"]
    assert not [message for message in told if problem["detail"] in message["content"]]
    assert [message["content"] for message in told if message["role"] != "system"] == [
        f"{mark} before",
        f"You said: {mark} before",
        f"{mark} fails",
        f"{mark} after",
    ]


@pytest.mark.req("CHT-09.4")
def test_message_queue_is_limited_to_ten(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold()
    session = person.session()
    turns = [person.submit(session, f"{mark} {number}") for number in range(11)]

    answer = person.post(session, f"{mark} too many")

    assert_problem(answer, 429, "session_busy")
    assert int(answer.headers["retry-after"]) > 0
    assert len(person.history(session)) == 11
    hold.release()
    eventually(lambda: person.turn(session, turns[-1])["status"] == "completed")
    assert person.post(session, f"{mark} now").status_code == 200


@pytest.mark.req("CHT-09.1", "CHT-09.3")
def test_messages_of_a_session_are_answered_one_after_another_in_order(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    script[f"{mark} 0"] = hold = Hold("first")
    session = person.session()
    turns = [person.submit(session, f"{mark} {number}") for number in range(6)]
    eventually(lambda: hold.arrived)

    states = [person.turn(session, turn)["status"] for turn in turns]
    calls_before_release = len(model.asked_about(mark))
    hold.release()

    assert states == ["running"] + ["queued"] * 5
    assert calls_before_release == 1
    eventually(lambda: person.turn(session, turns[-1])["status"] == "completed")
    assert [request.text for request in model.asked_about(mark)] == [f"{mark} {number}" for number in range(6)]
    ended = [person.turn(session, turn) for turn in turns]
    assert all(earlier["finished_at"] <= later["started_at"] for earlier, later in pairwise(ended))


@pytest.mark.req("CHT-09.2", "UWS-01.2")
def test_waiting_session_does_not_block_other_sessions_and_projects(person: Person, script: ByMark, mark: str) -> None:
    script[f"{mark} slow"] = hold = Hold()
    here, there = person.project("here"), person.project("there")
    waiting = person.session(here["id"])
    turn = person.submit(waiting, f"{mark} slow")
    eventually(lambda: hold.arrived)

    assert person.say(person.session(here["id"]), f"{mark} quick")["content"] == f"You said: {mark} quick"
    assert person.say(person.session(there["id"]), f"{mark} quick")["content"] == f"You said: {mark} quick"

    assert person.turn(waiting, turn)["status"] == "running"
    hold.release()
    eventually(lambda: person.turn(waiting, turn)["status"] == "completed")


@pytest.mark.req("CHT-02.1", "CHT-02.4")
def test_a_message_can_be_answered_with_its_events_and_the_stream_ends_with_the_turn(
    person: Person, script: ByMark, mark: str
) -> None:
    script[mark] = hold = Hold("two three.", word="One ")
    project = person.project()
    session = person.session(project["id"])
    body = {"content": mark, "target_agent": "coder"}
    head = {"Accept": "text/event-stream"}

    with stream(person.http, "POST", f"/my/chat/{session}/message", head, json=body) as following:
        events = following.until("message_delta", "message_snapshot")
        hold.release()
        events += following

    coder = next(agent["id"] for agent in project["agents"] if agent["name"] == "agent_coder")
    stored_events = stored(events)
    assert [event.number for event in stored_events] == list(range(1, len(stored_events) + 1))
    assert [event.type for event in stored_events if event.type != "context_retrieved"] == [
        "message_created",
        "direct_agent_call",
        "agent_status_changed",
        "message_completed",
        "agent_status_changed",
        "task_completed",
        "turn_completed",
    ]
    turn = stored_events[0].data["turn_id"]
    assert {(event.data["session_id"], event.data["turn_id"]) for event in events} == {(session, turn)}
    assert all(event.data["timestamp"] for event in stored_events)
    by_type = {event.type: event.data for event in stored_events}
    assert (by_type["direct_agent_call"]["agent_id"], by_type["direct_agent_call"]["task_id"]) == (coder, turn)
    changes = [event.data for event in stored_events if event.type == "agent_status_changed"]
    assert [(change["old_status"], change["new_status"]) for change in changes] == [
        ("idle", "processing"),
        ("processing", "idle"),
    ]
    assert by_type["task_completed"]["task_id"] == turn
    assert by_type["task_completed"]["result"] == "One two three."
    assert by_type["task_completed"]["duration"] >= 0
    pieces = [event for event in events if event.type in ("message_delta", "message_snapshot")]
    assert [(piece.data["n"], piece.data["text"]) for piece in pieces] == [(1, "One "), (2, "two"), (3, " three.")]
    assert {piece.data["message_id"] for piece in pieces} == {by_type["message_completed"]["message_id"]}


def test_repeated_streamed_message_with_same_key_replays_its_events(
    person: Person, model: ModelServer, mark: str
) -> None:
    session = person.session()
    body = {"content": mark, "target_agent": "coder", "idempotency_key": mark}
    streams = []
    for _ in range(2):
        head = {"Accept": "text/event-stream"}
        with stream(person.http, "POST", f"/my/chat/{session}/message", head, json=body) as following:
            streams.append(stored(list(following)))

    assert streams[0] == streams[1]
    assert len(model.asked_about(mark)) == 1


def test_disconnecting_client_cancels_nothing(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold("Still here.", word="Wait. ")
    session = person.session()
    body = {"content": mark, "target_agent": "coder"}
    head = {"Accept": "text/event-stream"}

    with stream(person.http, "POST", f"/my/chat/{session}/message", head, json=body) as following:
        turn = following.until("message_delta", "message_snapshot")[0].data["turn_id"]
    hold.release()

    eventually(lambda: person.turn(session, turn)["status"] == "completed")
    assert not hold.abandoned.is_set()
    assert person.history(session)[-1]["content"] == "Wait. Still here."


# A healthy answer has to make progress within it, on a busy machine too; only one that hangs reaches it.
PROGRESS_SECONDS = 6


@pytest.fixture(scope="session")
def impatient(start_shared_server: StartServer, model: ModelServer) -> Server:
    started = start_shared_server(**with_model(model), ARTEL_PROGRESS_TIMEOUT_SECONDS=str(PROGRESS_SECONDS))
    somebody = Person.register(started.url)
    session = somebody.session()
    eventually(lambda: somebody.post(session, "Hello").status_code == 200)  # what is slow the first time is done
    return started


@pytest.mark.req("UWS-22.1", "UWS-22.3", "UWS-10.3")
def test_turn_without_progress_times_out_and_is_not_in_later_prompts(
    impatient: Server, model: ModelServer, script: ByMark, mark: str
) -> None:
    person = Person.register(impatient.url)
    script[f"{mark} hangs"] = hang = Hang("Well")
    project = person.project()
    session = person.session(project["id"])

    problem = assert_problem(person.post(session, f"{mark} hangs"), 504, "timeout")

    assert "no progress" in problem["detail"]
    eventually(hang.abandoned.is_set)  # the model is told
    failure = person.history(session)[-1]
    assert (failure["role"], failure["status"], failure["content"]) == ("system", "failed", problem["detail"])
    turn = person.turn(session, failure["turn_id"])
    assert (turn["status"], turn["error_code"]) == ("timeout", "timeout")
    [line] = [one for one in impatient.log_lines() if one["event"] == "task_failed" and one["task_id"] == turn["id"]]
    assert (line["error_type"], line["reason"], line["level"]) == ("timeout", problem["detail"], "warning")
    assert person.events_of(session, turn["id"])[-1].data["status"] == "timeout"
    alerts = f"/my/projects/{project['id']}/alerts"
    [alert] = eventually(lambda: person.get(alerts)["items"])
    assert (alert["kind"], alert["resolved_at"]) == ("hung_task", None)
    assert turn["id"] in alert["message"]
    health = person.get(f"/my/projects/{project['id']}/space/health")
    assert health["status"] == "degraded"
    assert [detail["part"] for detail in health["details"]] == ["hung_task"]

    person.say(session, f"{mark} later")

    later = model.asked_about(f"{mark} later")[0].body["messages"]
    assert [message["content"] for message in later if message["role"] == "user"] == [f"{mark} hangs", f"{mark} later"]
    assert not [message for message in later if "no progress" in message["content"]]
    eventually(lambda: person.get(alerts)["items"][0]["resolved_at"])
    assert person.get(f"/my/projects/{project['id']}/space/health")["status"] == "healthy"


@pytest.mark.req("UWS-22.1")
def test_an_answer_that_makes_progress_may_take_longer_than_the_time_limit(
    impatient: Server, script: ByMark, mark: str
) -> None:
    person = Person.register(impatient.url)
    script[mark] = Say(pieces=[f"{number} " for number in range(10)], pause=PROGRESS_SECONDS / 8)

    answer = person.say(person.session(), mark)

    assert answer["content"] == "0 1 2 3 4 5 6 7 8 9 "
    assert answer["duration_ms"] > 1000 * PROGRESS_SECONDS
