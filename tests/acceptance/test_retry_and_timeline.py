"""Retries, partial answers and the timeline of a session, through HTTP, on SQLite and PostgreSQL."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.actors.coder_user import CoderUser
from tests.conftest import Write
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import Behaviour, ByMark, Cut, Fail, Hold, ModelServer, Raw, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server, artel, clean_environment
from tests.terminal import Terminal

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.mark.req("CHT-10.3")
def test_retry_sends_the_same_message_to_the_same_agent_and_replaces_it_in_prompts(
    person: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    script[mark] = [Fail(400), Say("At last.")]
    session = person.session()
    assert_problem(person.post(session, f"{mark} once", "writer"), 502, "agent_failed")
    failed = person.history(session)[0]["turn_id"]

    answer = person.http.post(f"/my/chat/{session}/turns/{failed}/retry")
    person.say(session, f"{mark} next", "writer")

    assert answer.status_code == 200, answer.text
    again = answer.json()
    assert (again["agent"], again["content"], again["mode"]) == ("agent_writer", "At last.", "direct")
    assert again["turn_id"] != failed
    assert person.turn(session, again["turn_id"])["retry_of"] == failed
    messages = [(message["role"], message["status"], message["retry_of"]) for message in person.history(session)[:4]]
    assert messages == [
        ("user", "retried", None),
        ("system", "failed", None),
        ("user", "ok", failed),
        ("assistant", "ok", None),
    ]
    prompt = [
        message["content"]
        for message in model.asked_about(f"{mark} next")[0].body["messages"]
        if message["role"] == "user"
    ]
    assert prompt == [f"{mark} once", f"{mark} next"]
    created = person.events_of(session, again["turn_id"])[0]
    assert (created.type, created.data["retry_of"]) == ("message_created", failed)


@pytest.mark.req("CHT-10.3")
def test_retried_answer_is_left_out_of_prompt(person: Person, model: ModelServer, mark: str) -> None:
    session = person.session()
    first = person.say(session, mark)

    person.http.post(f"/my/chat/{session}/turns/{first['turn_id']}/retry")

    said = [one["content"] for one in model.asked_about(mark)[-1].body["messages"] if one["role"] != "system"]
    assert said == [mark]


@pytest.mark.req("CHT-10.3")
def test_retry_responds_like_send_and_is_idempotent_by_key(person: Person) -> None:
    session = person.session()
    first = person.say(session, "Hello")["turn_id"]
    url = f"/my/chat/{session}/turns/{first}/retry"

    waits = [person.http.post(url, headers={"Prefer": "respond-async", "Idempotency-Key": "k"}) for _ in range(2)]
    streamed = person.http.post(url, headers={"Accept": "text/event-stream"})

    assert [answer.status_code for answer in waits] == [202, 202]
    assert waits[0].json()["turn_id"] == waits[1].json()["turn_id"] != first
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert "event: turn_completed" in streamed.text
    assert sum(message["role"] == "user" for message in person.history(session)) == 3


@pytest.mark.req("CHT-10.3")
def test_an_orchestrated_turn_is_retried_as_a_new_one_with_a_workflow_of_its_own(person: Person) -> None:
    session = person.session()
    first = person.post(session, "Say hello", None, {"Prefer": "wait=30"}).json()

    again = person.http.post(f"/my/chat/{session}/turns/{first['turn_id']}/retry")

    assert (again.status_code, again.json()["mode"]) == (202, "orchestrated")
    eventually(lambda: person.turn(session, again.json()["turn_id"])["finished_at"])
    requests = [one["request"] for one in person.get("/my/workflows", session_id=session)["items"]]
    assert requests == ["Say hello", "Say hello"]


@pytest.mark.req("CHT-10.3")
def test_only_own_finished_turn_can_be_retried(person: Person, other: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold()
    session = person.session()
    turn = person.submit(session, mark)
    url = f"/my/chat/{session}/turns/{turn}/retry"
    eventually(lambda: hold.arrived)

    assert_problem(person.http.post(url), 409, "turn_not_over")
    hold.release()
    eventually(lambda: person.turn(session, turn)["finished_at"])

    assert_problem(other.http.post(url), 404, "turn_not_found")
    assert_problem(person.http.post(f"/my/chat/{person.session()}/turns/{turn}/retry"), 404, "turn_not_found")
    assert len(person.history(session)) == 2


@pytest.mark.req("CHT-10.2")
def test_partial_answer_of_cancelled_turn_is_stored_but_not_in_later_prompts(
    person: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    script[f"{mark} first"] = hold = Hold(word="Well, ")
    session = person.session()
    with person.follow(session, 0) as following:
        turn = person.submit(session, f"{mark} first")
        following.until("message_delta")
        person.http.post(f"/my/chat/{session}/turns/{turn}/cancel")
    assert hold.abandoned.wait(10)
    person.say(session, f"{mark} second")

    messages = person.history(session)[:3]
    assert [
        (message["role"], message["status"], message["error_code"], message["content"]) for message in messages
    ] == [
        ("user", "ok", None, f"{mark} first"),
        ("assistant", "cut_off", "cancelled", "Well, "),
        ("system", "failed", "cancelled", "You stopped this."),
    ]
    assert (messages[1]["agent"], messages[1]["turn_id"]) == ("agent_coder", turn)
    events = [event for event in person.events_of(session, turn) if event.type == "message_completed"]
    assert [(event.data["role"], event.data["status"]) for event in events] == [
        ("assistant", "cut_off"),
        ("system", "failed"),
    ]
    assert [event.number for event in events] == [message["number"] for message in messages[1:]]
    prompt = [message["content"] for message in model.asked_about(f"{mark} second")[0].body["messages"]]
    assert not any("Well, " in (content or "") for content in prompt)


# It is not tried again, so that no draft is stored before the turn ends.
LATE_REFUSAL = Raw(
    b'data: {"choices": [{"index": 0, "delta": {"content": "One two three"}}]}\n\n'
    b'data: {"error": {"message": "Not this.", "code": 400}}\n\n',
    content_type="text/event-stream",
)


@pytest.mark.req("CHT-10.2")
@pytest.mark.parametrize("broken", [Cut("One two three", broken=True), LATE_REFUSAL], ids=["cut", "refused"])
def test_partial_answer_of_failed_turn_is_stored(person: Person, script: ByMark, mark: str, broken: Behaviour) -> None:
    script[mark] = broken
    session = person.session()

    assert person.post(session, mark).status_code == 502

    messages = person.history(session)
    assert [(message["role"], message["status"]) for message in messages] == [
        ("user", "ok"),
        ("assistant", "cut_off"),
        ("system", "failed"),
    ]
    assert messages[1]["content"] == "One two three"
    assert messages[1]["error_code"] == messages[2]["error_code"]


@pytest.mark.req("CHT-10.2")
def test_partial_answer_of_cancelled_plan_is_stored(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = [Say(json.dumps({"tasks": [_task()]})), Hold(word="Well, ")]
    session = person.session()
    with person.follow(session, 0) as following:
        turn = person.submit(session, mark, None)
        following.until("message_delta")
        person.http.post(f"/my/chat/{session}/turns/{turn}/cancel")

    kept = [(one["role"], one["status"], one["content"]) for one in person.history(session)[1:]]
    assert kept == [("assistant", "cut_off", "Well, "), ("system", "failed", "You stopped this.")]


def _task() -> dict[str, object]:
    return {"id": "a", "agent": "agent_coder", "description": "Say it", "depends_on": []}


# Another turn of the session, in which the same file was put back again and again.
MANY_UNDOS = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1100)
INSERT INTO tool_calls
    (id, user_id, project_id, session_id, turn_id, agent, tool, arguments, level, status, created_at)
SELECT :mark || n, call.user_id, call.project_id, call.session_id, message.turn_id, '', 'undo', call.arguments,
    call.level, 'done', message.created_at
FROM tool_calls AS call, messages AS message, numbers
WHERE call.tool = 'tool_delete_file' AND call.status = 'refused' AND call.session_id = :session_id
    AND message.turn_id = :later AND message.role = 'user'
"""


