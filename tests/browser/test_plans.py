"""Plans in the web UI: seen whole, priced, changed and decided; followed while they run; carried on after an end."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from playwright.sync_api import Locator, Page, expect

from tests.actors.plan_user import PlanUser
from tests.actors.team import CHAIN, DIAMOND, Team
from tests.browser.visits import Complaints, width_of_contents
from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import Behaviour, ByMark, Dictate, Fail, Hold, ModelRequest, ModelServer, Say, Tool
from tests.people import Person
from tests.running import Server

FIVE = {"a": "", "b": "", "c": "a b", "d": "c", "e": "d"}
HOSTILE = "<img src=x onerror=alert(1)><b>bold</b>"
LONG = "Read every page of the " + "very_long_name" * 6 + " and say what it says, in three sentences."


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer(ByMark()).running_in_thread() as models:
        yield models


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    return start_shared_server(**with_model(models))


class PlanView:
    """A conversation whose plan is in the panel."""

    def __init__(self, page: Page, user: PlanUser) -> None:
        self.page, self.user, self.team = page, user, user.team
        self.panel = page.get_by_role("complementary", name="Details")
        self.log = page.get_by_role("log", name="Messages")
        self.line = self.log.get_by_role("group", name="Plan", exact=True).last
        self.bar = page.get_by_role("region", name="A question for you")

    def ask(self, text: str = "Please do it all.") -> None:
        self.user.ask(text)

    def button(self, name: str) -> Locator:
        return self.panel.get_by_role("button", name=name, exact=True)

    def task(self, name: str, state: str = "") -> Locator:
        """Return a task of the graph or the list, in a state."""
        return self.panel.get_by_role("button", name=re.compile(rf"^{name}\b.*{state}")).first

    def approve(self) -> None:
        self.button("Approve").click()
        expect(self.button("Approve")).to_have_count(0)

    def settings(self, **settings: Any) -> None:
        url = f"/my/projects/{self.user.project['id']}"
        answer = self.user.person.http.patch(url, json={"settings": settings})
        assert answer.status_code == 200, answer.text

    def workflow(self) -> dict[str, Any]:
        newest: dict[str, Any] = self.user.person.get("/my/workflows", session_id=self.user.session)["items"][0]
        return newest

    def pending(self) -> dict[str, Any]:
        """Return the question that waits."""
        found: dict[str, Any] = eventually(lambda: self.user.person.get("/my/approvals", status="pending")["items"])[0]
        return found


@pytest.fixture
def view(page: Page, person: Person, models: ModelServer, mark: str) -> PlanView:
    assert isinstance(models.default, ByMark)
    models.default[mark] = team = Team(mark)
    project = person.project()
    session = person.session(project["id"])
    code = person.http.post("/auth/codes").json()["code"]
    page.goto(f"/p/{project['id']}/c/{session}#code={code}")
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    return PlanView(page, PlanUser(person, project, session, team))


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


@pytest.mark.req("CHT-03.1", "CHT-03.2", "CHT-03.3", "CHT-11.3", "DEC-01.4")
@pytest.mark.usefixtures("violations")
def test_plan_of_five_tasks_is_read_edited_limited_and_approved_in_one_view(
    view: PlanView, complaints: Complaints
) -> None:
    complaints.expected.append("409")
    view.team.needs = FIVE
    mark = view.team.mark
    view.ask()
    expect(view.button("Approve")).to_be_in_viewport(ratio=1)
    for name in FIVE:
        expect(view.panel.get_by_text(f"{mark} do {name}.", exact=True)).to_be_in_viewport(ratio=1)
        assert is_whole_in_view(view.page, f"{mark} do {name}.")
    expect(view.task("c")).to_contain_text("after a, b")
    waits = view.workflow()
    about, high = f"${waits['estimated_cost']:.2f}", f"${math.ceil(waits['estimated_cost_high'] * 100) / 100:.2f}"
    price = view.panel.get_by_text(f"About {about}, at most {high} · about ")
    expect(price).to_be_visible()
    expect(view.panel).to_contain_text(f"Stops and asks at {high}.")
    assert waits["estimated_cost_high"] > 5 * waits["estimated_cost"]
    limit = view.panel.get_by_role("checkbox", name="Limit to $")
    limit.check()
    expect(view.panel).not_to_contain_text(f"Stops and asks at {high}.")
    limited = float(limit.evaluate("box => box.closest('label').textContent").split("$")[1])
    expect(view.panel).to_contain_text(f"Stops and asks at ${limited:.2f}.")
    assert view.team.called == []

    view.button("Edit").click()
    for name in FIVE:
        view.panel.get_by_role("button", name=f"Leave out task {name}").click()
    expect(view.panel).to_contain_text("Nothing would be left to do. Keep a task, or reject the plan.")
    expect(view.button("Approve with changes")).to_have_attribute("aria-disabled", "true")
    view.button("Discard changes").click()
    view.button("Edit").click()
    view.panel.get_by_role("button", name="Leave out task e").click()
    view.panel.get_by_role("combobox", name="Agent of task b").select_option("Writer")
    view.panel.get_by_role("textbox", name="What task d does").fill(f"{mark} do d. {HOSTILE}")
    expect(price).to_have_count(0)
    view.button("Add a note for everyone").click()
    view.panel.get_by_role("textbox", name="A note for everyone").fill("Write in French.")
    late = {"code": "approval_decided", "detail": "It was decided before."}
    view.page.route("**/confirm", lambda route: route.fulfill(status=409, json=late))
    view.button("Approve with changes").click()
    expect(view.panel.get_by_role("alert").filter(has_text="It was decided before.")).to_be_visible()
    view.page.unroute("**/confirm")
    view.button("Approve with changes").click()

    expect(view.log).to_contain_text("All of it, in one.")
    expect(view.panel.get_by_role("heading", name="Plan · 4 of 4")).to_be_visible()
    assert sorted(view.team.called) == ["a", "b", "c", "d"]
    ended = view.user.ended(waits["id"])
    assert {task["id"]: task["agent"] for task in ended["tasks"]}["b"] == "agent_writer"
    assert ended["agreed_cost"] <= limited
    assert HOSTILE in view.team.requests["d"].text
    assert "Write in French." in view.team.requests["a"].text
    view.task("d").click()
    expect(view.panel).to_contain_text(f"do d. {HOSTILE}")
    expect(view.panel.get_by_role("region", name="Result")).to_contain_text("Result of d.")


@pytest.mark.req("SEC-03.2")
@pytest.mark.usefixtures("violations")
def test_rejected_plan_is_made_anew_with_its_changes_and_warnings(view: PlanView) -> None:
    view.settings(monthly_budget_usd=0.5)
    view.user.person.agent(view.user.project["id"], name="agent_odd", model="openai/nobody-knows-this")
    view.team.needs = {"a": "", "b\u202e": "a", "c": "b\u202e"}
    planned = Hold(json.dumps({"tasks": view.team.tasks()}))
    view.team.plans = [planned]
    view.ask()
    expect(view.page.get_by_text("Making a plan…")).to_be_visible()
    view.page.reload()  # a page that is opened during planning
    planned.release()
    expect(view.panel.get_by_role("alert").filter(has_text="(U+202E); they are shown as \\u202e.")).to_be_visible()
    expect(view.panel.get_by_text("after b\\u202e")).to_be_visible()
    expect(view.panel).to_contain_text("$0.50 of this month's budget are left: the plan may end partly done.")

    view.team.needs, view.team.agent = {"a": "", "z": "a"}, lambda _: "agent_odd"
    again = Hold(json.dumps({"tasks": view.team.tasks()}))
    view.team.plans = [again]
    view.button("Reject…").click()
    view.page.get_by_role("textbox", name="What should be different?").fill("Only two tasks")
    view.page.get_by_role("button", name="Reject", exact=True).click()
    expect(view.line).to_contain_text("being made")
    again.release()
    expect(view.panel).to_contain_text("Changed since you were asked")
    expect(view.panel.get_by_role("listitem")).to_contain_text(["c: left out", "z: new, for agent_odd"])
    expect(view.panel).to_contain_text("The price is unknown for openai/nobody-knows-this")
    view.button("Reject…").click()
    view.page.get_by_role("button", name="Reject", exact=True).click()
    expect(view.line).to_contain_text("you refused")
    expect(view.log).to_contain_text("You did not want this plan, so nothing was done.")
    expect(view.panel.get_by_role("button", name="Go on")).to_have_count(0)
    assert (view.team.called, view.team.planned) == ([], 2)


@pytest.mark.req("CHT-08.2", "CHT-03.5", "CHT-10.1")
@pytest.mark.usefixtures("violations")
def test_running_plan_is_followed_through_reload_failure_stop_and_going_on(view: PlanView) -> None:
    dictate, last = Dictate(), Hold("Late.")
    view.team.needs, view.team.does = {"a": "", "b": "a", "c": "", "d": "b"}, {"a": Fail(400), "c": dictate}
    view.ask()
    view.page.reload()  # the question is there again
    expect(view.task("d")).to_contain_text("after b")
    view.approve()
    expect(view.panel.get_by_role("heading", name="Plan · 0 of 4")).to_be_visible()
    expect(view.panel).to_contain_text("So far $")
    view.task("c", "At work").click()
    dictate.say("One ")
    expect(view.panel.get_by_role("region", name="What it writes")).to_contain_text("One")
    dictate.say(HOSTILE)
    expect(view.panel).to_contain_text(f"One {HOSTILE}")
    view.page.reload()
    view.line.get_by_role("button", name="Open").click()
    view.task("c", "At work").click()
    expect(view.panel).to_contain_text(f"One {HOSTILE}")
    expect(view.log).not_to_contain_text("One ")
    dictate.end()
    expect(view.line).to_contain_text("4 tasks · 1 done · partly done")
    view.button("All tasks").click()
    expect(view.task("a", "Failed")).to_be_visible()
    expect(view.task("b", "Not done")).to_be_visible()
    view.task("d").click()
    expect(view.panel).to_contain_text("Task a has no result.")
    view.button("All tasks").click()

    hold = Hold("Better.")
    view.team.does = {"a": hold, "b": last}
    view.button("Go on").focus()
    view.page.keyboard.press("Enter")
    expect(view.task("a", "At work")).to_be_visible()
    hold.release()
    expect(view.task("b", "At work")).to_be_visible()
    eventually(lambda: last.arrived)
    view.button("Stop plan").click()
    assert last.abandoned.wait(10)
    expect(view.line).to_contain_text("stopped by you")
    expect(view.task("b", "Stopped")).to_be_visible()
    last.release()
    view.team.does = {}
    view.user.person.http.post(f"/my/workflows/{view.workflow()['id']}/retry")  # as another tab does
    expect(view.line).to_contain_text("4 tasks · done")
    expect(view.log).to_contain_text("All of it, in one.")
    assert view.team.called.count("c") == 1
    expect(view.panel).to_contain_text(re.compile(r"Done · Cost \$"))
    shown = view.line.inner_text()
    view.page.reload()
    expect(view.line).to_contain_text("4 tasks · done")
    assert view.line.inner_text() == shown


@pytest.mark.req("CHT-08.2")
@pytest.mark.usefixtures("violations")
def test_failed_task_is_given_to_another_agent_and_another_is_skipped(view: PlanView) -> None:
    view.team.needs, view.team.does = {"a": "", "b": "", "c": "a b"}, {"a": Fail(400), "b": Fail(400)}
    view.ask()
    view.approve()
    expect(view.line).to_contain_text("3 tasks · 0 done · stopped")
    view.team.does = {"b": Fail(400)}
    view.task("a", "Failed").click()
    view.button("Give to another agent").click()
    view.page.get_by_role("menuitem", name="Writer").click()
    expect(view.line).to_contain_text("3 tasks · 1 done · partly done")
    expect(view.task("a", "Done")).to_contain_text("Writer")
    view.task("a").click()
    expect(view.button("Skip")).to_have_count(0)  # it is done
    view.button("All tasks").click()
    view.task("b", "Failed").click()
    view.button("Skip").click()
    expect(view.line).to_contain_text("2 tasks · done")
    expect(view.task("b")).to_have_count(0)
    expect(view.log).to_contain_text("All of it, in one.")


@pytest.mark.req("CHT-08.2", "CHT-10.1")
@pytest.mark.usefixtures("violations")
def test_task_shows_what_it_did_and_is_asked_again(view: PlanView) -> None:
    held = Hold("Late.")
    behaviours: dict[str, list[Behaviour]] = {
        name: [Say(tools=[Tool("read_file", json.dumps({"path": f"{name}.md"}))]), end]
        for name, end in (("a", Fail(400)), ("b", held))
    }

    def in_turn(name: str) -> Behaviour:
        async def answer(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
            left = behaviours[name]
            return await (left.pop(0) if len(left) > 1 else left[0])(request, http)

        return answer

    view.team.needs, view.team.does = {"a": "", "b": "", "c": "a b"}, {"a": in_turn("a"), "b": in_turn("b")}
    view.ask()
    view.approve()
    view.task("a", "Failed").click()
    did = view.panel.get_by_role("region", name="What it did")
    expect(did.locator("summary").first).to_have_text("Read a file of its own workspace: a.md1 failed")
    expect(did).not_to_contain_text("b.md")
    expect(view.button("Ask again")).to_be_disabled()
    expect(view.panel).to_contain_text("As soon as the other tasks have ended.")
    eventually(lambda: held.arrived)
    held.release()
    expect(view.line).to_contain_text("3 tasks · 1 done · partly done")
    view.page.reload()
    view.line.get_by_role("button", name="Open").click()
    view.task("a", "Failed").click()
    expect(did).to_contain_text("a.md")
    expect(did).not_to_contain_text("b.md")
    view.team.does = {}
    view.button("Ask again").click()
    expect(view.line).to_contain_text("3 tasks · done")
    assert view.team.called.count("b") == 2  # its result was kept


@pytest.mark.req("CHT-03.1")
@pytest.mark.usefixtures("violations")
def test_plan_asks_again_after_its_time_for_more_money_and_for_tools(view: PlanView) -> None:
    view.settings(approval_seconds=1)
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    dear, hold = Say("Dear.", tokens=(4_000_000, 10)), Hold("Then I leave it.")
    view.team.needs, view.team.does = CHAIN, {"a": dear, "b": delete}
    view.ask()
    expect(view.panel).to_contain_text("Nobody answered in time. The plan is kept.")
    expect(view.button("Approve")).to_have_count(0)
    view.settings()
    view.page.reload()
    again = view.page.get_by_role("button", name="Ask again", exact=True)
    expect(again).to_have_count(1)
    expect(view.line).to_contain_text("3 tasks · 0 done · nobody answered in time")
    expect(view.log.get_by_role("group", name="Notice")).to_have_count(0)  # whose Again would make another plan
    expect(view.log.get_by_role("button", name="Again", exact=True)).to_have_count(0)
    expect(view.page.get_by_role("navigation", name="Conversations").get_by_role("img")).to_have_count(0)
    [session] = view.user.person.get("/my/chat/sessions")["items"]
    assert session["state"] == "idle"
    expired = view.workflow()["id"]
    again.click()
    view.approve()
    assert view.workflow()["id"] == expired
    assert len(view.user.person.get("/my/workflows", session_id=view.user.session)["items"]) == 1

    expect(view.panel).to_contain_text(re.compile(r"Agreed were \$\S+, \$\S+ are spent, and the rest needs about \$"))
    expect(view.bar).to_contain_text("The plan costs more than agreed")
    asked = view.pending()["details"]
    expect(view.panel).to_contain_text(f"${asked['spent']:,.2f} are spent")
    view.page.reload()
    view.button("Go on").click()
    expect(view.bar).to_contain_text("Coder wants to delete")
    view.page.reload()
    expect(view.bar).to_contain_text("old.txt")
    view.line.get_by_role("button", name="Open").click()
    expect(view.task("b", "Waits for you")).to_be_visible()
    view.team.does = {"b": hold}
    view.bar.get_by_role("button", name="Refuse…").click()
    view.page.get_by_role("button", name="Refuse", exact=True).click()
    expect(view.task("b", "At work")).to_be_visible()
    hold.release()
    expect(view.line).to_contain_text("3 tasks · answered")  # the delete was refused
    assert view.team.planned == 1

    view.team.does = {"a": Say("Dear.", tokens=(40_000_000, 10))}
    view.ask("Once more.")
    view.approve()
    expect(view.bar).to_contain_text("The plan costs more than agreed")
    view.button("Stop plan").click()
    expect(view.line).to_contain_text("partly done")
    view.task("b", "Stopped").click()
    expect(view.panel).to_contain_text("You did not want to spend more.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.usefixtures("violations")
def test_plan_fits_a_phone(view: PlanView, scheme: Any) -> None:
    view.page.set_viewport_size({"width": 360, "height": 740})
    view.page.emulate_media(color_scheme=scheme)
    view.team.needs = DIAMOND
    tasks = [{**task, "description": f"{task['description']} {LONG}"} for task in view.team.tasks()]
    view.team.plans = [Say(json.dumps({"tasks": tasks}))]
    view.ask()
    expect(view.panel).to_have_count(0)
    view.bar.get_by_role("button", name="Show plan").click()
    expect(view.button("Approve")).to_be_in_viewport(ratio=1)
    expect(view.button("Reject…")).to_be_in_viewport(ratio=1)
    assert width_of_contents(view.page) <= 360
    view.button("Edit").click()
    assert width_of_contents(view.page) <= 360
    view.button("Discard changes").click()
    view.approve()
    expect(view.panel.get_by_role("heading", name="Plan · 4 of 4")).to_be_visible()
    assert width_of_contents(view.page) <= 360
    view.page.get_by_role("button", name="Close the panel").click()
    expect(view.line).to_contain_text("done")
    assert width_of_contents(view.page) <= 360


@pytest.mark.usefixtures("violations")
def test_plan_that_waits_survives_a_killed_server(
    page: Page, complaints: Complaints, start_server: StartServer, models: ModelServer, mark: str
) -> None:
    complaints.expected += ["Failed to load resource", "request failed"]
    own = start_server(**with_model(models))
    person = Person.register(own.url)
    assert isinstance(models.default, ByMark)
    models.default[mark] = team = Team(mark, CHAIN)
    project = person.project()
    session = person.session(project["id"])
    code = person.http.post("/auth/codes").json()["code"]
    page.goto(f"{own.url}/p/{project['id']}/c/{session}#code={code}")
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    view = PlanView(page, PlanUser(person, project, session, team))
    view.ask()
    expect(view.button("Approve")).to_be_visible()
    own.kill()
    expect(page.get_by_text("No connection to the server")).to_be_visible()

    again = Server.start(own.log.parent, own.env, "serve", "--port", own.url.rsplit(":", 1)[1])
    try:
        expect(page.get_by_text("No connection to the server")).to_have_count(0)
        view.approve()
        expect(view.log).to_contain_text("All of it, in one.")
        expect(view.line).to_contain_text("3 tasks · done")
    finally:
        again.kill()
    assert (team.called, team.planned) == (["a", "b", "c"], 1)
