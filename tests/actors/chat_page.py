"""The chat page of a project in a browser, with its user."""

from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.people import Person

HOSTILE = "<img src=x onerror=alert(1)><b>bold</b>"


class ChatPage:
    """The chat page of a new project."""

    def __init__(self, page: Page, person: Person) -> None:
        self.page = page
        self.person = person
        self.project: dict[str, Any] = person.project()
        self.id: int = self.project["id"]

    def open(self, page: Page | None = None, path: str = "") -> None:
        page = page or self.page
        page.goto(f"/#token={self.person.token}")
        expect(page.get_by_role("heading", name="Projects", exact=True)).to_be_focused()
        page.goto(f"/#/projects/{self.id}{path}")
        expect(page.get_by_role("heading", level=1)).to_have_text("Website")

    def session(self, *messages: str, title: str = "Before", prefer: str = "wait=30") -> str:
        """Create a session over HTTP and send messages to the coder."""
        begun = self.person.http.post("/my/chat/sessions", json={"project_id": self.id, "title": title})
        session_id: str = begun.json()["session_id"]
        for content in messages:
            message = {"content": content, "target_agent": "agent_coder"}
            self.person.http.post(f"/my/chat/{session_id}/message", json=message, headers={"Prefer": prefer})
        return session_id

    def stored(self) -> list[dict[str, Any]]:
        """Return the messages of the conversation that is open."""
        session_id = self.page.url.rsplit("/", 1)[1]
        items: list[dict[str, Any]] = self.person.http.get(f"/my/chat/{session_id}/messages").json()["items"]
        return items

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def stop(self) -> Locator:
        return self.page.get_by_role("button", name="Stop")

    @property
    def alert(self) -> Locator:
        return self.page.locator("#compose").get_by_role("alert")

    def send(self, text: str, to: str = "agent_coder") -> None:
        self.page.get_by_label("To", exact=True).select_option(to)
        self.box.fill(text)
        self.box.press("Enter")


def message_texts(page: Page) -> Locator:
    """Return the texts of the messages, without author and time."""
    return page.locator("#messages > li .text")


def authors(page: Page) -> Locator:
    return page.locator("#messages > li .by .data")