def read_write_delete_undo(user: CoderUser, folder: Path) -> str:
    """Let the agent read, write a file and ask to delete it; refuse that, undo the turn and return its id."""
    user.script(
        ("tool_read_file", {"path": "a.txt"}),
        ("tool_list_directory", {"path": "."}),
        ("tool_read_file", {"path": "none.txt"}),
        ("tool_write_file", {"path": "a.txt", "content": "old\n"}),
        ("tool_write_file", {"path": "a.txt", "content": "new\nmore\n"}),
        ("tool_delete_file", {"path": "a.txt"}),
    )
    with connected_folder(folder, user.person, user.project, "--ask", "browser"):
        waiting = user.ask()
        turn: str = waiting["turn_id"]
        user.decide(waiting["approval_id"], decision="approve")
        [deletion] = eventually(
            lambda: [approval for approval in user.approvals() if approval["tool"] == "tool_delete_file"], 30
        )
        assert "is deleted" not in json.dumps(deletion["details"])
        user.decide(deletion["id"], decision="reject", feedback="I need it")
        assert user.ended(turn, 30)["status"] == "completed"
        undone = user.person.http.post(f"/my/projects/{user.project}/undo", json={"turn_id": turn})
        assert undone.status_code == 200, undone.text
    return turn


@pytest.mark.req("CHT-10.1", "CHT-10.6")
def test_timeline_lists_actions_and_decisions_in_order(
    person: Person, other: Person, model: ModelServer, mark: str, tmp_path: Path, write: Write
) -> None:
    user = CoderUser(person, person.project()["id"], model, mark)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("old\n")
    turn = read_write_delete_undo(user, tmp_path)

    whole = person.get(f"/my/chat/{user.session}/timeline")
    items = whole["items"]
    words = [(item["kind"], item["text"]) for item in items]
    assert words[:3] == [
        ("message", mark),
        ("tool_call", "agent_coder read a.txt."),
        ("tool_call", "agent_coder listed the folder."),
    ]
    assert words[3][1].startswith("agent_coder did not read none.txt: ")
    assert words[4:] == [
        ("tool_call", "agent_coder did not change a.txt: it already says this."),
        ("approval", "agent_coder asked to write a.txt. You approved it."),
        ("file_change", "agent_coder wrote a.txt."),
        ("approval", "agent_coder asked to delete a.txt. You refused. Nothing was deleted."),
        ("message", "Done."),
        ("file_change", "a.txt was put back."),
    ]
    assert {item["turn_id"] for item in items} == {turn}
    assert [item["at"] for item in items] == sorted(item["at"] for item in items)
    approval, change, refusal = items[5]["approval"], items[6]["file_change"], items[7]["approval"]
    assert (approval["status"], approval["where"], "+new" in approval["details"]["diff"]) == ("used", "browser", True)
    assert (refusal["status"], refusal["feedback"]) == ("rejected", "I need it")
    assert (change["action"], change["path"], change["added"], change["removed"]) == ("write", "a.txt", 2, 1)
    assert (change["undone"], change["approval_id"]) == (True, items[5]["id"])
    assert items[-1]["file_change"]["files"] == [{"path": "a.txt", "outcome": "restored"}]

    assert whole["total"] == len(items) == 10
    pages = [person.get(f"/my/chat/{user.session}/timeline", limit=4, offset=start)["items"] for start in (0, 4, 8)]
    assert [item for page in pages for item in page] == items
    newest = person.get(f"/my/chat/{user.session}/timeline", last=3)
    assert (newest["items"], newest["offset"], newest["total"]) == (items[-3:], 7, 10)
    assert_problem(other.http.get(f"/my/chat/{user.session}/timeline"), 404, "session_not_found")
    for url in ("/my/approvals", f"/my/projects/{user.project}/audit"):
        assert {item["session_id"] for item in person.get(url, session_id=user.session)["items"]} == {user.session}
        assert person.get(url, session_id=person.session(user.project))["items"] == []
        assert_problem(person.http.get(url, params={"session_id": other.session()}), 404, "session_not_found")

    later = person.say(user.session, "Hello")["turn_id"]
    write(MANY_UNDOS, mark=mark, session_id=user.session, later=later)
    assert person.get(f"/my/chat/{user.session}/timeline", limit=7)["items"] == items[:7]  # still undone


