"""`artel chat` in a terminal that can move its cursor: input, output and approvals."""

import base64
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import eventually
from tests.folders import Folder, connected_folder
from tests.model_server import ByMark, Fail, ModelRequest, ModelServer, Raw, Say, Tool
from tests.people import Person
from tests.running import Server, artel, clean_environment
from tests.terminal import ALT_ENTER, CTRL_C, CTRL_D, TAB, UP, Terminal

# The client does not depend on the database.
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")

PROMPT = "coder> "
ANSWER = """# The plan

Some **bold** words in a paragraph that is longer than any terminal of the tests, so that it has to be wrapped.

```python
value = "a line of code that is longer than the terminal is wide, and that must stay one line when it is copied by you"
```

- one
- two
"""


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


class Talker:
    """A user with a project who talks to agent_coder in a terminal."""

    def __init__(self, folder: Path, person: Person, mark: str) -> None:
        self.person = person
        self.project = person.project()
        self.mark = mark
        self.folder = folder
        server = str(person.http.base_url).rstrip("/")
        self.env = clean_environment(folder, ARTEL_SERVER=server, ARTEL_TOKEN=person.token)

    def terminal(self, *options: str, columns: int = 100, folder: str = "/", **variables: str) -> Terminal:
        settings: dict[str, Any] = {"env": self.env | variables, "columns": columns, "folder": folder}
        return Terminal("chat", "--agent", "coder", *options, term="xterm-256color", **settings)

    def is_connected(self) -> bool:
        return bool(self.person.get(f"/my/projects/{self.project['id']}/connector")["online"])

    def asked(self, model: ModelServer) -> list[ModelRequest]:
        return model.asked_about(self.mark)


@pytest.fixture
def talker(tmp_path: Path, person: Person, mark: str) -> Talker:
    return Talker(tmp_path, person, mark)


@pytest.fixture
def folder(talker: Talker) -> Iterator[Folder]:
    with connected_folder(talker.folder, talker.person, talker.project["id"], "--ask", "browser") as connected:
        (connected.path / "src").mkdir()
        yield connected


def written(path: str = "src/a.py", content: str = "one\n") -> list[Say]:
    """Return the answers of a model that writes a file and then finishes."""
    return [Say(tools=[Tool("tool_write_file", json.dumps({"path": path, "content": content}))]), Say("It is done.")]


@pytest.mark.req("CLI-01.1")
def test_pasted_lines_are_one_message(talker: Talker, model: ModelServer) -> None:
    text = f"{talker.mark} traceback\n" + "\n".join(f"  line {number}" for number in range(20))
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.paste(text)
        terminal.until("line 19")
        assert talker.asked(model) == []  # it is a draft until Enter
        terminal.press("\r")
        terminal.until("You said")
        terminal.until(PROMPT)
        terminal.press(f"{talker.mark} a{ALT_ENTER}b\\\rc\r")
        terminal.until("You said")
        terminal.until(PROMPT)
        terminal.press(CTRL_D)
        assert terminal.end()[0] == 0

    assert [request.text for request in talker.asked(model)] == [text, f"{talker.mark} a\nb\nc"]


def test_history_file_is_private_and_bounded(talker: Talker, model: ModelServer) -> None:
    history = talker.folder / "config" / "chat_history"
    history.parent.mkdir(parents=True, exist_ok=True)
    history.write_text("".join(f"old {number}\n" for number in range(2500)))
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.press(f"{talker.mark} first{ALT_ENTER}second\r")
        terminal.until("You said")
        terminal.until(PROMPT)
        terminal.press("a draft")
        terminal.until("a draft")
        terminal.press(CTRL_C)
        terminal.press(f"{UP}\r")
        terminal.until("You said")
        terminal.until(PROMPT)
        assert terminal.end(pressing=CTRL_C)[0] == 0

    assert [request.text for request in talker.asked(model)] == [f"{talker.mark} first\nsecond"] * 2
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert len(history.read_text().splitlines()) <= 1002


