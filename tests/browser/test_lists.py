"""Lists of the web UI that are longer than one page of the API, in a browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conversation import Chat
from tests.browser.test_web_ui import models, server, violations
from tests.people import Person

__all__ = ["models", "server", "violations"]

MANY = 104  # the API answers at most 100 at once


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
