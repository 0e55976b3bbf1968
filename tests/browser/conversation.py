"""The chat of the web UI in a browser, with its user."""

from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.people import Person


class Chat:
    """The chat of a new project in one tab."""

    def __init__(self, page: Page, person: Person) -> None:
        self.page = page
        self.person = person
        self.project: int = person.project()["id"]

    def open(self, path: str = "c/new", base: str = "") -> None:
        """Sign in with a link, then open a path of the project."""
        code = self.person.http.post("/auth/codes").json()["code"]
        self.page.goto(f"{base}/#code={code}")
        expect(self.box).to_be_focused()
        self.page.goto(f"{base}/p/{self.project}/{path}")
        expect(self.box).to_be_focused()

    def session(self, *messages: str, title: str = "Before") -> str:
        """Create a conversation over HTTP, with messages to the coder and their answers."""
        session_id = self.person.session(self.project, title=title)
        for content in messages:
            self.person.say(session_id, content)
        return session_id

    def in_tab(self, page: Page) -> "Chat":
        """Return the same chat in another tab."""
        other = object.__new__(Chat)
        other.page, other.person, other.project = page, self.person, self.project
        return other

    def stored(self) -> list[dict[str, Any]]:
        """Return the messages of the open conversation."""
        return self.person.history(self.page.url.rsplit("/", 1)[1])

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message", exact=True)

    @property
    def log(self) -> Locator:
        return self.page.get_by_role("log", name="Messages")

    @property
    def answers(self) -> Locator:
        return self.log.get_by_role("article")

    @property
    def questions(self) -> Locator:
        return self.log.get_by_role("group", name="Your message")

    @property
    def notices(self) -> Locator:
        return self.log.get_by_role("group", name="Notice")

    @property
    def alert(self) -> Locator:
        return self.page.get_by_role("main").get_by_role("alert")

    @property
    def waiting(self) -> Locator:
        return self.page.get_by_role("list", name="Messages that wait")

    @property
    def conversations(self) -> Locator:
        return self.page.get_by_role("navigation", name="Conversations")

    @property
    def announced(self) -> Locator:
        return self.page.locator("[aria-live=polite] > p")

    def button(self, name: str, within: Locator | None = None) -> Locator:
        return (within or self.page).get_by_role("button", name=name, exact=True)

    def send(self, text: str, to: str = "Coder") -> None:
        """Send a message to an agent."""
        self.page.get_by_role("combobox", name="To").select_option(to)
        self.box.fill(text)
        self.box.press("Enter")

    def shows(self, *texts: str) -> None:
        """Wait until the questions and answers are these, in order; each must contain its text."""
        spoken = self.questions.or_(self.answers)
        expect(spoken).to_have_count(len(texts))
        for place, text in enumerate(texts):
            expect(spoken.nth(place)).to_contain_text(text)


def idle(chat: Chat) -> None:
    """Wait until nobody is at work."""
    expect(chat.page.get_by_text("is at work")).to_have_count(0)
    expect(chat.button("Stop")).to_have_count(0)