@pytest.mark.req("CLI-01.2")
def test_write_is_shown_and_approved_in_the_chat(talker: Talker, folder: Folder, script: ByMark) -> None:
    (folder.path / "src" / "a.py").write_text("old\n")
    script[talker.mark] = written(content="new \u202e text\n")
    with talker.terminal(columns=80) as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} write")
        shown = terminal.until("write src/a.py? [y/s/a/n] ")
        assert "agent_coder wants to write src/a.py:" in shown
        assert "This has 1 hidden character (U+202E); it is shown as \\u202e." in shown
        assert "-old\n+new \\u202e text\n" in shown
        assert "\x1b[32m+new" in terminal.raw
        assert (folder.path / "src" / "a.py").read_text() == "old\n"
        terminal.type("y")
        terminal.until("It is done.")

    assert (folder.path / "src" / "a.py").read_text() == "new \u202e text\n"


@pytest.mark.req("CLI-01.2", "CLI-01.3")
def test_text_before_a_question_is_shown_completely(talker: Talker, folder: Folder, script: ByMark) -> None:
    call, done = written()
    script[talker.mark] = [Say(pieces=["I ", "will ", "write ", "it ", "now."], tools=call.tools), done]
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} write")
        shown = terminal.until("write src/a.py? [y/s/a/n] ")
        assert re.search(r"I will write it now\.\s+agent_coder wants to write", shown)
        terminal.type("nonsense")
        terminal.until("Please answer y, s, a or n (Ctrl-C cancels).")
        terminal.until("[y/s/a/n] ")
        assert folder.files() == {}
        terminal.type("y")
        assert "starts again" not in terminal.until("It is done.")


@pytest.mark.req("CLI-01.6")
def test_failed_answer_mentions_retry(talker: Talker, script: ByMark) -> None:
    script[talker.mark] = [Fail(400), Say("Once more.")]
    with talker.terminal(columns=300) as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} work")
        terminal.until("/retry")
        terminal.until(PROMPT)
        terminal.type("/retry")
        terminal.until("Once more.")
        terminal.until(PROMPT)
        terminal.type("/continue")
        terminal.until("was not cut off")


@pytest.mark.req("CLI-01.6", "CHT-12.5")
def test_cut_off_answer_is_continued_in_the_terminal(talker: Talker, script: ByMark) -> None:
    beginning = b'data: {"choices": [{"index": 0, "delta": {"content": "One two three"}}]}\n\n'
    refusal = b'data: {"error": {"message": "Not this.", "code": 400}}\n\n'
    script[talker.mark] = Raw(beginning + refusal, content_type="text/event-stream")
    with talker.terminal(columns=300) as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} work")
        terminal.until("/retry")
        terminal.until(PROMPT)
        terminal.type("/continue")
        terminal.until("You said: Your last answer was cut off.")


@pytest.mark.req("CLI-01.2")
@pytest.mark.parametrize(("answer", "allows"), [("s", []), ("a", ["write src/*.py"])])
def test_approval_can_hold_for_the_session_or_always(
    talker: Talker, folder: Folder, script: ByMark, answer: str, allows: list[str]
) -> None:
    script[talker.mark] = [*written(), *written("src/b.py")]
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} write")
        assert "s: for this session, a: always (write src/*.py)" in terminal.until("write src/a.py? [y/s/a/n] ")
        terminal.type(answer)
        terminal.until("It is done.")
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} write another")
        assert "wants to" not in terminal.until("It is done.")

    assert set(folder.files()) == {"src/a.py", "src/b.py"}
    listed = json.loads(artel("grants", "list", "--json", env=folder.env).stdout)
    assert [grant["allows"] for grant in listed] == allows


@pytest.mark.req("CLI-01.2")
@pytest.mark.parametrize("reason", ["", "use tabs"])
def test_agent_gets_refusal_and_reason(
    talker: Talker, folder: Folder, script: ByMark, model: ModelServer, reason: str
) -> None:
    script[talker.mark] = written()
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} write")
        terminal.until("[y/s/a/n] ")
        terminal.type(f"n {reason}".strip())
        terminal.until("refused: write src/a.py")
        terminal.until("It is done.")

    assert folder.files() == {}
    result = talker.asked(model)[-1].body["messages"][-1]["content"]
    assert "the user rejected it" in result
    assert reason in result


