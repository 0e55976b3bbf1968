"""Questions about files and tools in the web UI: all is in view before it is decided, and stays in the timeline."""

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from playwright.sync_api import Page, expect

from tests.actors.file_server import is_for_approval, serving
from tests.actors.team import Team
from tests.browser.pages import sign_in
from tests.browser.visits import Complaints, width_of_contents
from tests.conftest import StartServer, with_model
from tests.connector import connected
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import Behaviour, ByMark, Fail, Hold, ModelRequest, ModelServer, Say, Tool
from tests.people import Person
from tests.running import Server

OTHER_PROJECT_MILLISECONDS = 30_000  # they are asked for every 5 seconds

DIFF = "--- a/app.py\n+++ b/app.py\n@@ -1,9 +1,12 @@\n" + "".join(
    [*(f" kept {number}\n" for number in range(6)), *(f"-old {number}\n" for number in range(3))]
    + [f"+new {number}\n" for number in range(6)]
)


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer(ByMark()).running_in_thread() as models:
        yield models


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    return start_shared_server(**with_model(models))


@contextmanager
def folder(person: Person, project_id: int, diff: str = DIFF, **hello: Any) -> Iterator[list[dict[str, Any]]]:
    """Run a connector that asks about writes and does everything else; yield what it did."""
    done: list[dict[str, Any]] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "workspace/write" and not params["approval"]:
            asks = {"success": False, "code": "asks", "error": "asked", "ask_id": "q1"}
            return {**asks, "diff": diff, "grant": "*.py"}
        if not is_for_approval(params):
            done.append({"method": method, **params})
        return {"size": 1}

    with connected(person, project_id, **hello) as connector:
        thread = threading.Thread(target=connector.serve, args=(answer,))
        thread.start()
        try:
            yield done
        finally:
            connector.socket.close()
            thread.join(10)


def call(name: str, /, **arguments: Any) -> Say:
    return Say(tools=[Tool(name, json.dumps(arguments))])


def write(path: str = "app.py", content: str = "new") -> Say:
    return call("tool_write_file", path=path, content=content)


