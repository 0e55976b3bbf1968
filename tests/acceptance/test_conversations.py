"""What a session shows, and what a user does with sent messages, through HTTP, on SQLite and PostgreSQL."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.actors.coder_user import CoderUser
from tests.conftest import Write
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import ByMark, Fail, Hold, ModelServer, Say
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def _session(person: Person, session_id: str) -> dict[str, Any]:
    """Return a session as the list shows it, which is how it is shown alone."""
    alone = person.get(f"/my/chat/sessions/{session_id}")
    listed: dict[str, Any]
    [listed] = [entry for entry in person.get("/my/chat/sessions")["items"] if entry["session_id"] == session_id]
    times = {"updated_at": listed["updated_at"]}  # a turn may go on between the two requests
    assert {name: alone[name] for name in listed} | times == listed
    return listed


@pytest.mark.req("CHT-12.1")
def test_session_shows_its_recipient_and_cost(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = Say("Fine.", tokens=(1_000, 100))
    session = person.session()
    new = _session(person, session)
    assert (new["recipient"], new["state"], new["waiting"], new["cost_usd"], new["changed_files"]) == (
        None, "idle", 0, 0.0, 0,
    )  # fmt: skip
    assert (new["title_source"], new["pinned"], new["archived"]) == ("auto", False, False)

    answer = person.say(session, mark, "writer")
    once = _session(person, session)
    person.say(session, mark, "coder")
    twice = _session(person, session)
    person.post(session, mark, None, {"Prefer": "wait=30"})

    assert (once["recipient"], once["cost_usd"]) == ("agent_writer", pytest.approx(answer["usage"]["cost_usd"]))
    assert answer["usage"]["cost_usd"] > 0
    assert (twice["recipient"], twice["cost_usd"]) == ("agent_coder", pytest.approx(2 * answer["usage"]["cost_usd"]))
    assert _session(person, session)["recipient"] is None
    person.http.post(f"/my/chat/{session}/turns/{answer['turn_id']}/retry")
    assert _session(person, session)["recipient"] is None  # the retry of an old message chooses nobody


@pytest.mark.req("CHT-08.1")
def test_failures_of_all_projects_are_listed_until_a_later_turn_ends_well(
    person: Person, other: Person, script: ByMark, mark: str
) -> None:
    script[f"{mark} bad"] = Fail(400)
    here, there = person.project()["id"], person.project("Shop")["id"]
    first, second, fine, shelved = (person.session(project) for project in (here, there, here, here))
    person.say(fine, f"{mark} good", "coder")
    for session in (first, second, shelved):
        assert person.post(session, f"{mark} bad", "coder").status_code == 502
    person.http.patch(f"/my/chat/sessions/{shelved}", json={"archived": True})

    found = person.get("/my/failures")
    assert [(failure["session_id"], failure["project_name"]) for failure in found["items"]] == [
        (second, "Shop"),
        (first, "Website"),
    ]
    newest = found["items"][0]
    [turn] = person.get(f"/my/chat/{second}/turns", status="failed")["items"]
    assert (newest["turn_id"], newest["agent"], newest["status"]) == (turn["id"], "agent_coder", "failed")
    assert (newest["error"], newest["failed_at"]) == (turn["error"], turn["finished_at"])
    assert person.get("/my/failures", limit=1, offset=1)["items"] == found["items"][1:]
    assert other.get("/my/failures")["total"] == 0

    person.say(second, f"{mark} good", "coder")
    assert person.post(first, f"{mark} bad", "coder").status_code == 502
    [again] = person.get("/my/failures")["items"]
    assert (again["session_id"], again["turn_id"] != found["items"][1]["turn_id"]) == (first, True)


@pytest.mark.req("CHT-12.1")
def test_session_is_changed_and_archived(person: Person, other: Person) -> None:
    project = person.project()
    agent = person.agent(project["id"], name="agent_helper")
    session, rest = person.session(project["id"]), person.session(project["id"])
    url = f"/my/chat/sessions/{session}"

    changes = {"pinned": True, "archived": True, "recipient": "helper"}
    changed = person.http.patch(url, json=changes)

    assert changed.status_code == 200, changed.text
    shown = changed.json()
    assert (shown["pinned"], shown["archived"], shown["recipient"]) == (True, True, "agent_helper")
    assert shown["title_source"] == "auto"
    assert [entry["session_id"] for entry in person.get("/my/chat/sessions")["items"]] == [rest]
    archived = person.get("/my/chat/sessions", archived=True)
    assert (archived["items"], archived["total"]) == ([shown], 1)
    assert person.http.patch(url, json={"title": "Mine"}).json()["title_source"] == "user"
    assert person.http.patch(url, json={"recipient": None}).json()["recipient"] is None
    person.http.patch(url, json={"recipient": str(agent["id"])})
    person.http.delete(f"/my/projects/{project['id']}/agents/{agent['id']}")
    assert person.get(url)["recipient"] is None  # it was deleted
    assert_problem(person.http.patch(url, json={"recipient": "nobody"}), 404, "agent_not_found")
    assert_problem(person.http.patch(url, json={"pinned": None}), 422, "invalid_request")
    assert_problem(other.http.patch(url, json={"pinned": False}), 404, "session_not_found")


@pytest.mark.req("CHT-12.1", "CHT-12.2")
def test_state_of_session_is_shown_and_announced(person: Person, script: ByMark, mark: str) -> None:
    project = person.project()["id"]
    script[f"{mark} long"] = hold = Hold()
    script[f"{mark} bad"] = Fail(400)
    with person.follow_project(project, 0) as following:
        session = person.session(project)
        assert following.until("session_changed")[-1].data["session_id"] == session
        turn = person.submit(session, f"{mark} long")
        eventually(lambda: hold.arrived)
        following.until("session_changed")
        assert _session(person, session)["state"] == "working"
        hold.release()
        eventually(lambda: person.turn(session, turn)["finished_at"])
        following.until("session_changed")
        assert _session(person, session)["state"] == "idle"
        person.post(session, f"{mark} bad")
        assert _session(person, session)["state"] == "failed"
        person.say(session, mark)
        assert _session(person, session)["state"] == "idle"
        person.http.delete(f"/my/chat/sessions/{session}")
        # What happens within a moment is announced once.
        last = person.session(project)
        events = [following.until("session_changed")[-1]]
        while events[-1].data["session_id"] != last:
            events.append(following.until("session_changed")[-1])

    assert len(events) <= 6
    assert {event.data["session_id"] for event in events} == {session, last}
    assert set(events[0].data) == {"project_id", "session_id", "timestamp"}


def _is_decided(user: CoderUser, approval_id: str) -> bool:
    return approval_id not in [approval["id"] for approval in user.approvals()]


@pytest.mark.req("CHT-12.1", "CHT-12.8")
def test_waiting_session_changed_files_and_export(
    person: Person, other: Person, model: ModelServer, mark: str, tmp_path: Path
) -> None:
    user = CoderUser(person, person.project()["id"], model, mark)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("```\nold\n")
    user.script(
        ("tool_read_file", {"path": "a.txt"}),
        ("tool_write_file", {"path": "a.txt", "content": "```\nnew\n"}),
        ("tool_write_file", {"path": "a.txt", "content": "newer\n"}),
        ("tool_write_file", {"path": "b.txt", "content": "b\n"}),
    )
    with connected_folder(tmp_path, person, user.project, "--ask", "browser"):
        waiting = user.ask()
        shown = _session(person, user.session)
        assert (shown["state"], shown["waiting"], shown["changed_files"]) == ("waiting", 1, 0)
        for _ in range(3):
            [approval] = eventually(user.approvals, 30)
            user.decide(approval["id"], decision="approve")
            eventually(partial(_is_decided, user, approval["id"]), 30)
        assert user.ended(waiting["turn_id"], 30)["status"] == "completed"

    shown = _session(person, user.session)
    assert (shown["state"], shown["waiting"], shown["changed_files"]) == ("idle", 0, 2)
    url = f"/my/chat/sessions/{user.session}/export"
    text, document = person.http.get(url), person.http.get(url, params={"format": "json"})
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert re.fullmatch(r'attachment; filename="mark\w+\.md"', text.headers["content-disposition"])
    assert text.text.startswith(f"# {mark}\n\nExported on ")
    parts = [
        f"\n\n{mark}\n",
        "agent_coder read a.txt.",
        "````diff\n",
        "+new\n",
        "agent_coder wrote b.txt.",
        "\n\nDone.\n",
    ]
    places = [text.text.index(part) for part in parts]
    assert places == sorted(places)
    assert document.headers["content-disposition"].endswith('.json"')
    whole = document.json()
    timeline = person.get(f"/my/chat/{user.session}/timeline")["items"]
    assert [item["id"] for item in whole["items"]] == [item["id"] for item in timeline]
    assert whole["session"]["session_id"] == user.session
    assert_problem(other.http.get(url), 404, "session_not_found")
    assert_problem(person.http.get(url, params={"format": "pdf"}), 422, "invalid_request")


MANY_MESSAGES = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 250)
INSERT INTO messages
    (id, user_id, project_id, session_id, number, turn_number, role, content, status, tokens, created_at)
SELECT :mark || (1000 + n), first.user_id, first.project_id, first.session_id, 1000 + n, 1000 + n, 'user', 'Said ' || n,
    'ok', 1, first.created_at
FROM messages AS first, numbers WHERE first.session_id = :session_id AND first.role = 'user'
"""


