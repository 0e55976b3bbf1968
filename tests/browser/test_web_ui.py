"""The UI built from `web/`, in a browser: sign-in, a streamed answer, the layout, and the content policy."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import sign_in
from tests.browser.visits import MOST_MILLISECONDS, Complaints
from tests.conftest import StartServer
from tests.model_server import Dictate, ModelServer
from tests.people import Person
from tests.running import Server


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    """A server with a scripted model."""
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.mark.usefixtures("violations")
def test_link_opens_a_composer_whose_message_is_answered_live(page: Page, person: Person, models: ModelServer) -> None:
    dictation = Dictate()
    models.script(dictation)
    dictation.say("One ", "two ")
    page.add_init_script(
        """addEventListener("focusin", ({ target }) => {
          if (target.matches("textarea")) window.focusedAt ??= performance.now();
        })"""
    )
    sign_in(page, person)
    assert page.evaluate("window.focusedAt") <= MOST_MILLISECONDS  # since the link was opened
    assert "code" not in page.url

    page.keyboard.type("Count")
    page.get_by_role("combobox", name="To").select_option("Coder")
    page.get_by_role("textbox", name="Message").press("Enter")

    log = page.get_by_role("log", name="Messages")
    answer = log.get_by_role("article")
    expect(log).to_contain_text("Count")
    expect(answer).to_contain_text("One two ")
    expect(answer).to_have_attribute("aria-busy", "true")
    expect(page.get_by_text("Coder is at work")).to_be_visible()
    dictation.say("three")
    expect(answer).to_contain_text("One two three")
    dictation.end()
    expect(answer).not_to_have_attribute("aria-busy", "true")
    expect(page.get_by_text("Coder is at work")).to_have_count(0)
    shown = log.inner_text()
    conversations = page.get_by_role("navigation", name="Conversations")
    expect(conversations.get_by_role("link", name="Count")).to_have_attribute("aria-current", "page")

    page.reload()

    expect(answer).to_contain_text("One two three")
    assert log.inner_text() == shown


@pytest.mark.usefixtures("violations")
@pytest.mark.parametrize(("width", "height", "least"), [(1280, 800, 600), (390, 844, 560)])
def test_composer_is_in_sight_and_only_the_log_scrolls(
    page: Page, person: Person, width: int, height: int, least: int
) -> None:
    session = person.session(person.project()["id"])
    for number in range(3):
        person.say(session, f"Message {number}\n" + "and one more line\n" * 20)
    page.set_viewport_size({"width": width, "height": height})
    sign_in(page, person)

    log = page.get_by_role("log", name="Messages")
    expect(log).to_contain_text("Message 2")
    assert log.bounding_box()["height"] >= least  # type: ignore[index]
    box = page.get_by_role("textbox", name="Message").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= height
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") <= 2
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        page.get_by_role("combobox", name="To").select_option("Auto")
    expect(page.get_by_role("combobox", name="Plan")).to_be_visible()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_in_viewport(ratio=1)
    page.goto("/welcome")
    title = page.get_by_role("heading", level=1, name="Welcome to Artel")
    expect(title).to_be_visible()
    assert title.evaluate("title => title.scrollWidth <= title.clientWidth")


@pytest.mark.usefixtures("violations")
def test_every_page_opens_by_its_path_and_speaks_the_chosen_language(page: Page, person: Person) -> None:
    project = person.project()["id"]
    sign_in(page, person)
    titles = {
        f"/p/{project}/inbox": "Inbox",
        "/inbox": "Inbox",
        f"/p/{project}/plans": "Plans",
        f"/p/{project}/files": "Files",
        f"/p/{project}/agents": "Agents",
        f"/p/{project}/memory": "Memory",
        f"/p/{project}/activity": "Activity",
        f"/p/{project}/settings": "Project settings",
        "/settings": "Settings",
        "/manage": "Administration",
        "/welcome": "Welcome to Artel",
    }
    for path, title in titles.items():
        page.goto(path)
        expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()
    page.goto("/settings")
    page.get_by_role("combobox", name="Language").select_option("Русский")

    expect(page.get_by_role("heading", level=1, name="Настройки")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Настройки")).to_be_visible()


@pytest.mark.usefixtures("violations")
def test_expired_link_leads_to_the_sign_in_form(page: Page, complaints: Complaints) -> None:
    complaints.expected.append("403")

    page.goto("/#code=expired")

    expect(page.get_by_text("This link has expired. Run artel link to get a new one.")).to_be_visible()
    expect(page.get_by_label("E-mail address")).to_be_focused()
    assert "code" not in page.url