def in_turn(answers: Sequence[Behaviour]) -> Behaviour:
    """Return a model that gives one answer after the other."""
    each = iter(answers)

    async def answer(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        return await next(each)(request, http)

    return answer


def open_session(page: Page, person: Person, project_id: int, text: str = "") -> str:
    """Open a new conversation, and send a message to the coder."""
    session = person.session(project_id)
    code = person.http.post("/auth/codes").json()["code"]
    page.goto(f"/p/{project_id}/c/{session}#code={code}")
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    if text:
        assert person.post(session, text, "agent_coder", {"Prefer": "respond-async"}).status_code == 202
    return session


class CoderChat:
    """A conversation with the coder, whose question stands above the composer."""

    def __init__(self, page: Page, person: Person, models: ModelServer, mark: str) -> None:
        self.page, self.person, self.mark = page, person, mark
        self.project: int = person.project()["id"]
        assert isinstance(models.default, ByMark)
        self._models = models.default
        self.bar = page.get_by_role("region", name="A question for you")
        self.panel = page.get_by_role("complementary", name="Details")
        self.log = page.get_by_role("log", name="Messages")
        self._session = ""

    def open(self) -> None:
        self._session = open_session(self.page, self.person, self.project)

    def script(self, *answers: Behaviour) -> None:
        self._models[self.mark] = in_turn(list(answers))

    def ask(self, *answers: Behaviour) -> None:
        """Send a message that the model answers so."""
        self.script(*answers)
        sent = self.person.post(self._session, f"{self.mark} please", "agent_coder", {"Prefer": "respond-async"})
        assert sent.status_code == 202

    def timeline(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.person.get(f"/my/chat/{self._session}/timeline")["items"]
        return items

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def refuse(self, why: str = "") -> None:
        self.press("Refuse…")
        self.page.get_by_role("textbox", name="Why?").fill(why)
        self.page.keyboard.press("Enter")

    def tab_to(self, name: str) -> None:
        """Move the focus to a button with the Tab key only."""
        focused = self.page.locator(":focus")
        for _ in range(80):
            if focused.count() and (focused.get_attribute("aria-label") or focused.inner_text()).startswith(name):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{name} can't be reached with the Tab key")


@pytest.fixture
def chat(page: Page, person: Person, models: ModelServer, mark: str) -> CoderChat:
    return CoderChat(page, person, models, mark)


def put_back_after_comparison(chat: CoderChat) -> None:
    """Undo a change of a file that the user has changed since: compare both, and put it back anyway."""
    chat.press("Undo")
    expect(chat.log).to_contain_text("a.txt was changed since, and stays.")
    chat.page.get_by_role("button", name="Compare a.txt").click()
    expect(chat.panel.get_by_role("row")).to_contain_text(["mine", "old"])
    chat.panel.get_by_role("button", name="Put back anyway").click()
    expect(chat.panel).to_have_count(0)
    expect(chat.log.get_by_text("a.txt was put back.")).to_have_count(2)


@pytest.mark.req("CHT-10.1", "CHT-10.6", "CLI-01.11", "DEC-02.6")
@pytest.mark.usefixtures("violations")
def test_decisions_reads_and_undos_stay_in_the_timeline_with_the_same_words(
    chat: CoderChat, complaints: Complaints, tmp_path: Path
) -> None:
    complaints.expected += ["409", "503"]
    page, log = chat.page, chat.log
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("old\n")
    chat.open()
    with connected_folder(tmp_path, chat.person, chat.project, "--ask", "browser") as folder:
        reads = [call("tool_read_file", path="a.txt"), call("tool_stat", path="a.txt"), call("tool_list_directory")]
        chat.ask(*reads, write("a.txt", "new\n"), call("tool_delete_file", path="a.txt"), Say("It is kept."))
        chat.press("Allow once")
        for text in ["Coder wants to delete", "Would delete a.txt (4 bytes)", "This can be undone for a week."]:
            expect(chat.bar).to_contain_text(text)
        expect(chat.bar.get_by_label("The first lines of the file")).to_have_text("new")
        expect(chat.bar.get_by_role("button", name="Allow once")).to_be_visible()
        expect(log).not_to_contain_text(re.compile("delet", re.IGNORECASE))  # what waits for an answer was not done
        chat.refuse("I need it")
        expect(log).to_contain_text("It is kept.")
        expect(log).to_contain_text("You refused.")
        expect(log).not_to_contain_text("deleted")
        assert folder.files() == {"a.txt": b"new\n"}

        folder.disconnect()
        chat.press("Undo")
        expect(page.get_by_text("Run artel connect in your folder")).to_be_visible()
        folder.connect("--ask", "browser")
        chat.press("Undo")
        expect(log).to_contain_text("a.txt was put back.")
        assert folder.files() == {"a.txt": b"old\n"}
        chat.press("Redo")
        expect(log).to_contain_text("a.txt was changed again.")
        (tmp_path / "work" / "a.txt").write_text("mine\n")
        put_back_after_comparison(chat)
        expect(page.get_by_role("button", name="Redo")).to_have_count(1)
        assert folder.files() == {"a.txt": b"old\n"}

        entries = [
            "Read a.txt · Looked at a.txt · Listed 1 folder",
            "a.txt",
            "put back",
            "Coder wanted to delete a.txt.",
        ]
        for text in [*entries, "You refused.", "I need it", "It is kept."]:
            expect(log).to_contain_text(text)
        shown = log.inner_text()
        assert shown.count("was put back.") == 2
        page.reload()
        expect(log.get_by_text("a.txt was put back.")).to_have_count(2)
        assert log.inner_text() == shown

        page.goto(f"/p/{chat.project}/files/changes")
        page.get_by_role("button", name="Redo a.txt").click()
        expect(page.get_by_text("1 file was changed again.")).to_be_visible()
        assert folder.files() == {"a.txt": b"mine\n"}  # what was there before it was put back
    assert "I need it" in json.dumps(chat.person.get("/my/approvals?status=rejected")["items"])


@pytest.mark.req("CHT-10.1", "DEC-02.6")
@pytest.mark.usefixtures("violations")
@pytest.mark.parametrize("way", ["grant", "yes"])
def test_change_that_nobody_was_asked_about_shows_its_diff(chat: CoderChat, tmp_path: Path, way: str) -> None:
    page, log = chat.page, chat.log
    words = "allowed for now" if way == "grant" else "allowed without asking"
    chat.open()
    with connected_folder(tmp_path, chat.person, chat.project, "--ask=browser" if way == "grant" else "--yes"):
        chat.ask(write("a.py", "first\n"), write("b.py", "second \u202e\n"), Say("Both are written."))
        if way == "grant":
            chat.press("Allow…")
            page.get_by_role("menuitem", name="Until the folder is disconnected").click()
        expect(log).to_contain_text("Both are written.")
    change = log.get_by_role("group", name="Coder wrote b.py")
    for _ in range(2):
        expect(change).to_contain_text("b.py+1−0" + words)
        change.get_by_role("button", name="Diff").click()
        expect(chat.panel.get_by_role("row").last).to_contain_text("second \\u202e")
        expect(chat.panel.get_by_role("alert")).to_contain_text("There is 1 hidden character (U+202E)")
        page.reload()

    page.goto(f"/p/{chat.project}/files/changes")
    page.get_by_role("button", name="Diff b.py").click()
    expect(page.get_by_role("dialog").get_by_role("row").last).to_contain_text("second \\u202e")
    granted = "You allowed such changes for now (./*.py)" if way == "grant" else "This folder asks about no changes."
    expect(page.get_by_role("dialog")).to_contain_text(granted)


@pytest.mark.req("CHT-10.1")
@pytest.mark.usefixtures("violations")
def test_results_of_calls_are_seen_live_and_after_a_reload(chat: CoderChat, tmp_path: Path) -> None:
    page = chat.page
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("first \u202e line\nsecond line\n")
    (tmp_path / "work" / "fail.sh").write_text("echo two are missing; echo see the log; exit 3")
    reads = [call("tool_read_file", path="a.txt"), call("tool_search_files", query="second")]
    held = Hold("All is read.")
    chat.open()
    with connected_folder(tmp_path, chat.person, chat.project, "--ask=browser", "--run", "test=sh fail.sh"):
        chat.ask(*reads, call("tool_run_command", name="test"), held)
        chat.press("Allow once")
        eventually(lambda: held.arrived)
        for _ in range(2):
            results = chat.log.locator("summary").filter(has_text="Result")
            expect(results).to_have_count(3)
            page.get_by_text("Read a.txt").click()
            page.get_by_text("Ran test").click()
            expect(results.nth(0)).to_have_text("Result first \\u202e line")
            expect(results.nth(1)).to_have_text("Result · 1 entry a.txt:2: second line")
            expect(results.nth(2)).to_have_text("Result · exit code 3 two are missing")
            expect(page.get_by_text("see the log")).not_to_be_visible()  # folded
            results.nth(2).click()
            expect(page.get_by_text("see the log")).to_be_visible()
            held.release()
            expect(chat.log).to_contain_text("All is read.")
            page.reload()


@pytest.mark.req("CHT-10.1", "CHT-03.2")
@pytest.mark.usefixtures("violations")
def test_link_plan_approval_diff_allow_undo_and_redo_with_the_keyboard_only(
    chat: CoderChat, models: ModelServer, tmp_path: Path
) -> None:
    page, mark = chat.page, chat.mark
    team = Team(mark, needs={"a": "", "b": "a", "c": "b"})
    content = "".join(f"line {number}\n" for number in range(18))
    team.does["b"] = in_turn([write("app.py", content), Say("Result of b.")])
    assert isinstance(models.default, ByMark)
    models.default[mark] = team
    sign_in(page, chat.person)
    project = int(page.url.split("/p/")[1].split("/")[0])
    with connected_folder(tmp_path, chat.person, project, "--ask", "browser") as folder:
        page.keyboard.type(f"{mark} Please do it all.")
        page.keyboard.press("Enter")
        expect(chat.panel.get_by_role("button", name="Approve")).to_be_in_viewport(ratio=1)

        def approves() -> bool:
            page.keyboard.press("Enter")
            return not chat.panel.get_by_role("button", name="Approve").is_visible()

        eventually(approves)  # keys count only after a moment
        expect(chat.bar).to_contain_text("Coder wants to write")
        lines = page.get_by_role("region", name="Changes of app.py").get_by_role("row")
        expect(chat.bar.get_by_role("button", name="Allow once")).to_be_in_viewport(ratio=1)
        expect(lines.last).to_be_in_viewport(ratio=1)
        in_view = "rows => rows.filter(row => row.getBoundingClientRect().bottom <= innerHeight).length"
        assert lines.evaluate_all(in_view) >= 15

        def allows() -> bool:
            page.keyboard.press("Enter")
            return not chat.bar.is_visible()

        eventually(allows)
        expect(chat.log).to_contain_text("All of it, in one.")
        assert folder.files() == {"app.py": content.encode()}
        chat.tab_to("Undo")
        page.keyboard.press("Enter")
        expect(chat.log).to_contain_text("app.py was removed.")
        assert folder.files() == {}
        chat.tab_to("Redo")
        page.keyboard.press("Enter")
        expect(chat.log).to_contain_text("app.py was changed again.")
        assert folder.files() == {"app.py": content.encode()}


@pytest.mark.req("SEC-03.2", "SEC-03.3", "AGT-02.7")
@pytest.mark.usefixtures("violations")
def test_everything_that_is_approved_is_shown_with_its_hidden_characters(chat: CoderChat, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big.csv").write_bytes(b"x" * 10_000_001)
    asking = {"settings": {"tools": {"write_file": {"requires_approval": True}}}}
    assert chat.person.http.patch(f"/my/projects/{chat.project}", json=asking).status_code == 200
    chat.open()
    warning = chat.bar.get_by_role("alert").first
    trojan = 'if role != "user\u202e \u2066# admins only\u2069 \u2066" :\n'
    with connected_folder(tmp_path, chat.person, chat.project, "--ask", "browser"):
        chat.ask(write(".bashrc", trojan), Say("One."))
        row = chat.panel.get_by_role("row").filter(has_text="if role")
        expect(row).to_contain_text('if role != "user\\u202e \\u2066# admins only\\u2069 \\u2066" :')
        expect(row.locator("span").filter(has_text="\\u")).to_have_text(["\\u202e", "\\u2066", "\\u2069", "\\u2066"])
        expect(warning).to_contain_text(
            "There are 4 hidden characters (U+202E, U+2066, U+2069); they are shown as \\u202e."
        )
        chat.refuse()
        expect(chat.log).to_contain_text("One.")

        chat.ask(write("x.py", f"# {'padding ' * 20}\n" * 2_000 + "a = 1 \u202e\n"), Say("Two."))
        expect(warning).to_contain_text("What is not shown has 1 hidden character (U+202E).")
        expect(chat.panel).to_contain_text("… cut, ")
        chat.refuse()
        expect(chat.log).to_contain_text("Two.")

        chat.ask(write("big.csv", "small"), Say("Three."))
        expect(warning).to_contain_text("Would replace 10,000,001 bytes that are not shown and can't be undone.")
        expect(chat.page.get_by_role("button", name="Allow once")).to_be_visible()
        expect(chat.page.get_by_role("button", name="Allow…")).to_have_count(0)
        chat.refuse()
        expect(chat.log).to_contain_text("Three.")

    chat.ask(call("write_file", path="notes.md", content="rm -rf ~ \u202e\npath: safe.md"), Say("Four."))
    expect(chat.bar).to_contain_text("Coder wants to:Write a file of its own workspace")
    expect(warning).to_contain_text("There is 1 hidden character (U+202E); it is shown as \\u202e.")
    # No argument can look like two.
    expect(chat.bar.locator("pre")).to_have_text("path: notes.md\ncontent: rm -rf ~ \\u202e\n  | path: safe.md")
    chat.refuse()
    expect(chat.log).to_contain_text("Four.")
    assert (tmp_path / "work" / "big.csv").stat().st_size == 10_000_001


@pytest.mark.usefixtures("violations")
def test_decisions_and_extensions_by_other_clients_appear_at_once(chat: CoderChat, complaints: Complaints) -> None:
    complaints.expected.append("409")
    page, person = chat.page, chat.person
    chat.open()
    with folder(person, chat.project, mode="browser") as done:
        chat.ask(call("tool_delete_file", path="a"), Say("One."))
        expect(chat.bar).to_contain_text("Coder wants to delete")
        [pending] = person.get("/my/approvals", status="pending")["items"]
        chat.press("+30 min: 30 minutes more")
        expect(chat.bar.get_by_role("timer")).to_contain_text("3")
        extended = person.get(f"/my/approvals/{pending['id']}")["expires_at"]
        assert extended > pending["expires_at"]
        person.http.post(f"/my/approvals/{pending['id']}/confirm", json={"decision": "reject"})
        expect(chat.bar).to_have_count(0)
        expect(chat.log).to_contain_text("You refused.")
        expect(chat.log).to_contain_text("One.")

        chat.ask(call("tool_delete_file", path="b"))
        expect(chat.bar).to_contain_text("wants to delete")
        chat.press("Stop")
        expect(chat.bar).to_have_count(0)
        expect(chat.log).to_contain_text("No longer needed.")
        eventually(lambda: not person.get("/my/approvals", status="pending")["items"])

        chat.ask(write(), Say("Three."))
        page.route(
            "**/confirm", lambda route: route.fulfill(status=409, json={"code": "approval_decided", "detail": "Late."})
        )
        chat.press("Allow once")
        expect(chat.bar.get_by_role("alert").filter(has_text="Late.")).to_be_visible()
        page.unroute("**/confirm")
        page.reload()  # nothing is lost with the page
        chat.press("Allow…")
        page.get_by_role("menuitem", name="Until the folder is disconnected: *.py").click()
        expect(chat.log).to_contain_text("Three.")
        expect(chat.log).to_contain_text("allowed for now")
    assert [each["method"] for each in done] == ["workspace/write"]
    [used] = person.get("/my/approvals", status="used")["items"]
    assert person.get(f"/my/chat/{used['session_id']}/timeline", limit=50)


@pytest.mark.usefixtures("violations")
def test_question_of_the_terminal_can_be_answered_here_from_now_on(chat: CoderChat) -> None:
    def answer(method: str, _: dict[str, Any]) -> dict[str, Any]:
        if method == "workspace/settings":
            changed.set()
            return {"mode": "both"}
        where = "both" if changed.is_set() else "terminal"
        return {"success": False, "code": "asks", "error": "asked", "ask_id": where, "diff": DIFF, "where": where}

    changed = threading.Event()
    chat.open()
    with serving(chat.person, chat.project, answer, mode="terminal", features=["settings"], machine="laptop"):
        chat.ask(write(), Say("One."))
        expect(chat.bar).to_contain_text("Answer in the terminal of laptop. Here you can only refuse.")
        expect(chat.page.get_by_role("button", name="Allow once")).to_have_count(0)
        chat.press("Answer here from now on")
        expect(
            chat.page.get_by_text("From the next question on you are asked here and in the terminal.")
        ).to_be_visible()
        chat.refuse()
        expect(chat.log).to_contain_text("One.")
        chat.ask(write("b.py"), Say("Two."))
        expect(chat.page.get_by_role("button", name="Allow once")).to_be_visible()
        chat.refuse()
        expect(chat.log).to_contain_text("Two.")


@pytest.mark.usefixtures("violations")
def test_files_of_one_agent_are_allowed_together_after_all_were_seen(
    chat: CoderChat, models: ModelServer, tmp_path: Path
) -> None:
    page, mark = chat.page, chat.mark
    team = Team(mark, needs={"a": "", "b": "", "c": "a b"})
    long = "".join(f"line {number}\n" for number in range(60))
    for name in "ab":
        team.does[name] = in_turn([write(f"{name}.py", long), Say(f"Result of {name}.")])
    assert isinstance(models.default, ByMark)
    models.default[mark] = team
    sign_in(page, chat.person)
    project = int(page.url.split("/p/")[1].split("/")[0])
    with connected_folder(tmp_path, chat.person, project, "--ask", "browser") as folder:
        page.keyboard.type(f"{mark} Please do it all.")
        page.keyboard.press("Enter")
        chat.press("Approve")
        chat.press("Show all 2 files")
        allow = chat.panel.get_by_role("button", name="Allow all 2 files")
        expect(chat.panel).to_contain_text("Look at every file first.")
        allow.click(force=True)
        chat.panel.get_by_role("button", name="Full screen").click()
        assert chat.panel.bounding_box()["width"] > 900  # type: ignore[index]
        assert folder.files() == {}
        for name in ("a.py", "b.py"):
            last = chat.panel.get_by_role("region", name=f"Changes of {name}").get_by_role("row").last
            last.scroll_into_view_if_needed()
        chat.panel.get_by_role("region", name="Changes of b.py").evaluate(
            "region => region.closest('section').lastElementChild.scrollIntoView()"
        )
        expect(chat.panel).not_to_contain_text("Look at every file first.")
        allow.click()
        expect(chat.log).to_contain_text("All of it, in one.")
        assert folder.files() == {"a.py": long.encode(), "b.py": long.encode()}
    used = [each for each in chat.person.get("/my/approvals", status="used")["items"] if each["kind"] == "tool"]
    assert sorted(each["arguments"]["path"] for each in used) == ["a.py", "b.py"]


@pytest.mark.usefixtures("violations")
def test_write_is_seen_and_allowed_by_keyboard_only(page: Page, person: Person, models: ModelServer, mark: str) -> None:
    project: int = person.project()["id"]
    assert isinstance(models.default, ByMark)
    answers = [write(), Say("Written.")]
    models.default[mark] = in_turn(answers)
    with folder(person, project, mode="browser") as done:
        open_session(page, person, project, f"{mark} Change it")
        bar = page.get_by_role("region", name="A question for you")
        expect(bar).to_contain_text("Coder wants to write")
        expect(bar).to_be_focused()
        lines = page.get_by_role("region", name="Changes of app.py").get_by_role("row")
        expect(lines.last).to_be_in_viewport(ratio=1)
        assert sum(row.is_visible() for row in lines.all()) >= 15
        expect(bar.get_by_role("button", name="Allow once")).to_be_in_viewport(ratio=1)
        expect(page).to_have_title(re.compile(r"^\(1\) "))

        always = page.get_by_role("menuitem", name="Always: *.py")

        def opens_the_menu() -> bool:
            page.keyboard.press("a")
            return always.is_visible()

        eventually(opens_the_menu)  # keys count only after a moment
        page.keyboard.press("Escape")
        assert done == []
        bar.focus()
        page.keyboard.press("Enter")

        expect(page.get_by_role("log")).to_contain_text("Written.")
        expect(bar).to_have_count(0)
    assert [each["method"] for each in done] == ["workspace/write"]


@pytest.mark.usefixtures("violations")
def test_hidden_characters_are_announced_and_a_refusal_has_a_reason_on_a_phone(
    page: Page, person: Person, models: ModelServer, mark: str
) -> None:
    project: int = person.project()["id"]
    assert isinstance(models.default, ByMark)
    path = "src/" + "a_rather_long_folder_name/" * 6 + "app.py"
    answers = [write(path), Say("Then not.")]
    models.default[mark] = in_turn(answers)
    page.set_viewport_size({"width": 360, "height": 740})
    with folder(person, project, "-old\n+is\u202eadmin\n", mode="browser") as done:
        open_session(page, person, project, f"{mark} Change it")
        bar = page.get_by_role("region", name="A question for you")
        expect(bar).to_contain_text("app.py")
        expect(bar.get_by_role("alert").first).to_contain_text("1 hidden character (U+202E)")
        assert width_of_contents(page) <= 360
        expect(page.get_by_role("button", name="Allow once")).to_have_count(0)  # not before the diff is in view
        bar.get_by_role("button", name="Show diff").click()
        expect(page.get_by_role("button", name="Allow once")).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("region", name=f"Changes of {path}")).to_contain_text("is\\u202eadmin")
        assert width_of_contents(page) <= 360
        page.get_by_role("complementary", name="Details").get_by_role("button", name="Refuse…").click()
        page.get_by_role("textbox", name="Why?").fill("Wrong file")
        page.keyboard.press("Enter")

        expect(page.get_by_role("log")).to_contain_text("Then not.")
    assert done == []
    [refused] = person.get("/my/approvals?status=rejected")["items"]
    assert refused["feedback"] == "Wrong file"


@pytest.mark.req("DEC-01.1")
@pytest.mark.usefixtures("violations")
def test_inbox_has_what_waits_in_all_projects_and_tells_of_it_once(chat: CoderChat, complaints: Complaints) -> None:
    complaints.expected.append("409")
    page, person = chat.page, chat.person
    page.add_init_script(
        """window.told = [];
        window.Notification = class {
          static permission = "default";
          static async requestPermission() { return (this.permission = "granted"); }
          constructor(title, { body }) { window.told.push(`${title}: ${body}`); }
          close() {}
        };"""
    )
    chat.open()
    with folder(person, chat.project, mode="browser") as done:
        chat.ask(write(), Say("Written."))
        expect(chat.bar).to_contain_text("Tell you when something waits for you")
        expect(page).to_have_title(re.compile(r"^\(1\) "))
        chat.press("Turn on notifications")
        expect(page.get_by_role("button", name="Turn on notifications")).to_have_count(0)
        assert page.evaluate("window.told") == []  # not of the conversation that is looked at

        page.get_by_role("link", name="Inbox").click()
        card = page.get_by_role("article", name="Coder wants to write app.py")
        expect(card.get_by_role("row").last).to_be_visible()
        [pending] = person.get("/my/approvals", status="pending")["items"]
        card.get_by_role("button", name="30 minutes more").click()
        expect(page.get_by_text("You have 30 minutes more.")).to_be_visible()
        assert person.get(f"/my/approvals/{pending['id']}")["expires_at"] > pending["expires_at"]
        other = person.project("Shop")["id"]
        with folder(person, other, mode="browser"):
            session = person.session(other)
            chat.script(write("shop.py"), Say("Late."))
            sent = person.post(session, f"{chat.mark} sell", "agent_coder", {"Prefer": "respond-async"})
            assert sent.status_code == 202
            eventually(lambda: len(person.get("/my/approvals", status="pending")["items"]) == 2)
            late = page.get_by_role("article", name="Coder wants to write shop.py")
            expect(late).to_be_visible(timeout=OTHER_PROJECT_MILLISECONDS)  # its project is not open
            expect(page).to_have_title(re.compile(r"^\(2\) "))
            assert page.evaluate("window.told") == [f"Coder waits for you: {chat.mark} sell"]
            expect(late.get_by_role("button", name="Allow once")).to_be_visible()  # the newest is open
            late.get_by_role("button", name="Hide").click()
            expect(late.get_by_role("button", name="Allow once")).to_have_count(0)  # never without its content
            late.get_by_role("button", name="Refuse…").click()
            page.get_by_role("button", name="Refuse", exact=True).click()
            expect(late).to_have_count(0)
        card.get_by_role("button", name="Allow once").click()
        expect(page.get_by_text("Nothing waits for you")).to_be_visible()
        eventually(lambda: [each["method"] for each in done] == ["workspace/write"])
        expect(page).to_have_title(re.compile(r"^Inbox"))


@pytest.mark.req("CHT-08.1")
@pytest.mark.usefixtures("violations")
def test_inbox_lists_failures_and_expired_approvals_until_seen(chat: CoderChat, models: ModelServer) -> None:
    page, person = chat.page, chat.person
    shop, brief = person.project("Shop")["id"], {"settings": {"approval_seconds": 1}}
    assert person.http.patch(f"/my/projects/{chat.project}", json=brief).status_code == 200
    chat.open()
    with folder(person, chat.project, mode="browser"):
        chat.ask(write(), Say("It stays."))
        expect(chat.log).to_contain_text("It stays.")
    failed = person.session(shop, title="Sell it")
    assert isinstance(models.default, ByMark)
    models.default[chat.mark] = Fail(400)
    assert person.post(failed, f"{chat.mark} sell", "agent_coder").status_code == 502

    page.get_by_role("link", name="Inbox").click()
    missed = page.get_by_role("region", name="While you were away")
    entries = missed.get_by_role("article")
    expect(entries.first).to_contain_text("Coder did not finish")
    expect(entries.nth(1)).to_contain_text("Coder wants to write")
    entries.first.get_by_role("link", name="Open the conversation").click()
    expect(page).to_have_url(re.compile(f"/p/{shop}/c/{failed}$"))
    expect(chat.log.get_by_role("group", name="Notice")).to_be_visible()
    page.get_by_role("link", name="Inbox").click()
    expect(entries).to_have_count(1)  # what was looked at was not missed
    chat.press("Mark all as seen")
    expect(entries).to_have_count(0)
    page.reload()
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    expect(entries).to_have_count(0)


@pytest.mark.req("DEC-01.1")
@pytest.mark.usefixtures("violations")
def test_phone_shows_how_many_questions_wait_and_keeps_room_for_messages_on_its_side(chat: CoderChat) -> None:
    page, person = chat.page, chat.person
    page.add_init_script("window.Notification = class { static permission = 'default'; }")  # which it offers to use
    page.set_viewport_size({"width": 844, "height": 390})
    chat.open()
    with folder(person, chat.project, mode="browser"):
        chat.ask(write(), Say("Written."))
        expect(chat.bar.get_by_role("button", name="Show diff")).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("textbox", name="Message")).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("button", name="Open the menu")).to_be_visible()
        log, bar = chat.log.bounding_box(), chat.bar.bounding_box()
        assert log is not None
        assert bar is not None
        assert log["height"] >= 150
        assert bar["height"] <= 64  # one line
        page.set_viewport_size({"width": 390, "height": 844})
        expect(page.get_by_role("button", name="Inbox, 1 question waits for you")).to_have_text("1")


