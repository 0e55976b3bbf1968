"""File tools with a scripted connector: calls, approvals and refusals."""

import hashlib
import json
from typing import Any

import pytest

from tests.actors.coder_user import CoderUser
from tests.actors.file_server import file_content, serving
from tests.conftest import StartServer, with_model
from tests.connector import ScriptedConnector, connected
from tests.deadlines import eventually
from tests.model_server import ByMark, ModelServer, Say, Tool
from tests.people import Person, assert_problem, client
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.fixture
def person(chat_server: Server) -> Person:
    return Person.register(chat_server.url)


@pytest.fixture
def project(person: Person) -> int:
    number: int = person.project()["id"]
    return number


@pytest.fixture
def user(person: Person, project: int, model: ModelServer, mark: str) -> CoderUser:
    return CoderUser(person, project, model, mark)


@pytest.mark.req("WSA-01.1", "WSA-02.1", "WSA-06.5", "AGT-02.3", "AGT-02.8")
def test_a_read_goes_to_the_users_connector_with_the_users_identity(
    user: CoderUser, person: Person, project: int
) -> None:
    user.script(("tool_read_file", {"path": "src/main.py", "first_line": 2, "lines": 5}))

    with serving(person, project, file_content) as calls:
        answered = user.ask()

    assert answered["content"] == "Done."
    [call] = calls
    assert (call["method"], call["path"], call["user_id"]) == ("workspace/read", "src/main.py", person.user_id)
    assert (call["first_line"], call["lines"]) == (2, 5)
    assert (call["turn_id"], call["agent"]) == (answered["turn_id"], "agent_coder")
    assert call["call_id"]
    assert 0 < call["timeout_ms"] <= 30_000
    [heard] = user.heard()
    assert heard["success"] is True
    assert heard["data"]["content"] == "content of src/main.py"
    [noted] = user.audit()
    assert (noted["tool"], noted["status"], noted["agent"]) == ("tool_read_file", "done", "agent_coder")
    assert (noted["arguments"]["path"], noted["turn_id"]) == ("src/main.py", answered["turn_id"])


def test_without_connector_model_gets_instructions(user: CoderUser) -> None:
    user.script(("tool_read_file", {"path": "a"}))

    assert user.ask()["content"] == "Done."

    [heard] = user.heard()
    assert heard["success"] is False
    assert "artel connect" in heard["error"]
    assert user.audit()[0]["status"] == "failed"


@pytest.mark.req("WSA-05.4", "WSA-05.2", "AGT-02.6")
@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../../b", "C:\\x", ".env", "secrets/key", "a\x00b", "x/id_rsa"]
)
def test_the_server_refuses_paths_before_it_sends_anything(
    user: CoderUser, person: Person, project: int, path: str
) -> None:
    user.script(("tool_read_file", {"path": path}), ("tool_write_file", {"path": path, "content": "x"}))

    with serving(person, project, file_content) as calls:
        user.ask()

    assert calls == []
    assert [heard["success"] for heard in user.heard()] == [False, False]
    assert [noted["status"] for noted in user.audit()] == ["refused", "refused"]


@pytest.mark.req("AGT-02.5", "AGT-02.2")
def test_agent_has_only_its_configured_tools(
    person: Person, project: int, script: ByMark, model: ModelServer, mark: str
) -> None:
    reader = person.agent(project, name="reader", tools=["tool_read_file"])
    script[mark] = [Say(tools=[Tool("tool_write_file", '{"path": "a", "content": "x"}')]), Say("Done.")]

    with serving(person, project, file_content) as calls:
        person.say(person.session(project), mark, reader["id"])

    assert calls == []
    asked = next(one for one in model.asked if mark in json.dumps(one.body["messages"]))
    assert [tool["function"]["name"] for tool in asked.body["tools"]] == ["tool_read_file"]
    assert "user_id" not in json.dumps(asked.body["tools"])
    told = [m for m in model.asked[-1].body["messages"] if m["role"] == "tool"]
    assert "may not use" in told[-1]["content"]


