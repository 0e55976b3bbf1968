"""What tests do on pages of the web UI."""

from playwright.sync_api import Page, expect

from tests.people import Person


def sign_in(page: Page, person: Person) -> None:
    """Open the UI with a link as `artel up` prints it."""
    code = person.http.post("/auth/codes").json()["code"]
    page.goto(f"/#code={code}")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
