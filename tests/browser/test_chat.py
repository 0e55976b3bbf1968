"""The chat of the UI built from `web/`: messages that wait, editing, files, completion, the list of conversations."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conversation import Chat
from tests.browser.pages import sign_in
from tests.conftest import StartServer
from tests.model_server import Dictate, ModelServer, Say
from tests.people import Person
from tests.running import Server


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    """A server with a scripted model."""
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.mark.usefixtures("violations")
def test_message_that_waits_is_changed_and_taken_back(page: Page, person: Person, models: ModelServer) -> None:
    dictation = Dictate()
    models.script(dictation)
    dictation.say("One ")
    sign_in(page, person)
    composer = page.get_by_role("textbox", name="Message", exact=True)
    page.get_by_role("combobox", name="To").select_option("Coder")
    composer.fill("Count")
    composer.press("Enter")
    expect(page.get_by_role("article")).to_contain_text("One")

    composer.fill("Then this")
    page.get_by_role("button", name="Queue").click()

    waiting = page.get_by_role("list", name="Messages that wait")
    log = page.get_by_role("log", name="Messages")
    expect(waiting).to_contain_text("Then this")
    expect(log).not_to_contain_text("Then this")
    waiting.get_by_role("button", name="Edit").click()
    waiting.get_by_role("textbox", name="Edit").fill("Then that")
    waiting.get_by_role("textbox", name="Edit").press("Enter")
    expect(waiting).to_contain_text("Then that")
    waiting.get_by_role("button", name="Take back").click()
    expect(composer).to_have_value("Then that")
    expect(waiting).to_have_count(0)
    page.reload()
    expect(composer).to_have_value("Then that")
    dictation.end()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


@pytest.mark.usefixtures("violations")
def test_message_with_a_file_is_edited_and_sent_again(page: Page, person: Person) -> None:
    sign_in(page, person)
    composer = page.get_by_role("textbox", name="Message", exact=True)
    composer.press_sequentially("@cod")
    expect(page.get_by_role("option", name="Coder Agent")).to_have_attribute("aria-selected", "true")
    page.evaluate("() => { window.late = []; window.requestAnimationFrame = (run) => window.late.push(run); }")
    composer.press("Enter")
    page.keyboard.type("qui")
    page.evaluate("() => window.late.splice(0).forEach((run) => run(0))")  # a frame comes later than fast fingers
    page.keyboard.type("ck")
    expect(composer).to_have_value("quick")
    expect(page.get_by_role("combobox", name="To")).to_have_value("agent_coder")
    page.evaluate("() => delete window.requestAnimationFrame")
    page.locator("input[type=file]").set_input_files(
        FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"remember")
    )
    composer.fill("First words")
    composer.press("Enter")

    log = page.get_by_role("log", name="Messages")
    expect(log.get_by_role("link", name="notes.txt")).to_be_visible()
    expect(log.get_by_role("article")).to_contain_text("First words")
    expect(page.get_by_role("button", name="Again", exact=True)).to_be_enabled()
    composer.press("ArrowUp")
    log.get_by_role("textbox", name="Edit and send again").fill("Better words")
    log.get_by_role("textbox", name="Edit and send again").press("Enter")

    expect(log.get_by_role("article")).to_contain_text("Better words")
    expect(log.get_by_text("First words").first).to_be_hidden()
    log.get_by_text("Earlier version").click()
    expect(log.get_by_text("First words").first).to_be_visible()
    expect(page.get_by_role("combobox", name="To")).to_have_value("agent_coder")


@pytest.mark.usefixtures("violations")
def test_conversations_are_found_renamed_archived_and_deleted_with_undo(page: Page, person: Person) -> None:
    project = person.project()["id"]
    whales, trains = (person.session(project) for _ in range(2))
    person.say(whales, "About whales")
    person.say(trains, "About trains")
    sign_in(page, person)
    conversations = page.get_by_role("navigation", name="Conversations")
    search = conversations.get_by_role("searchbox", name="Search conversations")
    search.fill("whales")
    expect(conversations.get_by_role("link", name="whales").first).to_be_visible()
    expect(conversations.get_by_role("link", name="trains")).to_have_count(0)
    search.fill("")

    conversations.get_by_role("button", name="Menu of About whales").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_role("textbox", name="Title").fill("Sea animals")
    page.get_by_role("button", name="Save").click()
    expect(conversations.get_by_role("link", name="Sea animals")).to_be_visible()

    conversations.get_by_role("button", name="Menu of Sea animals").click()
    page.get_by_role("menuitem", name="Delete").click()
    person.http.patch(f"/my/chat/sessions/{trains}", json={"title": "Railways"}).raise_for_status()
    expect(conversations.get_by_role("link", name="Railways")).to_be_visible()  # the list was loaded again
    expect(conversations.get_by_role("link", name="Sea animals")).to_have_count(0)
    page.get_by_role("status", name="Notices").get_by_role("button", name="Undo").click()
    expect(conversations.get_by_role("link", name="Sea animals")).to_be_visible()

    conversations.get_by_role("button", name="Menu of Sea animals").click()
    page.get_by_role("menuitem", name="Archive").click()
    expect(conversations.get_by_role("link", name="Sea animals")).to_have_count(0)
    conversations.get_by_role("button", name="Archived").click()
    expect(conversations.get_by_role("link", name="Sea animals")).to_be_visible()


@pytest.mark.req("CHT-12.1", "CHT-12.8")
@pytest.mark.usefixtures("violations")
def test_conversation_is_copied_pinned_exported_and_forked_with_menus_and_commands(page: Page, person: Person) -> None:
    project = person.project()["id"]
    person.say(person.session(project, title="Whales"), "About whales")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    sign_in(page, person)
    conversations = page.get_by_role("navigation", name="Conversations")
    composer, log = page.get_by_role("textbox", name="Message", exact=True), page.get_by_role("log", name="Messages")
    conversations.get_by_role("link", name="Whales").click()
    answer = log.get_by_role("article")
    answer.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "You said: About whales"

    def command(text: str) -> None:
        composer.fill(text)
        composer.press("Escape")  # the list of commands
        composer.press("Enter")

    composer.press_sequentially("/ren")
    expect(page.get_by_role("option", name="rename")).to_contain_text("Rename this conversation")
    composer.press("Enter")
    expect(composer).to_have_value("/rename ")
    command("/rename Sea animals")
    expect(page.get_by_role("heading", name="Sea animals")).to_be_visible()
    command("/agent writer")
    expect(page.get_by_role("combobox", name="To")).to_have_value("agent_writer")
    with page.expect_download() as markdown:
        command("/export")
    assert "About whales" in Path(markdown.value.path()).read_text()

    conversations.get_by_role("button", name="Menu of Sea animals").click()
    with page.expect_download() as exported:
        page.get_by_role("menuitem", name="Export as JSON").click()
    assert json.loads(Path(exported.value.path()).read_text())["session"]["title"] == "Sea animals"
    conversations.get_by_role("button", name="Menu of Sea animals").click()
    page.get_by_role("menuitem", name="Pin").click()
    pinned = conversations.get_by_role("region", name="Pinned")
    expect(pinned.get_by_role("link", name="Sea animals")).to_be_visible()

    before = page.url
    command("/fork")
    expect(page).not_to_have_url(before)
    expect(answer).to_contain_text("You said: About whales")
    expect(conversations.get_by_role("link", name="Sea animals")).to_have_count(2)
    assert person.get("/my/chat/sessions")["total"] == 2
    command("/plans")
    expect(page).to_have_url(re.compile(f"/p/{project}/plans$"))


@pytest.mark.req("CHT-10.1")
@pytest.mark.usefixtures("violations")
def test_texts_are_copied_without_https(page: Page, person: Person, models: ModelServer) -> None:
    page.add_init_script(
        """Object.defineProperty(navigator, "clipboard", { value: undefined });
        window.copied = [];
        document.addEventListener("copy", () => window.copied.push(document.activeElement.value));"""
    )
    chat = Chat(page, person)
    chat.open()
    models.script(Say("```sh\nls -l\n```"))
    chat.send("How?")
    chat.button("Copy code", chat.log).click()
    expect(chat.button("Copied", chat.log)).to_be_visible()
    expect(chat.button("Copied", chat.log)).to_be_focused()
    chat.button("Copy", chat.answers).click()
    expect(page.get_by_role("status", name="Notices")).to_contain_text("Copied")
    assert page.evaluate("window.copied") == ["ls -l\n", "```sh\nls -l\n```"]

    page.goto(f"/p/{chat.project}/files")
    page.evaluate("document.execCommand = () => false")
    page.get_by_role("button", name="Copy command").click()
    expect(page.get_by_text("The browser did not allow to copy. Mark the text and copy it.")).to_be_visible()


@pytest.mark.req("CHT-10.1")
@pytest.mark.usefixtures("violations")
def test_file_without_words_says_what_is_missing(page: Page, person: Person) -> None:
    chat = Chat(page, person)
    chat.open()
    hint = page.get_by_text("Add a few words: what should be done with the files?")
    note = FilePayload(name="note.txt", mimeType="text/plain", buffer=b"Ships")
    page.locator("input[type=file]").set_input_files(note)
    expect(hint).to_be_visible()
    chat.box.fill("Read it")
    expect(hint).to_have_count(0)