@pytest.mark.req("CLI-01.2")
@pytest.mark.parametrize(
    ("decision", "words"), [("approve", "It was approved elsewhere."), ("reject", "It was refused elsewhere.")]
)
def test_question_ends_when_another_client_decides(
    talker: Talker, folder: Folder, script: ByMark, decision: str, words: str
) -> None:
    script[talker.mark] = written()
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} write")
        terminal.until("[y/s/a/n] ")
        (approval,) = talker.person.get("/my/approvals?status=pending")["items"]
        talker.person.http.post(f"/my/approvals/{approval['id']}/confirm", json={"decision": decision})
        terminal.until(words)
        terminal.until("It is done.")

    assert bool(folder.files()) is (decision == "approve")


@pytest.mark.req("CLI-01.2")
def test_chat_points_to_the_connector_that_asks(talker: Talker, script: ByMark) -> None:
    script[talker.mark] = written()
    work = talker.folder / "work"
    (work / "src").mkdir(parents=True)
    command = ("connect", str(work), "--project", str(talker.project["id"]), "--ask", "terminal")
    with Terminal(*command, env=talker.env) as connector:
        connector.until("Connected to")
        with talker.terminal() as terminal:
            terminal.until(PROMPT)
            terminal.type(f"{talker.mark} write")
            terminal.until("Answer in the terminal where `artel connect` runs; it asks only there.")
            connector.until("n(o) ")
            connector.type("y")
            terminal.until("It is done.")


@pytest.mark.req("CLI-01.3")
def test_answers_are_rendered_with_colours_except_with_no_color(talker: Talker, script: ByMark) -> None:
    script[talker.mark] = Say(pieces=re.findall(r"\S+\s*", ANSWER))
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} plan")
        shown = terminal.until(" • two")
        assert "**" not in shown.rpartition("```")[2]
    assert re.search(r"\x1b\[1mbold", terminal.raw)
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.raw)

    with talker.terminal("--new", NO_COLOR="1") as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} plan")
        terminal.until(" • two")
    assert not re.search(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7])[;m]", terminal.raw)

    piped = artel("chat", f"{talker.mark} plan", "--agent", "coder", env=talker.env).stdout
    assert piped == ANSWER


@pytest.mark.req("CLI-01.4")
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("columns", [80, 100])
def test_text_is_wrapped_between_words_and_code_is_not(talker: Talker, script: ByMark, columns: int) -> None:
    script[talker.mark] = [Say(ANSWER), *written(content="x\n")]
    with talker.terminal(columns=columns) as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} plan")
        terminal.until(" • two")
        terminal.type(f"{talker.mark} write")
        terminal.until("[y/s/a/n] ")
        screen = terminal.screen
    assert ANSWER.split("\n")[5] in screen  # the line of code, in one piece
    lines = screen[screen.rindex("Some bold words") :].split("\n")
    prose = [line for line in lines if not line.startswith("value = ")]
    assert max(map(len, prose)) <= columns
    assert " ".join(" ".join(prose[:3]).split()).startswith(ANSWER.split("\n")[2].replace("**", ""))
    assert "no, and why. You can decide until" in " ".join(prose).replace("  ", " ")


