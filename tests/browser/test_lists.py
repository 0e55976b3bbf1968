"""Lists of the web UI in a browser: longer than one page of the API, and changed elsewhere."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conversation import Chat
from tests.browser.pages import sign_in
from tests.browser.visits import Complaints
from tests.conftest import StartServer
from tests.model_server import Dictate, ModelServer
from tests.people import Person
from tests.running import Server

MANY = 104  # the API answers at most 100 at once


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    """A server with a scripted model."""
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.mark.req("CHT-10.4")
@pytest.mark.usefixtures("violations", "models")
def test_oldest_of_many_conversations_and_of_the_archive_are_reached_by_scrolling(page: Page, person: Person) -> None:
    chat = Chat(page, person)
    oldest, *others = [person.session(chat.project, title=f"Talk {number} of many") for number in range(MANY)]
    chat.open()
    rows = chat.conversations.get_by_role("link", name="of many")
    expect(rows).to_have_count(MANY - 4)

    chat.conversations.hover()
    page.mouse.wheel(0, 100_000)
    expect(rows).to_have_count(MANY)
    person.session(chat.project, title="A new one")  # the list is loaded again
    expect(chat.conversations.get_by_role("link", name="A new one")).to_have_count(1)
    expect(rows).to_have_count(MANY)
    chat.conversations.get_by_role("link", name="Talk 0 of many").click()
    expect(page).to_have_url(f"{page.url.split('/p/')[0]}/p/{chat.project}/c/{oldest}")

    for session in [oldest, *others]:
        assert person.http.patch(f"/my/chat/sessions/{session}", json={"archived": True}).status_code == 200
    expect(rows).to_have_count(0)
    chat.button("Archived", chat.conversations).click()
    expect(rows).to_have_count(MANY - 4)
    page.mouse.move(100, 400)
    page.mouse.wheel(0, 100_000)
    expect(rows).to_have_count(MANY)


@pytest.mark.req("UWS-09.2")
@pytest.mark.usefixtures("violations")
def test_agents_that_are_made_changed_at_work_and_deleted_elsewhere_are_seen_at_once(
    page: Page, person: Person, models: ModelServer, complaints: Complaints
) -> None:
    project = person.project()["id"]
    sign_in(page, person)
    page.goto(f"/p/{project}/agents")
    agents = page.get_by_role("list", name="Agents").get_by_role("listitem")
    coder = agents.filter(has_text="Coder")
    expect(coder).to_contain_text("Ready")
    count = agents.count()
    second = page.context.new_page()
    complaints.listen(second)
    second.goto(f"/p/{project}/agents")
    second.get_by_role("button", name="New agent").click()
    second.get_by_text("Reviewer", exact=True).click()
    second.get_by_role("button", name="Create").click()
    reviewer = agents.filter(has_text="Reviewer")
    expect(agents).to_have_count(count + 1)

    second.get_by_role("textbox", name="Role").fill("strict reader")
    second.get_by_role("button", name="Save").click()
    expect(reviewer).to_contain_text("strict reader")
    dictate = Dictate()
    models.script(dictate)
    person.submit(person.session(project), "Hello")
    expect(coder).to_contain_text("Working")
    dictate.say("Hello")
    dictate.end()
    expect(coder).to_contain_text("Ready")
    second.get_by_role("button", name="More actions").click()
    second.get_by_role("menuitem", name="Delete…").click()
    second.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(agents).to_have_count(count)


@pytest.mark.req("CHT-10.4")
@pytest.mark.usefixtures("violations", "models")
def test_title_in_the_list_gives_room_to_its_menu_only_while_that_is_shown(page: Page, person: Person) -> None:
    chat = Chat(page, person)
    title = "A conversation with a long title"
    person.session(chat.project, title=title)
    chat.open()
    link = chat.conversations.get_by_role("link", name=title)
    text = link.get_by_title(title)

    page.get_by_role("main").hover()
    before = text.bounding_box()
    link.hover()
    expect(chat.button(f"Menu of {title}", chat.conversations)).to_have_css("opacity", "1")
    after = text.bounding_box()

    assert before is not None
    assert after is not None
    assert before["width"] - after["width"] >= 20
    assert before["width"] >= 200