@pytest.mark.req("CHT-12.8")
def test_long_session_is_exported_whole_and_read_backwards(
    person: Person, script: ByMark, mark: str, write: Write
) -> None:
    tasks = [{"id": name, "agent": "agent_coder", "description": f"Do {name}", "depends_on": []} for name in "ab"]
    script[mark] = [Say(json.dumps({"tasks": tasks})), Say("Something."), Say("Something."), Say("Both done.")]
    project = person.project()["id"]
    person.http.patch(f"/my/projects/{project}", json={"settings": {"plans": {"approve_over_usd": 10}}})
    session = person.session(project)
    person.post(session, mark, None, {"Prefer": "wait=30"})
    write(MANY_MESSAGES, mark=mark, session_id=session)
    url = f"/my/chat/{session}/timeline"

    exported = person.http.get(f"/my/chat/sessions/{session}/export", params={"format": "json"}).json()["items"]
    text = person.http.get(f"/my/chat/sessions/{session}/export").text
    page = person.get(url, last=100)
    pages = [page["items"]]
    while page["offset"]:
        page = person.get(url, before=page["items"][0]["id"], limit=100)
        pages.insert(0, page["items"])

    assert len(exported) == page["total"] == 253
    assert [len(entry) for entry in pages] == [53, 100, 100]
    assert [item["id"] for entry in pages for item in entry] == [item["id"] for item in exported]
    assert [task["description"] for item in exported if "plan" in item for task in item["workflow"]["tasks"]] == [
        "Do a", "Do b",
    ]  # fmt: skip
    assert "- [x] a, agent_coder (completed): Do a\n\n  > Something.\n" in text
    assert text.count("\nSaid ") == 250
    first = exported[0]["id"]
    assert person.get(url, before=first)["items"] == []
    assert_problem(person.http.get(url, params={"before": "none"}), 404, "timeline_item_not_found")
    foreign = person.session()
    assert_problem(
        person.http.get(f"/my/chat/{foreign}/timeline", params={"before": first}), 404, "timeline_item_not_found"
    )