@pytest.mark.req("CHT-10.1", "CLI-01.11")
def test_timeline_tells_the_undo_of_a_new_file_from_that_of_a_changed_one(
    person: Person, model: ModelServer, mark: str, tmp_path: Path
) -> None:
    user = CoderUser(person, person.project()["id"], model, mark)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("old\n")
    user.script(
        ("tool_write_file", {"path": "a.txt", "content": "mine\n"}),
        ("tool_write_file", {"path": "new.txt", "content": "mine\n"}),
    )
    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser"):
        waiting = user.ask()
        user.decide(waiting["approval_id"], decision="approve")
        [second] = eventually(
            lambda: [approval for approval in user.approvals() if approval["id"] != waiting["approval_id"]], 30
        )
        user.decide(second["id"], decision="approve")
        assert user.ended(waiting["turn_id"], 30)["status"] == "completed"
        undone = user.person.http.post(f"/my/projects/{user.project}/undo", json={"turn_id": waiting["turn_id"]})
        assert undone.status_code == 200, undone.text
        told = person.get(f"/my/chat/{user.session}/timeline")["items"][-1]["text"]
    assert told == "new.txt was removed. a.txt was put back."


@pytest.mark.req("CHT-10.6")
def test_refused_call_is_not_described_as_done(person: Person, model: ModelServer, mark: str, tmp_path: Path) -> None:
    user = CoderUser(person, person.project()["id"], model, mark)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".env").write_text("KEY=secret\n")
    user.script(("tool_read_file", {"path": ".env"}))
    with connected_folder(tmp_path, person, user.project, "--ask", "browser"):
        user.ask()

    [call] = [item for item in person.get(f"/my/chat/{user.session}/timeline")["items"] if item["kind"] == "tool_call"]
    assert call["tool_call"]["status"] == "refused"
    assert call["text"].startswith("agent_coder was not allowed to read .env: ")


