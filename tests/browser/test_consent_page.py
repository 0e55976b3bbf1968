"""Approvals on the page."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from artel.cli.output import visible
from tests.actors.chat_page import ChatPage, message_texts
from tests.browser.visits import Complaints, width_of_contents
from tests.conftest import StartServer
from tests.connector import connected
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import Dictate, ModelServer, Say, Tool
from tests.people import Person
from tests.running import Server


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer().running_in_thread() as models:
        yield models


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.fixture
def chat(page: Page, person: Person, models: ModelServer) -> Iterator[ChatPage]:
    yield ChatPage(page, person)
    models.queue.clear()


@contextmanager
def files(chat: ChatPage, *, asks: dict[str, str] | None = None, **hello: Any) -> Iterator[list[dict[str, Any]]]:
    """Run a connector that asks about plain writes and does everything else."""
    calls: list[dict[str, Any]] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if not params.get("with_sha256"):  # a look before the user is asked
            calls.append({"method": method, **params})
        if method == "workspace/write" and not params["approval"]:
            return {
                "success": False,
                "code": "asks",
                "error": "asked",
                "ask_id": "q1",
                "diff": "-old\n+new",
                "grant": "*.txt",
                **(asks or {}),
            }
        return {"size": 1}

    with connected(chat.person, chat.id, **hello) as connector:
        thread = threading.Thread(target=connector.serve, args=(answer,))
        thread.start()
        try:
            yield calls
        finally:
            connector.socket.close()
            thread.join(10)


def call(name: str, **arguments: Any) -> Say:
    return Say(tools=[Tool(name, json.dumps(arguments))])


def question(page: Page) -> Locator:
    return page.locator("#messages > .question")


def acted(page: Page) -> Locator:
    return page.locator("#messages > .acted")


def test_delete_runs_after_approval_by_keyboard(chat: ChatPage, models: ModelServer) -> None:
    models.script(call("tool_delete_file", path="old <b>.txt"), Say("Deleted."))
    chat.open()

    with files(chat) as calls:
        chat.send("Clean up")
        expect(question(chat.page)).to_contain_text("agent_coder wants to delete old <b>.txt")
        expect(chat.page.get_by_text("agent_coder waits for your answer")).to_be_visible()
        assert calls == []
        approve = question(chat.page).get_by_role("button", name="Approve")
        approve.focus()
        chat.page.keyboard.press("Enter")
        expect(question(chat.page)).to_contain_text("You approved it.")
        expect(message_texts(chat.page)).to_have_text(["Clean up", "Deleted."])

    assert [each["method"] for each in calls] == ["workspace/delete"]
    expect(approve).to_have_count(0)
    expect(chat.stop).to_have_count(0)


@pytest.mark.req("CHT-10.1")
def test_text_after_approval_replaces_text_before_it(chat: ChatPage, models: ModelServer) -> None:
    delete = Tool("tool_delete_file", json.dumps({"path": "old.txt"}))
    dictate = Dictate()
    models.script(Say("I would like to delete a file, if I may.", tools=[delete]), dictate)
    chat.open()

    with files(chat):
        chat.send("Clean up")
        expect(message_texts(chat.page)).to_have_text(["Clean up", "I would like to delete a file, if I may."])
        question(chat.page).get_by_role("button", name="Approve").click()
        dictate.say("It is ")
        expect(message_texts(chat.page)).to_have_text(["Clean up", "It is "])
        dictate.say("gone.")
        expect(message_texts(chat.page)).to_have_text(["Clean up", "It is gone."])
        expect(chat.stop).to_be_visible()  # that was not the end of it yet
        expect(chat.page.locator("#messages > li").last).to_contain_text("It is gone.")  # below the question
        dictate.end()
        expect(chat.stop).to_have_count(0)

    assert [message["content"] for message in chat.stored()] == ["Clean up", "It is gone."]


@pytest.mark.req("CHT-10.6")
def test_refused_delete_is_never_described_as_done(chat: ChatPage, models: ModelServer, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "README.md").write_text("x" * 35)
    models.script(call("tool_delete_file", path="README.md"), Say("Then it stays."))
    chat.open()

    with connected_folder(tmp_path, chat.person, chat.id, "--ask", "browser") as folder:
        chat.send("Clean up")
        expect(question(chat.page)).to_contain_text("Would delete README.md (35 bytes)")
        question(chat.page).get_by_role("button", name="Refuse").click()
        expect(question(chat.page)).to_contain_text("You refused. Nothing was deleted.")
        expect(question(chat.page)).not_to_contain_text("is deleted")
        assert [*folder.files()] == ["README.md"]


@pytest.mark.req("SEC-03.2")
def test_hidden_characters_are_marked_and_announced_in_what_is_approved(chat: ChatPage, models: ModelServer) -> None:
    trojan = 'if role != "user\u202e \u2066# admins only\u2069 \u2066" :\n'
    models.script(call("tool_write_file", path=".bashrc", content=trojan), Say("No."))
    chat.open()

    with files(chat):
        chat.send("Write it")
        shown = question(chat.page)
        expect(shown.locator(".diff .added").first).to_have_text(
            '+if role != "user\\u202e \\u2066# admins only\\u2069 \\u2066" :\n'
        )
        expect(shown.locator(".diff .hidden-character")).to_have_text(["\\u202e", "\\u2066", "\\u2069", "\\u2066"])
        expect(shown.locator(".warning")).to_have_text(
            "The new content has 4 hidden characters (U+202E, U+2066, U+2069); they are shown as \\u202e."
        )
        shown.get_by_role("button", name="Refuse").click()
        expect(shown).to_contain_text("You refused. Nothing was written.")


@pytest.mark.req("AGT-02.7", "SEC-03.2")
def test_every_argument_of_a_tool_is_shown_before_it_is_approved(chat: ChatPage, models: ModelServer) -> None:
    asking = {"settings": {"tools": {"write_file": {"requires_approval": True}}}}
    assert chat.person.http.patch(f"/my/projects/{chat.id}", json=asking).status_code == 200
    models.script(call("write_file", path="notes.md", content="rm -rf ~ \u202e\npath: safe.md"), Say("No."))
    chat.open()

    chat.send("Write it")
    shown = question(chat.page)
    expect(shown).to_contain_text("agent_coder wants to call write_file with")
    # No argument can look like two.
    lines = ["path: notes.md\n", "content: rm -rf ~ \\u202e\n", "  | path: safe.md\n"]
    expect(shown.locator(".diff .kept")).to_have_text(lines)
    expect(shown.locator(".warning")).to_have_text("The call has 1 hidden character (U+202E); it is shown as \\u202e.")
    shown.get_by_role("button", name="Refuse").click()
    expect(shown).to_contain_text("You refused. It was not done.")


@pytest.mark.req("SEC-03.2")
def test_hidden_characters_after_the_cut_of_a_diff_are_announced(
    chat: ChatPage, models: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    content = f"# {'padding ' * 20}\n" * 2_000 + "a = 1 \u202e\n"
    models.script(call("tool_write_file", path="x.py", content=content), Say("No."))
    chat.open()

    with connected_folder(tmp_path, chat.person, chat.id, "--ask", "browser"):
        chat.send("Write it")
        expect(question(chat.page).locator(".warning")).to_have_text(
            "What is not shown has 1 hidden character (U+202E)."
        )
        expect(question(chat.page).locator(".diff")).to_contain_text("… cut, ")
        question(chat.page).get_by_role("button", name="Refuse").click()
        expect(question(chat.page)).to_contain_text("You refused. Nothing was written.")


@pytest.mark.req("SEC-03.2")
def test_page_marks_the_same_characters_as_the_terminal(chat: ChatPage) -> None:
    chat.open()
    emoji = "\u26a0\ufe0f \u2194\ufe0f a\ufe0f +\ufe0f<\ufe0f=\ufe0f>\ufe0f|\ufe0f~\ufe0f \r\n\t"

    shown = chat.page.evaluate(
        """async (emoji) => {
          const { visible } = await import("/assets/visible.js");
          const escaped = [];
          for (let number = 0; number < 0x110000; number++) {
            const [text, isHalf] = [String.fromCodePoint(number), number >= 0xd800 && number <= 0xdfff];
            if (!isHalf && visible(text, "") !== text) escaped.push([number, visible(text, "")]);
          }
          return [escaped, visible(emoji)];
        }""",
        emoji,
    )

    every = (chr(number) for number in range(0x110000) if not 0xD800 <= number <= 0xDFFF)
    assert shown[0] == [[ord(text), visible(text, "")] for text in every if visible(text, "") != text]
    assert shown[1] == visible(emoji)


@pytest.mark.req("SEC-03.3")
def test_irreversible_change_is_announced_without_grant(chat: ChatPage, models: ModelServer, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "big.csv").write_bytes(b"x" * 10_000_001)
    models.script(call("tool_write_file", path="big.csv", content="small"), Say("No."))
    chat.open()

    with connected_folder(tmp_path, chat.person, chat.id, "--ask", "browser"):
        chat.send("Write it")
        expect(question(chat.page).locator(".warning")).to_have_text(
            "Would replace 10,000,001 bytes that are not shown and can't be undone."
        )
        expect(question(chat.page).get_by_label("Allow")).to_be_hidden()
        question(chat.page).get_by_role("button", name="Refuse").click()
        expect(question(chat.page)).to_contain_text("You refused. Nothing was written.")
        assert (work / "big.csv").stat().st_size == 10_000_001


def test_refusal_sends_reason_to_agent(chat: ChatPage, models: ModelServer) -> None:
    models.script(call("tool_delete_file", path="old.txt"), Say("Then I leave it."))
    chat.open()

    with files(chat) as calls:
        chat.send("Clean up")
        question(chat.page).get_by_label("If you refuse").fill("I need it")
        question(chat.page).get_by_label("If you refuse").press("Enter")  # it must not approve
        expect(question(chat.page)).to_contain_text("You refused. Nothing was deleted.")
        expect(message_texts(chat.page)).to_have_text(["Clean up", "Then I leave it."])

    assert calls == []
    assert "I need it" in json.dumps(models.asked[-1].body["messages"])


def test_write_shows_diff_and_can_be_approved_for_session(chat: ChatPage, models: ModelServer) -> None:
    models.script(call("tool_write_file", path="a.txt", content="new"), Say("Written."))
    chat.open()

    with files(chat, mode="browser", workspace_name="my <i>work"):
        expect(chat.page.locator("#files")).to_have_text("Files: my <i>work, writes are asked for here")
        chat.send("Write it")
        expect(question(chat.page).locator(".diff .removed")).to_have_text("-old\n")
        expect(question(chat.page).locator(".diff .added")).to_have_text("+new\n")
        question(chat.page).get_by_label("Allow").select_option("session")
        chat.page.reload()  # nothing is lost with the page
        expect(question(chat.page)).to_contain_text("wants to write a.txt")
        question(chat.page).get_by_label("Allow").select_option("always")
        question(chat.page).get_by_role("button", name="Approve").click()
        expect(message_texts(chat.page)).to_have_text(["Write it", "Written."])

    expect(chat.page.locator("#files")).to_have_text(
        f"No folder connected. In the folder, run artel connect . --project {chat.id} --ask both"
    )
    used = chat.person.http.get("/my/approvals?status=used").json()["items"]
    assert len(used) == 1


def test_decision_elsewhere_is_shown_and_stop_withdraws_question(chat: ChatPage, models: ModelServer) -> None:
    models.script(call("tool_delete_file", path="a"), Say("One."), call("tool_delete_file", path="b"))
    chat.open()

    with files(chat):
        chat.send("First")
        expect(question(chat.page)).to_have_count(1)
        [pending] = chat.person.http.get("/my/approvals?status=pending").json()["items"]
        chat.person.http.post(f"/my/approvals/{pending['id']}/confirm", json={"decision": "reject"})
        expect(question(chat.page)).to_contain_text("You refused. Nothing was deleted.")
        chat.send("Second")
        expect(question(chat.page)).to_have_count(2)
        chat.stop.click()
        expect(question(chat.page).last).to_contain_text("No longer needed.")

    eventually(lambda: not chat.person.http.get("/my/approvals?status=pending").json()["items"])


def test_changes_of_turn_are_undone_by_keyboard(chat: ChatPage, models: ModelServer, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("old")
    models.script(
        call("tool_read_file", path="a.txt"),
        Say("Read."),
        call("tool_write_file", path="a.txt", content="new"),
        call("tool_write_file", path="b <b>.txt", content="b"),
        call("tool_edit_file", path="b <b>.txt", old="b", new="c"),
        Say("Written."),
    )
    chat.open()
    undo = chat.page.get_by_role("button", name="Undo file changes")

    with connected_folder(tmp_path, chat.person, chat.id, "--yes") as folder:
        chat.send("Read it")
        expect(message_texts(chat.page)).to_have_text(["Read it", "Read."])
        chat.send("Write it")
        expect(undo).to_have_count(1)  # nothing was changed before
        expect(chat.page.locator("#messages > li").last).to_contain_text("Undo file changes")
        assert folder.files() == {"a.txt": b"new", "b <b>.txt": b"c"}
        chat.page.reload()  # nothing is lost with the page
        undo.focus()
        chat.page.keyboard.press("Enter")
        expect(chat.page.get_by_text("Put back 2 files?").first).to_be_visible()
        expect(chat.page.get_by_role("button", name="Put back")).to_be_focused()
        chat.page.keyboard.press("Tab")
        chat.page.keyboard.press("Enter")  # Keep
        expect(undo).to_be_focused()
        assert folder.files() == {"a.txt": b"new", "b <b>.txt": b"c"}

        (work / "b <b>.txt").write_text("mine")
        chat.page.keyboard.press("Enter")
        chat.page.keyboard.press("Enter")
        outcome = "a.txt was put back. b <b>.txt was changed since, and stays."
        expect(chat.page.get_by_text(outcome).and_(chat.page.locator("#messages *"))).to_have_count(1)
        expect(acted(chat.page).last).to_have_text(outcome)
        expect(acted(chat.page).last).to_be_focused()
        expect(undo).to_have_count(0)
        assert folder.files() == {"a.txt": b"old", "b <b>.txt": b"mine"}


@pytest.mark.req("CHT-10.6")
@pytest.mark.parametrize(("old", "words"), [("b", "No change: a.txt already says this."), ("", "a.txt is empty then.")])
def test_a_question_without_a_diff_says_what_would_change(
    chat: ChatPage, models: ModelServer, old: str, words: str
) -> None:
    models.script(call("tool_write_file", path="a.txt", content="all of it"), Say("Done."))
    chat.open()

    with files(chat, asks={"diff": "", "old_sha256": old, "new_sha256": "b"}, mode="browser"):
        chat.send("Write")
        expect(question(chat.page)).to_contain_text(words)
        expect(question(chat.page)).not_to_contain_text("all of it")
        chat.stop.click()
        expect(chat.stop).to_have_count(0)


@pytest.mark.req("CHT-10.1", "CLI-01.11")
def test_failed_undo_can_be_retried(
    chat: ChatPage, models: ModelServer, tmp_path: Path, complaints: Complaints
) -> None:
    complaints.expected.append("503")
    models.script(call("tool_write_file", path="a.txt", content="new"), Say("Written."))
    chat.open()

    with connected_folder(tmp_path, chat.person, chat.id, "--yes") as folder:
        chat.send("Write it")
        chat.page.get_by_role("button", name="Undo file changes").click()
        folder.disconnect()
        put_back = chat.page.get_by_role("button", name="Put back")
        put_back.click()
        expect(chat.page.locator(".undo [role=alert]")).to_contain_text("Run artel connect")
        expect(chat.page.locator(".undo [role=alert] code")).to_have_text(["artel connect", "artel undo"])
        assert folder.files() == {"a.txt": b"new"}
        folder.connect("--yes")
        put_back.click()
        expect(acted(chat.page).last).to_have_text("a.txt was removed.")
        assert folder.files() == {}

    with chat.page.expect_response(lambda response: "/audit" in response.url) as looked:
        chat.page.reload()
    looked.value.finished()
    chat.page.evaluate("new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)))")
    expect(message_texts(chat.page)).to_have_text(["Write it", "Written."])
    expect(chat.page.get_by_role("button", name="Undo file changes")).to_have_count(0)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_a_question_fits_the_screen(
    chat: ChatPage, models: ModelServer, width: int, scheme: Any, request: pytest.FixtureRequest
) -> None:
    chat.page.set_viewport_size({"width": width, "height": 800})
    chat.page.emulate_media(color_scheme=scheme)
    long = "src/" + "a_rather_long_folder_name/" * 6 + "file.py"
    models.script(call("tool_write_file", path=long, content="x" * 300 + "\ny"), Say("Done."))
    chat.open()

    with files(chat, mode="browser"):
        chat.send("Write")
        expect(question(chat.page)).to_be_visible()
        chat.page.screenshot(path=request.config.rootpath / "build" / f"question-{width}.png")
        assert width_of_contents(chat.page) <= width
        chat.stop.click()
        expect(chat.stop).to_have_count(0)


@pytest.mark.req("CHT-10.1", "CHT-10.6")
def test_timeline_looks_the_same_after_reload(chat: ChatPage, models: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("old\n")
    models.script(
        call("tool_read_file", path="a.txt"),
        call("tool_stat", path="a.txt"),
        call("tool_list_directory", path="."),
        call("tool_write_file", path="a.txt", content="new\n"),
        call("tool_delete_file", path="a.txt"),
        Say("It is kept."),
    )
    chat.open()
    expected = [
        "You",
        "agent_coder read a.txt.",
        "agent_coder looked at a.txt.",
        "agent_coder listed the folder.",
        "agent_coder wants to write a.txt",
        "agent_coder wrote a.txt.",
        "agent_coder wants to delete a.txt",
        "agent_coder",
        "a.txt was put back.",
    ]
    log = chat.page.locator("#messages > li")

    with connected_folder(tmp_path, chat.person, chat.id, "--ask", "browser"):
        chat.send("Work")
        question(chat.page).get_by_role("button", name="Approve").click()
        expect(question(chat.page)).to_have_count(2)
        question(chat.page).last.get_by_role("button", name="Refuse").click()
        chat.page.get_by_role("button", name="Undo file changes").click()
        chat.page.get_by_role("button", name="Put back").click()
        expect(log).to_contain_text(expected)
        shown = log.all_inner_texts()

    chat.page.reload()
    expect(log).to_contain_text(expected)
    assert log.all_inner_texts() == shown
    assert [text.count("was put back") for text in shown].count(1) == 1
    assert "You approved it." in shown[4]
    assert "You refused. Nothing was deleted." in shown[6]
    assert not any("is deleted" in text or "deleted a.txt" in text for text in shown)