@pytest.mark.req("CHT-12.7")
def test_answers_carry_usage_and_duration(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = Say("Fine.", tokens=(1_000, 100))
    session = person.session()
    answer = person.say(session, mark)

    [question, message] = person.history(session)
    completed = [entry for entry in person.events_of(session, answer["turn_id"]) if entry.type == "message_completed"]
    [item] = [entry for entry in person.get(f"/my/chat/{session}/timeline")["items"] if entry["text"] == "Fine."]

    expected = {name: answer["usage"][name] for name in ("model", "input_tokens", "output_tokens", "cost_usd")}
    assert (expected["input_tokens"], expected["output_tokens"]) == (1_000, 100)
    assert message == item["message"]
    for shown in (message, completed[0].data):
        assert (shown["usage"], shown["duration_ms"], shown["context"]) == (
            expected, answer["duration_ms"], len(answer["context"]),
        )  # fmt: skip
    assert (question["usage"], question["duration_ms"], question["context"]) == (None, None, None)


@pytest.mark.req("CHT-12.4")
def test_retry_takes_other_words_and_another_recipient(person: Person, model: ModelServer, mark: str) -> None:
    session = person.session()
    first = person.say(session, f"{mark} wrong", "coder")
    url = f"/my/chat/{session}/turns/{first['turn_id']}/retry"

    edited = person.http.post(url, json={"content": f"{mark} right"}).json()
    redirected = person.http.post(url, json={"target_agent": "writer"}).json()
    person.say(session, f"{mark} next")

    assert (edited["agent"], edited["content"]) == ("agent_coder", f"You said: {mark} right")
    assert (redirected["agent"], redirected["content"]) == ("agent_writer", f"You said: {mark} wrong")
    assert person.get(f"/my/chat/sessions/{session}")["recipient"] == "agent_coder"
    prompt = [
        entry["content"] for entry in model.asked_about(f"{mark} next")[0].body["messages"] if entry["role"] == "user"
    ]
    assert prompt == [f"{mark} right", f"{mark} wrong", f"{mark} next"]  # both replace the first entry
    to_all = person.http.post(url, json={"target_agent": None})
    assert (to_all.status_code, to_all.json()["mode"]) == (202, "orchestrated")
    assert_problem(person.http.post(url, json={"content": ""}), 422, "invalid_request")
    assert_problem(person.http.post(url, json={"target_agent": "nobody"}), 404, "agent_not_found")


@pytest.mark.req("CHT-12.6")
def test_queued_message_is_changed_until_it_begins(
    person: Person, other: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    script[f"{mark} first"] = hold = Hold()
    session = person.session()
    first = person.submit(session, f"{mark} first")
    eventually(lambda: hold.arrived)
    second, third = person.submit(session, f"{mark} second"), person.submit(session, f"{mark} third", None)
    recalled = person.submit(session, f"{mark} recalled")
    url = f"/my/chat/{session}/turns"
    assert person.http.post(f"{url}/{recalled}/cancel").status_code == 200
    assert_problem(person.http.patch(f"{url}/{recalled}", json={"content": "No"}), 409, "turn_started")

    turns = person.get(url)
    changed = [
        person.http.patch(f"{url}/{turn}", json={"content": f"{mark} changed {turn}"}) for turn in (second, third)
    ]
    late = person.http.patch(f"{url}/{first}", json={"content": "No"})
    queued = person.get(url, status="queued", limit=1)
    hold.release()
    eventually(lambda: person.turn(session, third)["finished_at"])

    assert [(turn["id"], turn["status"]) for turn in turns["items"]] == [
        (first, "running"), (second, "queued"), (third, "queued"),
    ]  # fmt: skip
    assert ([turn["id"] for turn in queued["items"]], queued["total"]) == ([second], 2)
    assert [(answer.status_code, answer.json()["id"]) for answer in changed] == [(200, second), (200, third)]
    assert_problem(late, 409, "turn_started")
    assert_problem(person.http.patch(f"{url}/{second}", json={"content": "No"}), 409, "turn_started")
    assert_problem(other.http.patch(f"{url}/{second}", json={"content": "No"}), 404, "session_not_found")
    assert_problem(other.http.get(url), 404, "session_not_found")
    assert_problem(person.http.get(url, params={"status": "asleep"}), 422, "invalid_request")
    assert person.get(url)["items"] == []
    assert [turn["id"] for turn in person.get(url, status="completed,failed")["items"]] == [first, second, third]
    questions = {entry["turn_id"]: entry["content"] for entry in person.history(session) if entry["role"] == "user"}
    assert (questions[second], questions[third]) == (f"{mark} changed {second}", f"{mark} changed {third}")
    assert model.asked_about(f"{mark} second") == model.asked_about(f"{mark} third") == []
    assert model.asked_about(f"{mark} changed {third}")
    [workflow] = person.get("/my/workflows", session_id=session)["items"]
    assert workflow["request"] == f"{mark} changed {third}"
    events = [entry.data for entry in person.events_of(session, second) if entry.type == "message_changed"]
    assert [entry["content"] for entry in events] == [f"{mark} changed {second}"]


@pytest.mark.req("CHT-12.5")
def test_cut_off_answer_is_continued(
    person: Person, other: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    script[f"{mark} tell"] = Hold(word="Once upon a time ")
    session = person.session()
    with person.follow(session, 0) as following:
        turn = person.submit(session, f"{mark} tell")
        following.until("message_delta")
        person.http.post(f"/my/chat/{session}/turns/{turn}/cancel")
    person.say(session, f"{mark} aside")
    url = f"/my/chat/{session}/turns/{turn}/continue"

    keyed = [person.http.post(url, headers={"Idempotency-Key": "k", "Prefer": "respond-async"}) for _ in range(2)]
    next_turn = keyed[0].json()["turn_id"]
    answer = eventually(lambda: [entry for entry in person.history(session) if entry["turn_id"] == next_turn])[-1]
    person.say(session, f"{mark} after")

    assert [(entry.status_code, entry.json()["turn_id"]) for entry in keyed] == [(202, next_turn)] * 2
    cut_off = person.history(session)[1]
    assert (cut_off["status"], cut_off["content"]) == ("continued", "Once upon a time ")
    assert (answer["role"], answer["agent"], answer["continues"]) == ("assistant", "agent_coder", cut_off["id"])
    [request] = [
        entry
        for entry in model.asked
        if "Your last answer was cut off" in entry.text and mark in json.dumps(entry.body)
    ]
    said = [(entry["role"], entry["content"]) for entry in request.body["messages"] if entry["role"] != "system"]
    assert said[:2] == [("user", f"{mark} tell"), ("assistant", "Once upon a time ")]
    assert len(said) == 3
    later = [
        entry["content"]
        for entry in model.asked_about(f"{mark} after")[0].body["messages"]
        if entry["role"] != "system"
    ]
    # The continuation follows the beginning, before what was said in between.
    aside = [f"{mark} aside", f"You said: {mark} aside"]
    assert later == [f"{mark} tell", "Once upon a time ", answer["content"], *aside, f"{mark} after"]
    events = person.events_of(session, next_turn)
    assert (events[0].type, events[0].data["message_id"]) == ("answer_continued", cut_off["id"])
    assert [entry.data["continues"] for entry in events if entry.type == "message_completed"] == [cut_off["id"]]
    assert person.turn(session, next_turn)["continues"] == cut_off["id"]
    assert_problem(person.http.post(url), 409, "not_cut_off")
    assert_problem(person.http.post(f"/my/chat/{session}/turns/{next_turn}/retry"), 409, "turn_not_over")
    assert_problem(other.http.post(url), 404, "session_not_found")

    person.http.post(f"/my/chat/{session}/turns/{turn}/retry", headers={"Prefer": "respond-async"})
    statuses = [(entry["content"], entry["status"]) for entry in person.history(session)]
    assert ("Once upon a time ", "cut_off") in statuses
    assert (answer["content"], "retried") in statuses


@pytest.mark.req("CHT-12.5")
def test_continuation_that_is_cut_off_is_continued_again(
    person: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    task = {"id": "1", "agent": "agent_writer", "description": f"{mark} tell", "depends_on": []}
    script[f"{mark} tell"] = [Say(json.dumps({"tasks": [task]})), Hold(word="One, ")]
    session = person.session()
    with person.follow(session, 0) as following:
        turn = person.submit(session, f"{mark} tell", None)  # one agent answers for the orchestrator
        following.until("message_delta")
        person.http.post(f"/my/chat/{session}/turns/{turn}/cancel")
        model.script(Hold(word="two, "), Say("three."), about="Your last answer was cut off")
        again = person.http.post(
            f"/my/chat/{session}/turns/{turn}/continue", headers={"Prefer": "respond-async"}
        ).json()
        following.until("message_delta")  # words are not stored: they may come before the event that announces them
        busy = person.http.post(f"/my/chat/{session}/turns/{turn}/continue")
        person.http.post(f"/my/chat/{session}/turns/{again['turn_id']}/cancel")
    last = person.http.post(f"/my/chat/{session}/turns/{again['turn_id']}/continue").json()

    assert_problem(busy, 409, "not_cut_off")
    assert (last["agent"], last["content"]) == ("agent_writer", "three.")
    answers = [entry for entry in person.history(session) if entry["role"] == "assistant"]
    assert [(entry["content"], entry["status"]) for entry in answers] == [
        ("One, ", "continued"), ("two, ", "continued"), ("three.", "ok"),
    ]  # fmt: skip
    assert [entry["continues"] for entry in answers] == [None, answers[0]["id"], answers[1]["id"]]
    requests = [
        entry
        for entry in model.asked
        if "Your last answer was cut off" in entry.text and mark in json.dumps(entry.body)
    ]
    said = [entry["content"] for entry in requests[-1].body["messages"] if entry["role"] != "system"][:-1]
    assert said == [f"{mark} tell", "One, ", "two, "]


@pytest.mark.req("CHT-11.4")
def test_one_agent_answers_at_once_for_the_orchestrator(
    person: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    project = person.project()["id"]
    for agent in person.get(f"/my/projects/{project}/agents")["items"]:
        if agent["name"] == "agent_coder":
            changed = person.http.patch(
                f"/my/projects/{project}/agents/{agent['id']}", json={"model": "unpriced-model"}
            )
            assert changed.status_code == 200, changed.text
        else:
            person.http.delete(f"/my/projects/{project}/agents/{agent['id']}")
    script[mark] = hold = Hold(word="Well, ", text="yes.")
    session = person.session(project)
    with person.follow(session, 0) as following:
        turn = person.submit(session, mark, None)
        delta = following.until("message_delta")[-1]
        hold.release()
        events = following.until("turn_completed")

    [completed] = [entry.data for entry in events if entry.type == "message_completed"]
    assert delta.data["message_id"] == completed["message_id"]
    assert completed["content"] == "Well, yes."
    assert [request.schema_name for request in model.asked_about(mark)] == [None]  # nothing was planned by a model
    assert person.get("/my/approvals")["total"] == 0
    [answer] = [entry for entry in person.history(session) if entry["role"] == "assistant"]
    assert (answer["agent"], answer["usage"]["cost_usd"], answer["context"]) == ("agent_coder", None, 0)
    assert person.get(f"/my/chat/sessions/{session}")["cost_usd"] is None  # its price is not known
    [workflow] = person.get("/my/workflows", session_id=session)["items"]
    assert (workflow["turn_id"], workflow["planned_by"]) == (turn, "only_agent")


@pytest.mark.req("CHT-12.1")
def test_session_asks_about_every_plan_or_lets_one_agent_answer(
    person: Person, other: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    script[mark] = Say()
    asking = person.session(plan_mode="ask")
    assert _session(person, asking)["plan_mode"] == "ask"
    url = f"/my/chat/sessions/{asking}"
    assert_problem(person.http.patch(url, json={"plan_mode": "sometimes"}), 422, "invalid_request")
    assert_problem(other.http.patch(url, json={"plan_mode": "auto"}), 404, "session_not_found")

    accepted = person.post(asking, mark, None, {"Prefer": "wait=30"})

    assert accepted.status_code == 202, accepted.text  # a single task too
    approval = accepted.json()["approval_id"]
    person.http.post(f"/my/approvals/{approval}/confirm", json={"decision": "approve"})
    turn = accepted.json()["turn_id"]
    eventually(lambda: person.turn(asking, turn)["status"] == "completed")
    planned = len([request for request in model.asked_about(mark) if request.schema_name == "plan"])

    assert person.http.patch(url, json={"plan_mode": "never"}).json()["plan_mode"] == "never"
    answered = person.post(asking, f"{mark} for the writer", None, {"Prefer": "wait=30"})

    assert answered.status_code == 200, answered.text
    assert answered.json()["agent"] == "agent_writer"
    assert len([request for request in model.asked_about(mark) if request.schema_name == "plan"]) == planned == 1
    [workflow] = [plan for plan in person.get("/my/workflows", session_id=asking)["items"] if plan["turn_id"] != turn]
    assert workflow["planned_by"] == "one_agent"
    forked = person.http.post(f"{url}/fork", json={"message_id": person.history(asking)[-1]["id"]}).json()
    assert (forked["plan_mode"], _session(person, person.session())["plan_mode"]) == ("never", "auto")