@pytest.mark.req("CHT-10.6")
def test_task_of_a_plan_whose_second_call_was_approved_is_done(
    person: Person, script: ByMark, model: ModelServer, mark: str, tmp_path: Path
) -> None:
    user = CoderUser(person, person.project()["id"], model, mark)
    (tmp_path / "work").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "work" / name).write_text(name)
    delete = {**_task(), "description": f"{mark} Delete a file"}
    deletions = [Say(tools=[Tool("tool_delete_file", json.dumps({"path": name}))]) for name in ("a.txt", "b.txt")]
    script[mark] = [Say(json.dumps({"tasks": [delete]})), *deletions, Say("Deleted.")]
    with connected_folder(tmp_path, person, user.project, "--ask", "browser"):
        turn = person.submit(user.session, mark, None)
        for answer in ("reject", "approve"):
            [approval] = eventually(user.approvals, 30)
            user.decide(approval["id"], decision=answer)
        assert user.ended(turn, 60)["status"] == "completed"

    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["a.txt"]
    [workflow] = person.get("/my/workflows", session_id=user.session)["items"]
    assert [(task["status"], task["refused"]) for task in workflow["tasks"]] == [("completed", False)]


@pytest.mark.req("CHT-10.6")
@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("answer", ["reject", None], ids=["refused", "expired"])
def test_task_of_a_plan_that_was_not_approved_is_not_described_as_done(
    person: Person,
    script: ByMark,
    model: ModelServer,
    mark: str,
    tmp_path: Path,
    write: Write,
    answer: str | None,
    tasks: int,
) -> None:
    user = CoderUser(person, person.project()["id"], model, mark)
    plans = {"approve_from_tasks": 20, "approve_over_usd": 10}
    person.http.patch(f"/my/projects/{user.project}", json={"settings": {"plans": plans}}).raise_for_status()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "README.md").write_text("# Mine\n")
    delete = {**_task(), "description": f"{mark} Delete README.md"}
    last = {**_task(), "id": "b", "description": f"{mark} Say it", "depends_on": ["a"]}
    deletion = Tool("tool_delete_file", json.dumps({"path": "README.md"}))
    script[mark] = [Say(json.dumps({"tasks": [delete, last][:tasks]})), Say(tools=[deletion]), Say("It stays.")]
    with connected_folder(tmp_path, person, user.project, "--ask", "browser"):
        turn = person.submit(user.session, mark, None)
        [approval] = eventually(user.approvals, 30)
        if answer:
            user.decide(approval["id"], decision=answer)
        else:
            past = datetime.now(UTC) - timedelta(seconds=1)
            write("UPDATE approvals SET expires_at = :past WHERE id = :id", past=past, id=approval["id"])
        assert user.ended(turn, 60)["status"] == "completed"

    assert (tmp_path / "work" / "README.md").exists()
    [workflow] = person.get("/my/workflows", session_id=user.session)["items"]
    assert [(task["status"], task["refused"]) for task in workflow["tasks"]] == [
        ("completed", number == 0) for number in range(tasks)
    ]
    [item] = [item for item in person.get(f"/my/chat/{user.session}/timeline")["items"] if item["plan"]]
    assert (item["plan"]["tasks_done"], item["plan"]["tasks_refused"]) == (tasks - 1, 1)
    assert item["text"] == (
        "Plan: 1 task, answered."
        if tasks == 1
        else "Plan: 1 of 2 tasks done, 1 answered without what you did not approve, answered."
    )
    env = clean_environment(tmp_path, ARTEL_SERVER=str(person.http.base_url), ARTEL_TOKEN=person.token)
    [row] = artel("workflows", "list", env=env).stdout.splitlines()[1:]
    assert f"{tasks - 1} of {tasks}" in row
    with Terminal("chat", "--session", user.session, env=env) as terminal:
        terminal.until("> ")
        terminal.type("/plan")
        status = terminal.until("Delete README.md")
    line = status[status.index("The plan is") :]
    assert "answered, not approved" in line.splitlines()[1]
    for shown in (row, line.splitlines()[0], artel("workflows", "show", workflow["id"], env=env).stdout):
        assert "answered" in shown
        assert "completed" not in shown.replace("b     completed", "")
    exported = person.http.get(f"/my/chat/sessions/{user.session}/export", params={"format": "markdown"}).text
    assert "- [ ] a, agent_coder (answered, not approved): " in exported


