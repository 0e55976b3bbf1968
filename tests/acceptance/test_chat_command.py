"""`artel chat`, as a subprocess and in a real terminal, against a real server."""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartServer
from tests.cut_line import CutLine
from tests.model_server import Fail, Hang, ModelServer, Say
from tests.people import Person
from tests.running import Server, artel, clean_environment
from tests.services import until
from tests.terminal import CTRL_C, CTRL_D, Terminal, without_status

# The client does not depend on the database.
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")


class Chatter:
    """A user with a project and a logged-in command line."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.person = Person.register(server.url)
        self.project = self.person.project()
        self.folder = folder
        self.env = clean_environment(folder, ARTEL_SERVER=server.url, ARTEL_TOKEN=self.person.token)

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Run `artel chat`, check its exit code, return its output."""
        done = artel("chat", *arguments, env=self.env, stdin=stdin)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str, code: int = 0) -> Any:
        done = artel("chat", *arguments, "--json", env=self.env)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def terminal(self, *arguments: str) -> Terminal:
        """Open `artel chat` in a terminal."""
        return Terminal("chat", *arguments, env=self.env)


@pytest.fixture
def demo(tmp_path: Path, server: Server) -> Chatter:
    """A user of a server without models: the demo brain answers."""
    return Chatter(tmp_path, server)


@pytest.fixture(scope="session")
def models() -> Iterator[ModelServer]:
    with ModelServer().running_in_thread() as models:
        yield models


@pytest.fixture(scope="session")
def scripted_server(start_shared_server: StartServer, models: ModelServer) -> Server:
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.fixture
def scripted(tmp_path: Path, scripted_server: Server, models: ModelServer) -> Iterator[Chatter]:
    """A user of a server whose model is scripted by the test."""
    yield Chatter(tmp_path, scripted_server)
    models.queue.clear()


def test_message_is_answered(demo: Chatter) -> None:
    assert "391" in demo.run("17 * 23", "--agent", "coder")
    assert "391" in demo.run("--agent", "agent_coder", stdin="17 * 23\n")
    assert "391" in demo.run("-", "--agent", "coder", "--project", "Website", stdin="17 * 23")


def test_files_are_attached_to_the_message(demo: Chatter) -> None:
    notes = demo.folder / "notes.txt"
    notes.write_text("alpha\nbeta\n")

    answer = demo.run("What is in it?", "--agent", "coder", "--attach", str(notes))

    assert "notes.txt has 2 lines (11 bytes) and begins with “alpha”." in answer
    assert "can't be read" in demo.run("Look", "--agent", "coder", "--attach", str(demo.folder / "nothing"), code=2)


def test_message_continues_the_last_session_unless_new_is_given(demo: Chatter) -> None:
    first = demo.json("17 * 23", "--agent", "coder")
    second = demo.json("what did I say?", "--agent", "writer")
    other = demo.json("what did I say?", "--agent", "coder", "--new")
    back = demo.json("1 + 1", "--agent", "coder", "--session", first["session_id"])

    assert (first["status"], first["agent"], first["usage"]["model"]) == ("completed", "agent_coder", "demo")
    assert second["session_id"] == first["session_id"] == back["session_id"] != other["session_id"]
    assert "17 * 23" in second["content"]
    assert second["agent"] == "agent_writer"
    assert "17 * 23" not in other["content"]
    assert stat.S_IMODE((demo.folder / "config" / "sessions.json").stat().st_mode) == 0o600


def test_deleted_session_is_replaced_and_each_project_has_its_own(demo: Chatter) -> None:
    first = demo.json("1 + 1", "--agent", "coder")
    demo.person.http.delete(f"/my/chat/sessions/{first['session_id']}")
    second = demo.json("1 + 1", "--agent", "coder")
    shop = demo.person.project("Shop")

    assert second["session_id"] != first["session_id"]
    assert "Choose one: --project NUMBER" in demo.run("1 + 1", "--agent", "coder", code=3)
    elsewhere = demo.json("1 + 1", "--agent", "coder", "--project", str(shop["id"]))
    here = demo.json("1 + 1", "--agent", "coder", "--project", "Website")
    assert here["session_id"] == second["session_id"] != elsewhere["session_id"]
    assert "No project is called Web" in demo.run("1 + 1", "--project", "Web", code=3)


def test_first_message_creates_the_default_project(tmp_path: Path, server: Server) -> None:
    person = Person.register(server.url)
    env = clean_environment(tmp_path, ARTEL_SERVER=server.url, ARTEL_TOKEN=person.token)

    assert "391" in artel("chat", "17 * 23", "--agent", "coder", env=env).stdout
    assert [project["is_default"] for project in person.http.get("/my/projects").json()["items"]] == [True]


def test_orchestrator_answers_without_agent_option(demo: Chatter) -> None:
    answer = demo.json("17 * 23")

    assert answer["status"] == "completed"
    assert "391" in answer["content"]


def test_usage_errors_say_what_to_do(demo: Chatter) -> None:
    unknown = demo.run("hello", "--agent", "nobody", code=3)
    assert "no agent called nobody" in unknown
    assert "Its agents: agent_coder, agent_analyzer" in unknown
    assert "Session not found" in demo.run("hello", "--session", "019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c", code=3)
    assert "empty" in demo.run(stdin=" \n", code=2)
    assert "not both" in demo.run("hello", "--new", "--session", "x", code=2)
    demo.env["ARTEL_SERVER"] = "http://127.0.0.1:1"
    assert "No answer from http://127.0.0.1:1" in demo.run("hello", code=6)
    del demo.env["ARTEL_TOKEN"]
    assert "artel login --server http://127.0.0.1:1" in demo.run("hello", code=4)


