"""Questions and plans in the web UI: everything is in view before it is decided, and all of it by keyboard."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web
from playwright.sync_api import Page, expect

from tests.actors.team import Team
from tests.browser.test_web_ui import sign_in, violations
from tests.conftest import StartServer, with_model
from tests.connector import connected
from tests.deadlines import eventually
from tests.model_server import Behaviour, ByMark, ModelRequest, ModelServer, Say, Tool
from tests.people import Person
from tests.running import Server

__all__ = ["violations"]

FIVE = {"a": "", "b": "", "c": "a b", "d": "c", "e": "d"}
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
        if not params.get("with_sha256"):
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


def write(path: str = "app.py") -> Say:
    return Say(tools=[Tool("tool_write_file", json.dumps({"path": path, "content": "new"}))])


def in_turn(answers: list[Say]) -> Behaviour:
    """Return a model that gives one answer after the other."""

    async def answer(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        return await answers.pop(0)(request, http)

    return answer


def open_session(page: Page, person: Person, project_id: int, text: str) -> None:
    """Open a new conversation, and send a message to the coder."""
    session = person.session(project_id)
    code = person.http.post("/auth/codes").json()["code"]
    page.goto(f"/p/{project_id}/c/{session}#code={code}")
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    assert person.post(session, text, "agent_coder", {"Prefer": "respond-async"}).status_code == 202


def is_whole_in_view(page: Page, text: str) -> bool:
    """Return whether the last element with a text is in the viewport, whole, and not covered."""
    seen: bool = page.get_by_text(text, exact=True).last.evaluate(
        """(element) => {
          const { top, bottom, left } = element.getBoundingClientRect();
          const hit = document.elementFromPoint(left + 2, (top + bottom) / 2);
          return top >= 0 && bottom <= innerHeight && (element.contains(hit) || hit?.contains(element));
        }"""
    )
    return seen


@pytest.mark.usefixtures("violations")
def test_plan_of_five_tasks_is_read_edited_and_approved_in_one_view(
    page: Page, person: Person, models: ModelServer, mark: str
) -> None:
    team = Team(mark, needs=FIVE)
    assert isinstance(models.default, ByMark)
    models.default[mark] = team
    sign_in(page, person)
    page.keyboard.type(f"{mark} Please do it all.")
    page.keyboard.press("Enter")

    panel = page.get_by_role("complementary", name="Details")
    approve = panel.get_by_role("button", name="Approve")
    expect(approve).to_be_in_viewport(ratio=1)
    for name in FIVE:
        expect(panel.get_by_text(f"{mark} do {name}.", exact=True)).to_be_in_viewport(ratio=1)
        assert is_whole_in_view(page, f"{mark} do {name}.")
    before = panel.get_by_text("at most").first.inner_text()
    assert before.startswith("About $")

    panel.get_by_role("button", name="Edit").click()
    panel.get_by_role("button", name="Leave out task e").click()
    panel.get_by_role("textbox", name="What task d does").fill(f"{mark} do d. In French.")
    expect(panel.get_by_text("at most").first).not_to_have_text(before)
    panel.get_by_role("button", name="Approve with changes").click()

    expect(page.get_by_role("log")).to_contain_text("All of it, in one.")
    expect(panel.get_by_role("heading", name="Plan · 4 of 4")).to_be_visible()
    assert sorted(team.called) == ["a", "b", "c", "d"]
    assert "In French." in team.requests["d"].text


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
        assert page.title().startswith("(1) ")

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
    answers = [write(), Say("Then not.")]
    models.default[mark] = in_turn(answers)
    page.set_viewport_size({"width": 390, "height": 844})
    with folder(person, project, "-old\n+is\u202eadmin\n", mode="browser") as done:
        open_session(page, person, project, f"{mark} Change it")
        bar = page.get_by_role("region", name="A question for you")
        expect(bar).to_contain_text("app.py")
        expect(bar.get_by_role("alert").first).to_contain_text("1 hidden character (U+202E)")
        expect(page.get_by_role("button", name="Allow once")).to_have_count(0)  # not before the diff is in view
        bar.get_by_role("button", name="Show diff").click()
        expect(page.get_by_role("button", name="Allow once")).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("region", name="Changes of app.py")).to_contain_text("is\\u202eadmin")
        page.get_by_role("complementary", name="Details").get_by_role("button", name="Refuse…").click()
        page.get_by_role("textbox", name="Why?").fill("Wrong file")
        page.keyboard.press("Enter")

        expect(page.get_by_role("log")).to_contain_text("Then not.")
    assert done == []
    [refused] = person.get("/my/approvals?status=rejected")["items"]
    assert refused["feedback"] == "Wrong file"