@pytest.mark.req("CLI-01.4")
def test_help_errors_and_tables_are_wrapped_between_words(talker: Talker) -> None:
    number = talker.project["id"]
    long = "many words about one thing, " * 4
    with talker.terminal(columns=60) as terminal:
        terminal.until(PROMPT)
        terminal.type("/help")
        shown = terminal.until("REASON says why.").split("\n", 1)[1]
        assert max(map(len, shown.splitlines())) <= 60
        assert re.search(r"\n {18}\S", shown)  # indented below its text
        terminal.until(PROMPT)
        terminal.type("/model nobody gpt-4o")
        error = terminal.until("lists them.").split("artel: ")[1]
        assert max(map(len, error.splitlines())) <= 60
    with Terminal("projects", "show", f"no such project, {long}", env=talker.env, columns=60) as terminal:
        error = terminal.end()[1]
        assert max(map(len, error.splitlines())) <= 60
        assert " ".join(error.split()).startswith("artel: ")
        assert long.strip() in " ".join(error.split())
    with Terminal("agents", "list", f"--{long}", env=talker.env, columns=60) as terminal:
        shown = terminal.end()[1]
        assert max(map(len, shown.splitlines())) <= 60
        assert "many words about one thing" in " ".join(shown.split())
    number_of_agent = talker.project["agents"][0]["id"]
    with Terminal("agents", "show", str(number_of_agent), "-p", str(number), env=talker.env, columns=60) as terminal:
        shown = terminal.end()[1]
        assert max(map(len, shown.splitlines())) <= 60
        assert re.search(r"\n {19}\S", shown)
    with Terminal("agents", "list", "-p", str(number), env=talker.env, columns=72) as terminal:
        listed = terminal.end()[1]
        assert max(map(len, listed.splitlines())) <= 72
        assert "…" in listed
    assert "…" not in artel("agents", "list", "-p", str(number), env=talker.env).stdout


@pytest.mark.req("CLI-01.5")
def test_tab_completes_agents_commands_and_files(talker: Talker, folder: Folder, model: ModelServer) -> None:
    (folder.path / ".gitignore").write_text("ignored*\n")
    for name in ("report.md", "ignored.md", ".hidden"):
        (folder.path / name).write_text("x")
    (folder.path / "src" / "main.py").write_text("x")
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.press(f"@wri{TAB}{talker.mark} read rep{TAB} src/m{TAB} ign{TAB} .hid{TAB} ../{TAB}\r")
        terminal.until("You said")
        terminal.until("writer> ")
        terminal.press(f"/agen{TAB}\r")
        terminal.until("agent_researcher")

    (request,) = talker.asked(model)
    assert request.text == f"{talker.mark} read report.md src/main.py ign .hid ../"


@pytest.mark.req("CLI-01.6")
def test_commands_for_files_cost_and_models(talker: Talker, folder: Folder, script: ByMark) -> None:
    script[talker.mark] = [*written(), Say("Once more.")]
    with talker.terminal() as terminal:

        def do(command: str, *words: str) -> str:
            terminal.type(command)
            return "".join(terminal.until(word) for word in words) + terminal.until(PROMPT)

        terminal.until(PROMPT)
        do("/diff", "No file was changed in this session.")
        do("/files", "No file was changed in this session.")
        do("/undo", "This session has no changes to undo.")
        terminal.type(f"{talker.mark} write")
        terminal.until("[y/s/a/n] ")
        do("y", "It is done.")
        do("/diff", "agent_coder wrote src/a.py, just now", "+one")
        do("/files", "agent_coder wrote src/a.py, just now\n")
        do("/undo", "src/a.py was removed.")
        do("/files", "agent_coder wrote src/a.py, just now (put back)")
        assert folder.files() == {}
        do("/redo", "src/a.py has the agent's text again.")
        do("/redo", "Nothing was undone in this session that could be redone.")
        assert "put back" not in do("/files", "agent_coder wrote src/a.py, just now")
        do("/undo", "src/a.py was removed.")
        assert folder.files() == {}
        assert re.search(r"tokens in, [\d,]+ out", do("/cost", "Last turn ", "This session "))
        do("/retry", "Once more.")
        do("/model", "agent_coder ", "gpt-4")
        do("/model gpt-4o-mini", "agent_coder now uses gpt-4o-mini")
        do("/model writer gpt-4o", "agent_writer now uses gpt-4o")
        do("/model nobody gpt-4o", "This project has no agent called nobody.")
        assert "Sessions" in do("/help", "Talk", "/resume N")

    agents: list[dict[str, Any]] = talker.person.get(f"/my/projects/{talker.project['id']}/agents")["items"]
    models = {agent["name"]: agent["model"] for agent in agents}
    assert (models["agent_coder"], models["agent_writer"]) == ("gpt-4o-mini", "gpt-4o")