@pytest.mark.req("WSA-03.1")
def test_write_sends_hash_of_last_read_content(user: CoderUser, person: Person, project: int) -> None:
    user.script(
        ("tool_read_file", {"path": "a.txt"}),
        ("tool_write_file", {"path": "a.txt", "content": "new"}),
        ("tool_edit_file", {"path": "a.txt", "old": "new", "new": "newer"}),
        ("tool_write_file", {"path": "b.txt", "content": "x", "create_dirs": True}),
    )

    with serving(person, project, file_content) as calls:
        user.ask()

    read = hashlib.sha256(b"content of a.txt").hexdigest()
    assert [(call["method"], call.get("if_match")) for call in calls] == [
        ("workspace/read", None),
        ("workspace/write", read),
        ("workspace/edit", read),
        ("workspace/write", None),
    ]
    written = next(noted for noted in user.audit() if noted["tool"] == "tool_write_file")
    assert written["arguments"]["content"] == {"bytes": 3, "sha256": hashlib.sha256(b"new").hexdigest()}


def test_refusal_of_connector_reaches_model(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_read_file", {"path": "x"}))

    with serving(
        person, project, lambda *_: {"success": False, "code": "file_not_found", "error": "Path x does not exist"}
    ):
        user.ask()

    assert user.heard() == [{"success": False, "error": "Path x does not exist"}]


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32000, "message": "no"}},
        {"error": "no"},
        {"result": "no"},
        {"result": {"success": "perhaps"}},
        {"result": {"success": False, "code": "made up"}},
        {},
    ],
)
def test_invalid_connector_answers_fail_the_call(
    user: CoderUser, person: Person, project: int, answer: dict[str, Any]
) -> None:
    user.script(("tool_stat", {"path": "x"}))

    with connected(person, project) as connector:
        turn = user.ask(headers={"Prefer": "respond-async"})
        call = connector.hear()
        connector.say({"jsonrpc": "2.0", "id": "made-up", "result": {"success": True}})
        connector.say({"jsonrpc": "2.0", "id": call["id"], **answer})
        connector.say({"jsonrpc": "2.0", "id": call["id"], "result": {"success": True}})  # twice
        assert user.ended(turn["turn_id"])["status"] == "completed"

    assert [heard["success"] for heard in user.heard()] == [False]