@pytest.mark.req("CHT-10.1")
def test_timeline_shows_results_in_short(person: Person, model: ModelServer, mark: str, tmp_path: Path) -> None:
    user = CoderUser(person, person.project()["id"], model, mark)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "long.txt").write_text("word\n" * 1_000)
    for number in range(60):
        (tmp_path / "work" / f"{number:02}.txt").write_text("")
    user.script(
        ("tool_read_file", {"path": "long.txt"}),
        ("tool_list_directory", {"path": "."}),
        ("tool_run_command", {"name": "test"}),
        ("write_file", {"path": "notes.md", "content": "mine"}),
        ("read_file", {"path": "notes.md"}),
        ("tool_read_file", {"path": "none.txt"}),
    )
    with connected_folder(tmp_path, person, user.project, "--yes", "--run", "test=sh -c 'echo no; exit 3'"):
        answer = user.ask()
        user.decide(answer["approval_id"], decision="approve")
        user.ended(answer["turn_id"], 30)

    items = person.get(f"/my/chat/{user.session}/timeline")["items"]
    results = [item["tool_call"]["result"] for item in items if item["kind"] == "tool_call"]
    read, listed, ran, written, own, missing = results
    assert read == {"text": "word\n" * 400, "is_cut": True, "count": None, "exit_code": None}
    assert listed["text"].splitlines()[:2] == ["00.txt", "01.txt"]
    assert (listed["is_cut"], listed["count"]) == (True, 61)
    assert (ran["text"], ran["exit_code"]) == ("no\n", 3)
    assert "notes.md" in written["text"]
    assert own["text"] == "mine"
    assert missing is None


@pytest.mark.req("CHT-10.1")
def test_timeline_contains_plans_and_notices(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = [Say(json.dumps({"tasks": [_task()]})), Say("Planned and done.")]
    script[f"{mark} stop"] = hold = Hold()
    session = person.session()
    person.post(session, mark, None, {"Prefer": "wait=30"})
    turn = person.submit(session, f"{mark} stop")
    eventually(lambda: hold.arrived)
    person.http.post(f"/my/chat/{session}/turns/{turn}/cancel")

    items = person.get(f"/my/chat/{session}/timeline")["items"]

    assert [item["kind"] for item in items] == ["message", "plan", "message", "message", "notice"]
    plan = items[1]["plan"]
    assert (plan["status"], plan["tasks"], plan["tasks_done"]) == ("completed", 1, 1)
    assert plan["cost"] == person.get(f"/my/workflows/{plan['workflow_id']}")["cost"]
    assert (items[-1]["text"], items[-1]["notice"]["code"]) == ("You stopped this.", "cancelled")