@pytest.mark.req("CHT-10.1")
@pytest.mark.usefixtures("violations")
def test_notice_is_in_the_chosen_language_with_the_words_of_the_server(chat: CoderChat) -> None:
    page = chat.page
    chat.open()
    address = page.url
    page.goto("/settings")
    page.get_by_role("combobox", name="Language").select_option("Русский")
    expect(page.get_by_role("heading", level=1, name="Настройки")).to_be_visible()
    page.goto(address)
    budget = {"settings": {"monthly_budget_usd": 0.0001}}
    chat.person.http.patch(f"/my/projects/{chat.project}", json=budget).raise_for_status()
    chat.ask(Say("Too dear."))
    expect(page.get_by_role("log")).to_contain_text("Бюджет исчерпан.")
    [stored] = [item for item in chat.timeline() if item["kind"] == "notice"]
    words = page.get_by_text("Слова сервера")
    folded = page.get_by_role("log").locator("details")
    expect(folded).to_have_js_property("open", False)
    words.click()
    expect(folded).to_have_js_property("open", True)
    expect(folded).to_contain_text(stored["text"][:30])


@pytest.mark.req("CHT-10.3")
@pytest.mark.usefixtures("violations")
def test_enter_breaks_the_line_of_an_edited_message_if_the_user_wants_so(chat: CoderChat) -> None:
    page = chat.page
    chat.open()
    address = page.url
    page.goto("/settings")
    page.get_by_role("switch", name="Enter sends").uncheck()
    page.goto(address)
    chat.ask(Say("First."))
    expect(chat.log).to_contain_text("First.")
    chat.script(Say("Second."))
    page.get_by_role("button", name="Edit").first.click()
    box = page.get_by_role("textbox", name="Edit")
    box.press("End")
    box.press("Enter")
    expect(box).to_have_value(f"{chat.mark} please\n")
    box.press("Control+Enter")
    expect(chat.log).to_contain_text("Second.")


@pytest.mark.req("CHT-10.1")
@pytest.mark.usefixtures("violations")
def test_raise_the_budget_leads_to_its_field(chat: CoderChat) -> None:
    budget = {"settings": {"monthly_budget_usd": 0.0001}}
    chat.person.http.patch(f"/my/projects/{chat.project}", json=budget).raise_for_status()
    chat.open()
    chat.ask(Say("Too dear."))
    chat.press("Raise the budget")
    expect(chat.page).to_have_url(re.compile(r"/settings/approvals$"))