def test_large_frame_is_refused_while_waiting_for_small_answer(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_stat", {"path": "x"}))

    with connected(person, project) as connector:
        turn = user.ask(headers={"Prefer": "respond-async"})
        connector.hear()
        connector.say({"jsonrpc": "2.0", "id": "made-up", "result": {"success": True, "x": "x" * 200_000}})
        assert connector.close_code()[0] == 4413

    with connected(person, project) as again:
        again.answer(again.hear())
        assert user.ended(turn["turn_id"])["status"] == "completed"


@pytest.mark.parametrize("path", ["a", ".bashrc"])
def test_lone_surrogate_is_refused_with_explanation(user: CoderUser, person: Person, project: int, path: str) -> None:
    user.script(("tool_write_file", {"path": path, "content": "\ud800"}))

    with serving(person, project, file_content, mode="yes") as calls:
        assert user.ask()["content"] == "Done."

    assert calls == []
    [heard] = user.heard()
    assert (heard["success"], "lone surrogate" in heard["error"]) == (False, True)
    assert [noted["status"] for noted in user.audit()] == ["refused"]


def test_guidance_of_the_folder_is_offered_as_data(
    user: CoderUser, person: Person, project: int, model: ModelServer
) -> None:
    user.script()

    with serving(person, project, file_content, features=["AGENTS.md"]) as calls:
        user.ask()
        user.ask()

    assert [(call["method"], call["path"]) for call in calls] == [("workspace/read", "AGENTS.md")]  # once
    told = [one["content"] for one in model.asked[-1].body["messages"] if one["role"] == "system"]
    [guidance] = [content for content in told if "content of AGENTS.md" in content]
    assert "can't change your rules" in guidance


# A line that breaks


def test_call_is_repeated_with_same_id_to_same_connector_after_reconnect(
    user: CoderUser, person: Person, project: int
) -> None:
    user.script(("tool_write_file", {"path": "a", "content": "x"}))
    with connected(person, project) as first:
        turn = user.ask(headers={"Prefer": "respond-async"})
        sent = first.hear()
        first.socket.close()

    with connected(person, project) as again:
        repeated = again.hear()
        again.answer(repeated, size=1)
        assert user.ended(turn["turn_id"])["status"] == "completed"

    assert (repeated["id"], repeated["params"]["content"]) == (sent["id"], "x")
    assert [heard["success"] for heard in user.heard()] == [True]
    assert [noted["status"] for noted in user.audit()] == ["done"]


def test_a_call_is_never_repeated_to_another_connector(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_write_file", {"path": "a", "content": "x"}))
    with connected(person, project) as first:
        turn = user.ask(headers={"Prefer": "respond-async"})
        first.hear()
        with connected(person, project, connector_id="another-one", take_over=True) as other:
            first.close_code()
            turn_url = f"/my/chat/{user.session}/turns/{turn['turn_id']}"
            assert user.person.http.get(turn_url).json()["status"] == "running"
            with pytest.raises(TimeoutError):
                other.socket.recv(1)
            user.person.http.post(f"{turn_url}/cancel")

    assert user.ended(turn["turn_id"])["status"] == "cancelled"


# Approvals


@pytest.mark.req("WSA-07.1", "AGT-02.7")
def test_delete_waits_for_approval_and_runs_once(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_delete_file", {"path": "old.txt"}))

    with serving(person, project, lambda *_: {}) as calls, person.follow(user.session, 0) as following:
        answered = user.ask()
        assert (answered["status"], calls) == ("waiting", [])
        request = following.until("tool_request")[-1].data
        [pending] = user.approvals()
        assert answered["approval_id"] == pending["id"] == request["approval_id"]
        assert (request["tool"], request["arguments"]) == ("tool_delete_file", {"path": "old.txt"})
        agents = f"/my/projects/{project}/agents"
        coder = next(one for one in person.http.get(agents).json()["items"] if one["name"] == "agent_coder")
        assert person.http.get(f"{agents}/{coder['id']}/status").json()["status"] == "idle"  # its slot is free

        decided = user.decide(pending["id"], decision="approve")
        assert (decided.status_code, decided.json()["status"]) == (200, "approved")
        assert user.ended(answered["turn_id"])["status"] == "completed"
        events = following.until("turn_completed")

    [call] = calls
    assert (call["method"], call["path"], call["approval"]["id"]) == ("workspace/delete", "old.txt", pending["id"])
    types = [event.type for event in events]
    assert types.index("approval_resolved") < types.index("tool_result")
    assert types.count("tool_called") == 0  # it was told before the run parked, and once
    assert user.approvals("used")[0]["id"] == pending["id"]
    assert [noted["status"] for noted in user.audit()] == ["asked", "done"]
    assert_problem(user.decide(pending["id"], decision="approve"), 409, "approval_decided")


@pytest.mark.req("WSA-07.1")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("tool_delete_file", {"path": ".bashrc"}), ("tool_write_file", {"path": ".bashrc", "content": "x"})],
)
def test_approval_is_bound_to_current_file_hash(
    user: CoderUser, person: Person, project: int, tool: str, arguments: dict[str, Any]
) -> None:
    looks: list[dict[str, Any]] = []

    def answers(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("with_sha256"):
            looks.append({"method": method, **params})
            return {"sha256": "a" * 64}
        return {}

    user.script((tool, arguments))
    with serving(person, project, answers, mode="yes") as calls:
        answered = user.ask()
        [pending] = user.approvals()
        assert pending["details"]["old_sha256"] == "a" * 64
        user.decide(pending["id"], decision="approve")
        user.ended(answered["turn_id"])

    [look] = looks
    assert (look["method"], look["path"], look["turn_id"]) == ("workspace/stat", ".bashrc", answered["turn_id"])
    [call] = calls
    assert call["if_match"] == call["approval"]["old_sha256"] == "a" * 64


def test_approval_for_missing_file_requires_it_still_missing(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_write_file", {"path": ".bashrc", "content": "x"}))
    missing = {"success": False, "code": "file_not_found", "error": "Path .bashrc does not exist"}

    with serving(person, project, lambda _, params: missing if params.get("with_sha256") else {}) as calls:
        answered = user.ask()
        user.decide(answered["approval_id"], decision="approve")
        user.ended(answered["turn_id"])

    [call] = calls
    assert (call["if_match"], call["approval"]["old_sha256"]) == ("", "")


def test_delete_sends_hash_read_by_agent_and_hash_shown_to_user(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_read_file", {"path": "a"}), ("tool_delete_file", {"path": "a"}))

    def answers(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"sha256": "b" * 64} if params.get("with_sha256") else file_content(method, params)

    with serving(person, project, answers) as calls:
        answered = user.ask()
        user.decide(answered["approval_id"], decision="approve")
        user.ended(answered["turn_id"])

    read = hashlib.sha256(b"content of a").hexdigest()
    assert (calls[1]["if_match"], calls[1]["approval"]["old_sha256"]) == (read, "b" * 64)  # both must be so


def test_refusal_reaches_model_with_feedback(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_delete_file", {"path": "old.txt"}))

    with serving(person, project, lambda *_: {}) as calls:
        answered = user.ask()
        user.decide(user.approvals()[0]["id"], decision="reject", feedback="I still need it")
        user.ended(answered["turn_id"])

    assert calls == []
    [heard] = user.heard()
    assert "I still need it" in heard["error"]


def test_approval_is_bound_to_its_arguments(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_delete_file", {"path": "a"}), ("tool_delete_file", {"path": "b"}))

    with serving(person, project, lambda *_: {}) as calls:
        answered = user.ask()
        user.decide(user.approvals()[0]["id"], decision="approve")
        [second] = eventually(user.approvals)
        assert second["arguments"] == {"path": "b"}
        assert [call["path"] for call in calls] == ["a"]
        user.decide(second["id"], decision="approve")
        user.ended(answered["turn_id"])

    assert [call["path"] for call in calls] == ["a", "b"]


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".github/workflows/x.yml", ".bashrc", "AGENTS.md"])
def test_protected_files_need_approval_in_every_mode(user: CoderUser, person: Person, project: int, path: str) -> None:
    user.script(("tool_write_file", {"path": path, "content": "x"}))

    with serving(person, project, file_content, mode="yes") as calls:
        answered = user.ask()
        assert (answered["status"], calls) == ("waiting", [])
        [pending] = user.approvals()
        assert pending["risk"] == "high"
        user.person.http.post(f"/my/chat/{user.session}/turns/{answered['turn_id']}/cancel")

    assert user.approvals() == []
    assert_problem(user.decide(pending["id"], decision="approve"), 409, "approval_decided")


def test_connector_question_parks_run_and_first_answer_wins(user: CoderUser, person: Person, project: int) -> None:
    user.script(
        ("tool_write_file", {"path": "a", "content": "new"}), ("tool_write_file", {"path": "b", "content": "x"})
    )
    hashes = {"old_sha256": "", "new_sha256": "b" * 64}
    question = {"success": False, "code": "asks", "error": "asked", "diff": "+new", "grant": "*", **hashes}

    with connected(person, project, mode="both") as connector:
        turn = user.ask(headers={"Prefer": "respond-async"})
        _answer(connector, connector.hear(), **question, ask_id="q1")
        [pending] = eventually(user.approvals)
        assert pending["details"] == {"ask_id": "q1", "diff": "+new", "where": "both", "grant": "*", **hashes}
        user.decide(pending["id"], decision="approve", changes={"holds": "session"})
        heard = [connector.hear(), connector.hear()]  # in either order
        [second] = [message for message in heard if "id" in message]
        [answered] = [message for message in heard if message["method"] == "workspace/answered"]
        assert answered["params"] == {"ask_id": "q1", "decision": "approve", "feedback": ""}
        assert second["params"]["approval"] == {"id": pending["id"], "holds": "session", **hashes}
        assert second["params"]["content"] == "new"
        connector.answer(second, size=3)

        _answer(connector, connector.hear(), **question, ask_id="q2")  # this time the terminal is faster
        [pending] = eventually(user.approvals)
        decision = {"ask_id": "q2", "decision": "reject", "feedback": "not that"}
        connector.say({"jsonrpc": "2.0", "method": "workspace/decided", "params": decision})
        assert user.ended(turn["turn_id"])["status"] == "completed"

    assert_problem(user.decide(pending["id"], decision="approve"), 409, "approval_decided")
    assert "not that" in user.heard()[1]["error"]


def test_terminal_mode_allows_approval_only_in_terminal(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_write_file", {"path": "a", "content": "new"}))
    with connected(person, project, mode="terminal") as connector:
        turn = user.ask(headers={"Prefer": "respond-async"})
        _answer(connector, connector.hear(), success=False, code="asks", error="asked", ask_id="q1", diff="+new")
        [pending] = eventually(user.approvals)
        assert_problem(user.decide(pending["id"], decision="approve"), 409, "approval_decided")
        connector.say(
            {"jsonrpc": "2.0", "method": "workspace/decided", "params": {"ask_id": "q1", "decision": "approve"}}
        )
        connector.answer(connector.hear(), size=3)
        assert user.ended(turn["turn_id"])["status"] == "completed"

    assert user.heard()[0]["success"]


def test_terminal_can_refuse_what_browser_approved(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_delete_file", {"path": "a"}))
    asks = {"success": False, "code": "asks", "error": "asked", "ask_id": "q1", "diff": "-a", "old_sha256": "b" * 64}
    with connected(person, project, mode="terminal") as connector:
        turn = user.ask(headers={"Prefer": "respond-async"})
        connector.answer(connector.hear(), sha256="b" * 64)
        connector.answer(connector.hear(), content="a", total_lines=1, sha256="b" * 64)
        [first] = eventually(user.approvals)
        assert user.decide(first["id"], decision="approve").status_code == 200
        _answer(connector, connector.hear(), **asks, new_sha256="")

        [second] = eventually(user.approvals)
        assert (second["details"]["where"], second["risk"]) == ("terminal", "high")
        assert_problem(user.decide(second["id"], decision="approve"), 409, "approval_decided")
        connector.say(
            {"jsonrpc": "2.0", "method": "workspace/decided", "params": {"ask_id": "q1", "decision": "approve"}}
        )
        deleted = connector.hear()
        connector.answer(deleted)
        assert user.ended(turn["turn_id"])["status"] == "completed"

    hashes = {"old_sha256": "b" * 64, "new_sha256": ""}
    assert deleted["params"]["approval"] == {"id": second["id"], "holds": "once", **hashes}


@pytest.mark.req("AGT-02.8")
def test_call_with_connector_question_is_audited_when_asked_and_when_run(
    user: CoderUser, person: Person, project: int
) -> None:
    user.script(("tool_write_file", {"path": "a", "content": "new"}))
    with connected(person, project, mode="both") as connector:
        turn_id, pending = _asked_by_the_connector(user, connector)
        assert [(noted["tool"], noted["status"]) for noted in user.audit()] == [("tool_write_file", "asked")]
        user.decide(pending["id"], decision="approve")
        call = next(message for message in (connector.hear(), connector.hear()) if "id" in message)
        connector.answer(call, size=3)
        user.ended(turn_id)

    assert [(noted["status"], noted["approval_id"]) for noted in user.audit()] == [
        ("asked", None),
        ("done", pending["id"]),
    ]


@pytest.mark.req("AGT-02.8")
def test_cancelled_call_is_audited_as_cancelled(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_write_file", {"path": "a", "content": "new"}))
    with connected(person, project) as connector:
        turn = user.ask(headers={"Prefer": "respond-async"})
        connector.hear()
        assert [noted["status"] for noted in user.audit()] == ["sent"]
        person.http.post(f"/my/chat/{user.session}/turns/{turn['turn_id']}/cancel")
        [noted] = eventually(lambda: [one for one in user.audit() if one["status"] != "sent"])

    assert (noted["status"], "not known" in noted["error"]) == ("cancelled", True)
    assert len(user.audit()) == 1


@pytest.mark.req("AGT-02.8")
def test_question_of_child_is_not_audited_as_call_of_parent(
    user: CoderUser, person: Person, project: int, script: ByMark, mark: str
) -> None:
    spawn = {"role": "tester", "task_brief": {"objective": mark}}
    script[mark] = [
        Say(tools=[Tool("spawn_agent", json.dumps(spawn))]),
        Say(tools=[Tool("tool_delete_file", '{"path": "old.txt"}')]),
        Say("The child is done."),
        Say("Done."),
    ]
    with serving(person, project, lambda *_: {}):
        answered = user.ask()
        assert answered["status"] == "waiting"
        rows = [(noted["tool"], "path" in noted["arguments"], noted["status"]) for noted in user.audit()]
        assert rows == [("tool_delete_file", True, "asked"), ("spawn_agent", False, "asked")]
        user.decide(answered["approval_id"], decision="approve")
        assert user.ended(answered["turn_id"])["status"] == "completed"

    rows = [(noted["tool"], "path" in noted["arguments"], noted["status"]) for noted in user.audit()]
    assert rows[2:] == [("tool_delete_file", True, "done"), ("spawn_agent", False, "done")]


ASKED = {"success": False, "code": "asks", "error": "asked", "diff": "+new"}


def _asked_by_the_connector(user: CoderUser, connector: ScriptedConnector) -> tuple[str, dict[str, Any]]:
    """Make the connector ask the user; return the waiting turn and its approval."""
    turn = user.ask(headers={"Prefer": "respond-async"})
    _answer(connector, connector.hear(), **ASKED, ask_id="q1")
    [pending] = eventually(user.approvals)
    return turn["turn_id"], pending


def _is_told_to_stop_asking(connector: ScriptedConnector) -> None:
    told = connector.hear()
    assert told["method"] == "workspace/answered"
    assert told["params"] == {"ask_id": "q1", "decision": "reject", "feedback": ""}


@pytest.mark.parametrize("way", ["cancel", "reset", "delete"])
def test_connector_withdraws_question_when_turn_is_over(
    user: CoderUser, person: Person, project: int, way: str
) -> None:
    user.script(("tool_write_file", {"path": "a", "content": "new"}))
    with connected(person, project, mode="both") as connector:
        turn_id, pending = _asked_by_the_connector(user, connector)

        match way:
            case "cancel":
                person.http.post(f"/my/chat/{user.session}/turns/{turn_id}/cancel")
            case "reset":
                person.http.post(f"/my/projects/{project}/space/reset")
            case "delete":
                person.http.delete(f"/my/chat/sessions/{user.session}")

        _is_told_to_stop_asking(connector)
        assert user.approvals() == []
        code = "approval_not_found" if way == "delete" else "approval_decided"
        assert_problem(user.decide(pending["id"], decision="reject"), 404 if way == "delete" else 409, code)


def test_connector_withdraws_question_when_approval_expires(user: CoderUser, person: Person, project: int) -> None:
    person.http.patch(f"/my/projects/{project}", json={"settings": {"approval_seconds": 10}})
    user.script(("tool_write_file", {"path": "a", "content": "new"}))
    with connected(person, project, mode="both") as connector:
        turn_id, _ = _asked_by_the_connector(user, connector)
        _is_told_to_stop_asking(connector)
        assert user.ended(turn_id)["status"] == "completed"


def test_connector_question_for_finished_turn_is_rejected(user: CoderUser, person: Person, project: int) -> None:
    user.script(("tool_write_file", {"path": "a", "content": "new"}))
    with connected(person, project, mode="both") as connector:
        turn = user.ask(headers={"Prefer": "respond-async"})
        call = connector.hear()
        person.http.post(f"/my/chat/{user.session}/turns/{turn['turn_id']}/cancel")
        coder = f"/my/projects/{project}/agents/{_coder(person, project)}/status"
        eventually(lambda: person.http.get(coder).json()["status"] == "idle")

        _answer(connector, call, **ASKED, ask_id="q1")

        _is_told_to_stop_asking(connector)
    assert user.approvals() == []


def _coder(person: Person, project: int) -> int:
    agents = person.http.get(f"/my/projects/{project}/agents").json()["items"]
    number: int = next(agent["id"] for agent in agents if agent["name"] == "agent_coder")
    return number


def _answer(connector: ScriptedConnector, call: dict[str, Any], **result: Any) -> None:
    connector.say({"jsonrpc": "2.0", "id": call["id"], "result": result})


@pytest.mark.req("AGT-02.7", "AGT-02.6", "SEC-03.5")
def test_project_settings_define_approvals_and_allowed_paths(user: CoderUser, person: Person, project: int) -> None:
    rules = {
        "tool_read_file": {"allowed_paths": ["src/**"], "denied_paths": ["**/private/**"]},
        "tool_stat": {"requires_approval": True},
        "tool_list_directory": {"enabled": False},
    }
    person.http.patch(f"/my/projects/{project}", json={"settings": {"tools": rules}})
    user.script(
        ("tool_read_file", {"path": "src/a"}),
        ("tool_read_file", {"path": "docs/a"}),
        ("tool_read_file", {"path": "src/private/a"}),
        ("tool_list_directory", {"path": "."}),
        ("tool_stat", {"path": "src/a"}),
    )

    with serving(person, project, file_content) as calls:
        answered = user.ask()
        assert answered["status"] == "waiting"
        assert user.approvals()[0]["tool"] == "tool_stat"
        user.decide(user.approvals()[0]["id"], decision="approve")
        user.ended(answered["turn_id"])

    assert [(call["method"], call["path"]) for call in calls] == [
        ("workspace/read", "src/a"),
        ("workspace/stat", "src/a"),
    ]
    assert (calls[0]["allowed_paths"], calls[0]["denied_paths"]) == (["src/**"], ["**/private/**"])
    assert (calls[1]["allowed_paths"], calls[1]["denied_paths"]) == ([], [])
    assert [heard["success"] for heard in user.heard()] == [True, False, False, False, True]
    tools = {tool["name"]: tool for tool in person.http.get(f"/my/projects/{project}/tools").json()["items"]}
    assert tools["tool_stat"]["requires_approval"]
    assert not tools["tool_list_directory"]["enabled"]
    assert tools["tool_delete_file"]["requires_approval"]


def test_approval_cannot_be_decided_by_another_user(
    user: CoderUser, person: Person, project: int, chat_server: Server
) -> None:
    user.script(("tool_delete_file", {"path": "a"}))
    stranger = Person.register(chat_server.url)
    with serving(person, project, file_content) as calls:
        answered = user.ask()
        approval = answered["approval_id"]
        for ask in (
            stranger.http.get(f"/my/approvals/{approval}"),
            stranger.http.post(f"/my/approvals/{approval}/confirm", json={"decision": "approve"}),
            stranger.http.post(f"/my/approvals/{approval}/ask-again"),
        ):
            assert_problem(ask, 404, "approval_not_found")
        assert stranger.http.get("/my/approvals").json()["items"] == []
        assert user.approvals()[0]["id"] == approval
        assert calls == []


def test_waiting_run_continues_after_restart(start_server: StartServer, model: ModelServer, mark: str) -> None:
    server = start_server(**with_model(model))
    person = Person.register(server.url)
    project = person.project()["id"]
    user = CoderUser(person, project, model, mark)
    user.script(("tool_delete_file", {"path": "old.txt"}))
    answered = user.ask()
    server.kill()

    again = start_server(ARTEL_DATABASE_URL=server.env["ARTEL_DATABASE_URL"], **with_model(model))
    user.person = Person(person.email, person.user_id, person.token, client(again.url, person.token))
    with serving(user.person, project, lambda *_: {}) as calls:
        assert user.decide(answered["approval_id"], decision="approve").status_code == 200
        assert user.ended(answered["turn_id"])["status"] == "completed"

    assert [call["path"] for call in calls] == ["old.txt"]
    assert user.heard()[0]["success"] is True


def test_expired_approval_can_be_renewed_without_model_call(
    user: CoderUser, person: Person, project: int, model: ModelServer
) -> None:
    person.http.patch(
        f"/my/projects/{project}",
        json={"settings": {"tools": {"tool_write_file": {"requires_approval": True}}, "approval_seconds": 10}},
    )
    user.script(("tool_write_file", {"path": "a", "content": "new"}))

    with serving(person, project, file_content) as calls:
        answered = user.ask()
        expired = answered["approval_id"]
        state = user.ended(answered["turn_id"], 40)
        assert state["status"] == "completed"
        assert "did not answer in time" in user.heard()[0]["error"]
        assert calls == []
        assert_problem(user.decide(expired, decision="approve"), 409, "approval_decided")

        asked_before = len(model.asked)
        again = person.http.post(f"/my/approvals/{expired}/ask-again")
        assert again.status_code == 201, again.text
        assert_problem(person.http.post(f"/my/approvals/{expired}/ask-again"), 409, "approval_decided")
        user.decide(again.json()["id"], decision="approve")
        assert user.ended(again.json()["turn_id"])["status"] == "completed"

    [call] = calls
    assert (call["path"], call["approval"]["id"]) == ("a", again.json()["id"])
    assert call["approval"]["old_sha256"] == hashlib.sha256(b"content of a").hexdigest()  # as it was at first
    assert len(model.asked) == asked_before
    assert "tool_write_file was done" in person.history(user.session)[-1]["content"]