@pytest.mark.req("CLI-01.6")
def test_file_is_attached_to_the_next_message(talker: Talker, model: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").write_text("alpha\nbeta\n")
    (tmp_path / "photo.png").write_bytes(b"\x00")
    with talker.terminal("--no-folder", folder=str(tmp_path)) as terminal:

        def do(command: str, *words: str) -> str:
            terminal.type(command)
            return "".join(terminal.until(word) for word in words) + terminal.until(PROMPT)

        terminal.until(PROMPT)
        do("/attach", "Missing file: /attach FILE")
        do("/attach nothing.txt", "artel: ")
        do("/attach photo.png", "photo.png is neither a text in UTF-8 nor a PNG")
        do("/attach my notes.txt", "Attached my notes.txt (2 lines) to your next message.")
        do("/detach", "The next message has no attachments.")
        do("/attach my notes.txt", "Attached my notes.txt (2 lines)")
        do("/attach", "Attached to the next message: my notes.txt.")
        do(f"{talker.mark} read", "You said:")
        do(f"{talker.mark} and now", "You said:")
        do("/history", "[attached: my notes.txt]")

    first, second = talker.asked(model)
    assert "\nalpha\nbeta\n" in first.text
    assert second.text == f"{talker.mark} and now"


@pytest.mark.req("CLI-01.6", "AGT-03.4")
def test_commands_for_titles_clipboard_feedback_and_export(talker: Talker, script: ByMark, tmp_path: Path) -> None:
    script[talker.mark] = Say("The answer \u202e\x07 is 42.")
    copied = base64.b64encode(b"The answer \\u202e\\x07 is 42.").decode()
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.type("/copy")
        terminal.until("No answer yet.")
        terminal.type(f"{talker.mark} question")
        terminal.until("is 42.")
        terminal.until(PROMPT)
        terminal.type("/copy")
        terminal.until("Sent the last answer (")
        assert terminal.raw.count("\x1b]52;") == 1
        assert f"\x1b]52;c;{copied}\x07" in terminal.raw
        terminal.type("/bad  Too cryptic.")
        terminal.until("Rated the last answer of agent_coder as bad.")
        [session] = talker.person.get("/my/chat/sessions")["items"]
        answer = talker.person.history(session["session_id"])[-1]
        assert answer["feedback"] == {"rating": "bad", "comment": "Too cryptic."}
        terminal.type("/good")
        terminal.until("Rated the last answer of agent_coder as good.")
        terminal.type("/rename")
        terminal.until("/rename TITLE")
        terminal.type("/rename The great question")
        terminal.until("Renamed the session to The great question.")
        for name in ("notes.md", "notes.json"):
            terminal.type(f"/export {tmp_path / name}")
            terminal.until("Wrote this session to")
        terminal.type(f"/export {tmp_path / 'notes.md'}")
        terminal.until("Choose another name.")
        terminal.type("/plan")
        terminal.until("This session has no plan.")
    assert [session["title"] for session in talker.person.get("/my/chat/sessions")["items"]] == ["The great question"]

    assert (tmp_path / "notes.md").read_text().startswith("# The great question\n")
    assert json.loads((tmp_path / "notes.json").read_text())["items"][-1]["message"]["agent"] == "agent_coder"
    dumb = Terminal("chat", "--agent", "coder", env=talker.env)
    with dumb:
        dumb.until(PROMPT)
        dumb.type("/copy")
        dumb.until("Not copied")
        assert "\x1b]52" not in dumb.raw


@pytest.mark.req("CLI-01.6")
def test_session_is_resumed_by_its_number(talker: Talker) -> None:
    with talker.terminal() as terminal:
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} about cats")
        terminal.until("You said")
        terminal.until(PROMPT)
        terminal.type("/new")
        terminal.until("Started a new session.")
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} about dogs")
        terminal.until("You said")
        terminal.until(PROMPT)
        terminal.type("/resume")
        listed = terminal.until("To continue one: /resume N")
        assert re.search(r"\*  1 +just now +\S+ about dogs\n +2 +just now +\S+ about cats", listed)
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", listed)
        terminal.until(PROMPT)
        terminal.type("/resume 7")
        terminal.until("There is no session 7.")
        other = talker.person.session(talker.project["id"])  # elsewhere, after the list was shown
        talker.person.say(other, "about birds")
        terminal.type("/resume 2")
        terminal.until("Session: ")
        terminal.until("about cats")
        assert "you\n" in terminal.until("about cats")
        terminal.until("You said: ")
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} more")
        terminal.until("You said")

    def titles() -> list[str]:
        items = talker.person.get("/my/chat/sessions")["items"]
        return [str(item["title"]).split(" ", 1)[1] for item in items]

    assert eventually(lambda: titles() if titles()[0] == "about cats" else None) == [
        "about cats",
        "birds",
        "about dogs",
    ]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Make a folder with Python modules that Artel must not import."""
    folder = tmp_path / "site"
    (folder / "src").mkdir(parents=True)
    for name in ("artel", "typer", "httpx", "sitecustomize", "prompt_toolkit"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\n")
    return folder


@pytest.mark.req("CLI-01.10", "SEC-01.1")
@pytest.mark.parametrize("way", ["leaves", "is killed"])
def test_chat_connects_the_current_folder(talker: Talker, site: Path, script: ByMark, way: str) -> None:
    script[talker.mark] = [*written(), Say(pieces=["slow\n\n"] * 500, pause=0.02)]
    with talker.terminal(folder=str(site), columns=300) as terminal:
        shown = terminal.until(PROMPT).split()
        expected = f"Folder {site} connected: agents ask before they write. (--no-folder turns this off) {PROMPT}"
        assert " ".join(shown).endswith(expected.strip())
        terminal.type(f"{talker.mark} write")
        terminal.until("write src/a.py? [y/s/a/n] ")
        assert not (site / "src" / "a.py").exists()
        terminal.type("y")
        terminal.until("It is done.")
        terminal.until(PROMPT)
        terminal.type(f"{talker.mark} talk")
        terminal.until("slow")
        terminal.press(CTRL_C)  # cancels the answer, and reaches no connector
        terminal.until("[cancelled]")
        terminal.until(PROMPT)
        assert talker.is_connected()
        if way == "leaves":
            assert terminal.end(pressing=CTRL_D)[0] == 0
            assert not talker.is_connected()
    assert eventually(lambda: not talker.is_connected())
    assert (site / "src" / "a.py").read_text() == "one\n"
    assert not (talker.folder / "imported").exists(), (talker.folder / "imported").read_text()


@pytest.mark.req("CLI-01.10")
def test_chat_does_not_connect_unsuitable_folders(talker: Talker, site: Path) -> None:
    with talker.terminal("--no-folder", folder=str(site)) as terminal:
        assert "Folder" not in terminal.until(PROMPT)
        assert not talker.is_connected()
    with talker.terminal(folder=str(site), HOME=str(site)) as terminal:
        terminal.until("Folder  none: it is or contains your home folder")
        terminal.until(PROMPT)
        assert not talker.is_connected()
    with talker.terminal(folder=str(site.parent)) as terminal:  # Artel's own files are in it
        terminal.until("Folder  none: ")
        terminal.until(PROMPT)
        assert not talker.is_connected()
    with connected_folder(talker.folder, talker.person, talker.project["id"], "--ask", "browser") as served:
        with talker.terminal(folder=str(site)) as terminal:
            assert "Folder" not in terminal.until(PROMPT)
            since = served.online_since()
        with talker.terminal("--folder", str(site)) as terminal:
            terminal.until("another connector serves this project")
            assert terminal.end()[0] == 2
        assert served.online_since() == since


@pytest.mark.req("CLI-01.10")
def test_chat_reports_take_over_by_another_connector(talker: Talker, site: Path) -> None:
    with talker.terminal("--folder", str(site), columns=300) as terminal:
        terminal.until("connected: agents ask")
        terminal.until(PROMPT)
        with connected_folder(talker.folder, talker.person, talker.project["id"], "--yes", "--take-over"):

            def output() -> str:
                terminal.type("/agents")
                return " ".join(terminal.until(PROMPT).split())

            assert eventually(lambda: "is no longer connected: Another connector has taken over" in output())
            assert terminal.end(pressing=CTRL_D)[0] == 0
            assert talker.is_connected()