def test_failed_agent_exits_with_1(scripted: Chatter, models: ModelServer) -> None:
    models.script(Fail(400), Fail(400))

    assert "artel: " in scripted.run("hello", "--agent", "coder", code=1)
    failed = scripted.json("hello", "--agent", "coder", code=1)
    assert (failed["status"], failed["content"]) == ("failed", None)
    assert failed["error"]["detail"]


def test_full_session_queue_says_when_to_try_again(scripted: Chatter, models: ModelServer) -> None:
    models.script(Hang())
    session = scripted.person.http.post("/my/chat/sessions", json={"project_id": scripted.project["id"]}).json()
    path = f"/my/chat/{session['session_id']}/message"
    for _ in range(11):
        body = {"content": "hello", "target_agent": "coder"}
        sent = scripted.person.http.post(path, json=body, headers={"Prefer": "respond-async"})
        assert sent.status_code == 202, sent.text

    refused = scripted.run("hello", "--agent", "coder", "--session", session["session_id"], code=6)

    assert re.search(r"Try again in \d+ s", refused)
    scripted.person.http.delete(f"/my/chat/sessions/{session['session_id']}")


def test_control_characters_of_a_model_are_escaped(scripted: Chatter, models: ModelServer) -> None:
    models.script(*[Say("\x1b[31mred\x1b]0;title\x07 \x9b2Jgreen\r\x08!")] * 2)

    assert scripted.run("hello", "--agent", "coder") == "\\x1b[31mred\\x1b]0;title\\x07 \\x9b2Jgreen\\r\\x08!\n"
    assert "\x9b" not in json.dumps(scripted.json("hello", "--agent", "coder"), ensure_ascii=True)


def test_conversation_in_the_terminal(scripted: Chatter) -> None:
    with scripted.terminal() as terminal:
        assert "/help" in terminal.until("\n> ")
        terminal.type("@coder first question")
        assert "agent_coder:\nYou said: first question" in without_status(terminal.until("\ncoder> "))
        terminal.type("second question")
        assert "agent_coder:\nYou said: second question" in without_status(terminal.until("\ncoder> "))
        terminal.type("@writer")
        terminal.until("\nwriter> ")
        terminal.type("third question")
        assert "agent_writer:\nYou said: third question" in without_status(terminal.until("\nwriter> "))
        terminal.type("@nobody hello")
        assert "Its agents: agent_coder, agent_analyzer" in terminal.until("\nwriter> ")
        terminal.type("@orchestrator")
        terminal.until("\n> ")
        terminal.press(CTRL_D)
        assert terminal.end()[0] == 0

    with scripted.terminal("--agent", "coder") as terminal:
        shown = terminal.until("\ncoder> ")
        assert "you: first question\nagent_coder: You said: first question\nyou: second question" in shown
        assert terminal.end(pressing=CTRL_C)[0] == 0


def test_slash_commands(scripted: Chatter) -> None:
    with scripted.terminal("--agent", "coder") as terminal:
        terminal.until("coder> ")
        terminal.type("/help")
        assert "/cancel" in terminal.until("\ncoder> ")
        terminal.type("/agents")
        assert "agent_researcher" in terminal.until("\ncoder> ")
        terminal.type("/history")
        assert "No messages yet" in terminal.until("\ncoder> ")
        terminal.type("//slash")
        assert "You said: /slash" in terminal.until("\ncoder> ")
        terminal.type("/new")
        terminal.until("\ncoder> ")
        terminal.type("/history 5")
        assert "No messages yet" in terminal.until("\ncoder> ")
        terminal.type("/sessions")
        assert "*  1   just now  New session\n   2   just now  /slash\n" in terminal.until("\ncoder> ")
        terminal.type("/cancel")
        assert "Nothing is running" in terminal.until("\ncoder> ")
        terminal.type("/nonsense")
        assert "There is no /nonsense" in terminal.until("\ncoder> ")
        terminal.type("/quit")
        assert terminal.end()[0] == 0


def test_answer_is_streamed_and_cancelled_by_ctrl_c(scripted: Chatter, models: ModelServer) -> None:
    hang = Hang(word="Once")
    models.script(hang)
    with scripted.terminal("--agent", "coder") as terminal:
        terminal.until("coder> ")
        terminal.type("tell me a story")
        terminal.until("agent_coder:\nOnce")
        terminal.press(CTRL_C)
        assert "[cancelled]" in terminal.until("\ncoder> ")
        assert until(hang.abandoned.is_set, 10)
        terminal.type("and now?")
        assert "You said: and now?" in terminal.until("\ncoder> ")


def test_ctrl_c_cancels_a_single_message(scripted: Chatter, models: ModelServer) -> None:
    hang = Hang()
    models.script(hang)
    with scripted.terminal("tell me a story", "--agent", "coder") as terminal:
        assert "agent_coder thinks" in terminal.until("thinks")
        assert until(hang.begun.is_set, 10)
        terminal.press(CTRL_C)
        code, rest = terminal.end()
    assert (code, "[cancelled]" in rest) == (130, True)
    assert until(hang.abandoned.is_set, 10)


def test_broken_connection_loses_nothing(scripted: Chatter, models: ModelServer) -> None:
    words = [f"{number} " for number in range(60)]
    models.script(Say(pieces=words, pause=0.05))
    with CutLine(int(scripted.env["ARTEL_SERVER"].rsplit(":", 1)[1])).running() as line:
        scripted.env["ARTEL_SERVER"] = line.url
        with scripted.terminal("count", "--agent", "coder") as terminal:
            terminal.until("5 ")
            line.cut()
            terminal.until("30 ")
            line.cut()
            code, _ = terminal.end()

        assert code == 0
        assert without_status(terminal.screen).rstrip("\n") == "".join(words)
        assert line.connections >= 3
