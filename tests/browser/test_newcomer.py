"""The way of a newcomer through the whole web UI: from the link of `artel up` to a phone in another language."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.actors.team import Team
from tests.browser.conftest import PATIENCE_MILLISECONDS
from tests.browser.visits import width_of_contents
from tests.deadlines import eventually
from tests.folders import Folder, connected_folder
from tests.model_server import ByMark, Dictate, ModelServer, Say, Tool
from tests.people import Person, client
from tests.running import Server, clean_environment

CONTENT = "".join(f"line {number}\n" for number in range(18))
WRITE = Say(tools=[Tool("tool_write_file", json.dumps({"path": "notes.md", "content": CONTENT}))])


@dataclass
class Newcomer:
    """Somebody with a browser, `artel up` and a model server."""

    folder: Path
    server: Server
    context: BrowserContext
    page: Page
    models: ModelServer
    script: ByMark

    @property
    def person(self) -> Person:
        token = self.server.ready["token"]
        http = client(self.server.url, token)
        return Person("local@localhost", http.get("/auth/me").json()["user_id"], token, http)

    def send(self, text: str, page: Page | None = None) -> None:
        """Type a message and press Enter."""
        where = page or self.page
        where.get_by_role("textbox").last.focus()
        where.keyboard.type(text)
        where.keyboard.press("Enter")

    def restart(self) -> None:
        """Kill the server and start it again at the same address."""
        port = self.server.url.rsplit(":", 1)[1]
        self.server.kill()
        self.server = Server.start(self.folder / "up", self.server.env, "up", "--no-folder", "--port", port)


@pytest.fixture
def newcomer(browser: Browser, tmp_path: Path) -> Iterator[Newcomer]:
    script = ByMark()
    with ModelServer(script).running_in_thread() as models:
        models.models = ["gpt-4o"]
        server = Server.start(tmp_path / "up", clean_environment(tmp_path), "up", "--no-folder")
        context = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 800}, locale="en-GB")
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        walker = Newcomer(tmp_path, server, context, context.new_page(), models, script)
        yield walker
        context.close()
        walker.server.stop()


def test_newcomer_walks_from_the_link_to_a_phone(newcomer: Newcomer) -> None:
    _choose_a_model(newcomer)
    _talk(newcomer)
    _plan(newcomer)
    project = int(newcomer.page.url.split("/p/")[1].split("/")[0])
    with connected_folder(newcomer.folder, newcomer.person, project, "--ask", "browser") as folder:
        _let_an_agent_write(newcomer, folder)
    second = _restart_in_the_middle_of_an_answer(newcomer)
    _use_a_phone_in_russian_in_the_dark_with_keys(newcomer, second)


def _choose_a_model(newcomer: Newcomer) -> None:
    page = newcomer.page
    page.goto(newcomer.server.ready["link"])
    expect(page.get_by_role("heading", level=1, name="Welcome to Artel")).to_be_visible()
    page.get_by_role("radio", name="Other server").check()
    page.get_by_role("textbox", name="Address").fill(newcomer.models.url)
    page.get_by_role("button", name="Test and use").click()
    expect(page.get_by_role("combobox", name="Agents use")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Not now").click()
    page.get_by_role("button", name="I'll type").click()
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()


def _talk(newcomer: Newcomer) -> None:
    page, log = newcomer.page, newcomer.page.get_by_role("log", name="Messages")
    newcomer.script["tea"] = Say("**Green** tea.")
    newcomer.script["code"] = Say("```python\nprint(1)\n```")
    page.get_by_role("combobox", name="To").select_option("Writer")
    newcomer.send("Which tea?")
    expect(log.get_by_role("strong")).to_have_text("Green")
    page.get_by_role("textbox", name="Message").focus()
    page.keyboard.type("@cod")
    expect(page.get_by_role("option", name="Coder").first).to_be_visible()
    page.keyboard.press("Enter")
    newcomer.send("some code, please")
    expect(log.get_by_role("article").last.get_by_role("button", name="Copy").first).to_be_visible()
    expect(log).to_contain_text("print(1)")
    asked = [request.text for request in newcomer.models.asked if "some code" in request.text]
    assert asked


def _plan(newcomer: Newcomer) -> None:
    page = newcomer.page
    panel, log = page.get_by_role("complementary", name="Details"), page.get_by_role("log", name="Messages")
    newcomer.script["harbour"] = team = Team("harbour", {"a": "", "b": "a", "c": "b"})
    page.keyboard.press("Control+j")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    newcomer.send("harbour: please do it all")
    expect(panel.get_by_role("button", name="Approve", exact=True)).to_be_in_viewport(ratio=1)
    for name in team.needs:
        expect(panel.get_by_text(f"harbour do {name}.", exact=True)).to_be_in_viewport(ratio=1)
    panel.get_by_role("button", name="Edit").click()
    panel.get_by_role("textbox", name="What task b does").fill("harbour do b. Quickly.")
    panel.get_by_role("button", name="Approve with changes").click()
    expect(log).to_contain_text("All of it, in one.")
    expect(panel.get_by_role("heading", name="Plan · 3 of 3")).to_be_visible()
    assert "Quickly." in team.requests["b"].text


def _let_an_agent_write(newcomer: Newcomer, folder: Folder) -> None:
    page, log = newcomer.page, newcomer.page.get_by_role("log", name="Messages")
    newcomer.script["notes"] = [WRITE, Say("The notes are there.")]
    page.keyboard.press("Control+j")
    page.get_by_role("combobox", name="To").select_option("Coder")
    newcomer.send("Write the notes")
    bar = page.get_by_role("region", name="A question for you")
    expect(bar).to_contain_text("Coder wants to write")
    rows = page.get_by_role("region", name="Changes of notes.md").get_by_role("row")
    expect(rows.last).to_be_in_viewport(ratio=1)
    assert folder.files() == {}
    bar.get_by_role("button", name="Allow once").click()
    expect(log).to_contain_text("The notes are there.")
    assert folder.files() == {"notes.md": CONTENT.encode()}
    log.get_by_role("button", name="Undo").click()
    expect(log).to_contain_text("notes.md was removed.")
    assert folder.files() == {}


def _restart_in_the_middle_of_an_answer(newcomer: Newcomer) -> Page:
    """Return a second tab that shows the same conversation."""
    page, log = newcomer.page, newcomer.page.get_by_role("log", name="Messages")
    newcomer.script["story"] = dictation = Dictate()
    dictation.say("Once ", "upon ", "a ", "time ")
    newcomer.send("A story")
    expect(log).to_contain_text("Once upon a time")
    second = newcomer.context.new_page()
    second.goto(page.url)
    other_log = second.get_by_role("log", name="Messages")
    expect(other_log).to_contain_text("Once upon a time")
    eventually(lambda: "Once upon a time " in [text for _, text in newcomer.server.drafts()])

    newcomer.restart()
    for each in (log, other_log):
        expect(each).to_contain_text("Once upon a time")
        expect(each).to_contain_text("The server restarted; the answer was cut off.")
    newcomer.script["cut off"] = Say("there was a harbour.")
    second.get_by_role("button", name="Continue").click()
    for each in (log, other_log):
        expect(each).to_contain_text("there was a harbour.")
    assert log.inner_text().count("Once upon a time") == 1
    return second


def _use_a_phone_in_russian_in_the_dark_with_keys(newcomer: Newcomer, page: Page) -> None:
    page.goto("/settings")
    page.get_by_role("combobox", name="Language").select_option("ru")
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    page.goto(newcomer.page.url)
    composer = page.get_by_role("textbox", name="Сообщение")
    expect(composer).to_be_in_viewport(ratio=1)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(background[:3]) < 80, background
    newcomer.script["чай"] = Say("Зелёный.")
    expect(composer).to_be_focused()
    page.keyboard.type("Какой чай?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("log", name="Сообщения")).to_contain_text("Зелёный.")
    expect(newcomer.page.get_by_role("log")).to_contain_text("Зелёный.")
    assert width_of_contents(page) <= 360
    assert newcomer.person.get("/my/approvals", status="pending")["total"] == 0
