"""Plans on the page: estimate, approval, progress and retry."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.actors.chat_page import HOSTILE, ChatPage, message_texts
from tests.actors.plan_page import PlanPage
from tests.actors.plan_user import PlanUser
from tests.actors.team import DIAMOND, Team
from tests.browser.visits import Complaints, Held, width_of_contents
from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Dictate, Fail, Hold, ModelServer, Say, Tool
from tests.people import Person
from tests.running import Server


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer(ByMark()).running_in_thread() as models:
        yield models


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    return start_shared_server(**with_model(models))


@pytest.fixture
def room(page: Page, person: Person, models: ModelServer, mark: str) -> PlanPage:
    team = Team(mark)
    assert isinstance(models.default, ByMark)
    models.default[mark] = team
    chat = ChatPage(page, person)
    session = person.session(chat.id)
    chat.open(path=f"/chat/{session}")
    return PlanPage(chat, PlanUser(person, chat.project, session, team))


def usd(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 0.1 else f"${float(f'{amount:.1e}'):g}"


@pytest.mark.req("CHT-03.1", "CHT-03.2", "CHT-03.3", "CHT-11.3")
def test_plan_is_shown_with_price_and_runs_after_approval_by_keyboard(room: PlanPage) -> None:
    room.team.needs = DIAMOND
    room.ask()

    expect(room.plan.get_by_role("heading")).to_have_text("Plan: 4 tasks")
    expect(room.state).to_have_text("waits for you")
    levels = room.plan.locator(".levels > li")
    expect(levels).to_have_count(3)
    expect(levels.nth(1).locator(".task .id")).to_have_text(["b", "c"])
    expect(levels.nth(1)).to_contain_text("Step 2, at the same time")
    expect(room.task("d")).to_contain_text("agent_coder")
    expect(room.task("d")).to_contain_text("after b, c")
    waits = room.workflow()
    about, high = f"${waits['estimated_cost']:.2f}", f"${math.ceil(waits['estimated_cost_high'] * 100) / 100:.2f}"
    expect(room.plan.locator(".figures")).to_contain_text(f"About {about}, at most {high} · about ")
    expect(room.plan).to_contain_text("Answer until")
    expect(room.plan).to_contain_text(f"Stops and asks at {high}.")
    expect(room.page.locator("#working")).to_have_text("The team waits for your answer…")
    expect(room.page.locator("#chat-news")).to_contain_text("May a plan of 4 tasks be carried out?")
    assert room.team.called == []

    room.plan.get_by_label("If you approve").fill("Write in French.")
    room.plan.get_by_label("If you approve").press("Enter")  # a new line, not an answer
    expect(room.button("Approve")).to_be_visible()
    room.button("Approve").focus()
    room.page.keyboard.press("Enter")

    expect(room.state).to_have_text("done")
    expect(message_texts(room.page)).to_have_text([f"{room.team.mark} Please do it all.", "All of it, in one."])
    expect(room.plan).to_be_focused()
    expect(room.button("Approve")).to_have_count(0)
    for name in "abcd":
        expect(room.task(name).locator(".badge")).to_have_text("done")
        assert "Write in French." in room.team.requests[name].text
    cost = usd(room.workflow()["cost"])
    expect(room.plan.locator(".figures")).to_have_text(f"Cost {cost} · expected: about {about}, at most {high}")
    room.task("a").get_by_text("Result", exact=True).click()
    expect(room.task("a").locator(".words")).to_have_text("Result of a.")


@pytest.mark.req("SEC-03.2")
def test_hidden_characters_of_a_plan_are_marked_and_announced(room: PlanPage) -> None:
    room.team.needs = {"a": "", "b\u202e": "a", "c": "b\u202e"}
    room.ask()

    expect(room.plan.locator(".warning")).to_contain_text("(U+202E); they are shown as \\u202e.")
    expect(room.plan.locator(".task .id .hidden-character")).to_have_text(["\\u202e"])
    room.button("Reject").click()
    expect(room.state).to_have_text("rejected")


def test_task_cost_is_shown_when_known(room: PlanPage) -> None:
    last, held = Hold(), Held()
    room.team.needs, room.team.does = {"a": "", "b": "a", "c": "b"}, {"c": last}
    room.ask()
    room.button("Approve").click()
    expect(room.task("c").locator(".badge")).to_have_text("running")
    room.page.route("**/my/workflows/*", held.hold)
    last.release()

    expect(room.task("c").locator(".badge")).to_have_text("done")
    expect(room.task("c")).to_contain_text("about $")
    held.let_go()

    expect(room.state).to_have_text("done")
    room.plan.locator("summary").first.click()
    cost = next(task["cost"] for task in room.workflow()["tasks"] if task["id"] == "c")
    expect(room.task("c")).to_contain_text(f"{usd(cost)}, expected $")


def test_plan_survives_reload(room: PlanPage) -> None:
    hold = Hold("done", word="Half a ")
    room.team.needs, room.team.does = {"a": "", "b": "a", "c": "b"}, {"b": hold}
    room.ask()
    expect(room.button("Approve")).to_be_visible()

    room.page.reload()
    expect(room.task("c")).to_contain_text("after b")
    room.button("Approve").click()
    expect(room.task("b").get_by_text("running", exact=True)).to_be_visible()
    room.task("b").get_by_text("What it writes").click()
    expect(room.task("b").locator(".words")).to_have_text("Half a ")

    room.page.reload()
    expect(room.state).to_have_text("running")
    assert _animation(room.state) == "blink"
    room.page.emulate_media(reduced_motion="reduce")
    assert _animation(room.state) == "none"
    expect(room.task("a").locator(".badge")).to_have_text("done")
    expect(room.task("c").locator(".badge")).to_have_text("not begun")
    room.task("b").get_by_text("What it writes").click()
    expect(room.task("b").locator(".words")).to_have_text("Half a ")
    hold.release()
    expect(room.state).to_have_text("done")
    expect(room.task("b").locator(".words")).to_have_text("Half a done")

    room.page.reload()
    expect(room.state).to_have_text("done")
    expect(message_texts(room.page)).to_have_text([f"{room.team.mark} Please do it all.", "All of it, in one."])
    roles = [item.get_attribute("data-role") for item in room.page.locator("#messages > li").all()]
    assert roles == ["user", "plan", "assistant"]
    expect(room.task("a")).to_be_hidden()  # it is over: folded
    room.plan.get_by_text("Tasks (3 of 3 done)").click()
    expect(room.task("a")).to_be_visible()


def _animation(shown: Locator) -> str:
    name: str = shown.evaluate("(badge) => getComputedStyle(badge, '::before').animationName")
    return name


def test_failed_loading_of_plan_is_retried(room: PlanPage, complaints: Complaints) -> None:
    complaints.expected += ["request failed", "net::ERR_FAILED"]
    hold = Hold("Late.")
    room.team.needs, room.team.does = {"a": "", "b": "a", "c": "b"}, {"c": hold}
    room.ask()
    room.button("Approve").click()
    expect(room.task("c").locator(".badge")).to_have_text("running")
    expect(room.state).to_have_text("running")
    room.page.route("**/my/workflows/*", lambda route: route.abort())
    hold.release()
    expect(message_texts(room.page).last).to_have_text("All of it, in one.")
    expect(room.chat.stop).to_have_count(0)
    expect(room.state).to_have_text("running")

    room.page.unroute("**/my/workflows/*")
    room.user.person.say(room.user.session, "Are you there?")

    expect(room.state).to_have_text("done")
    expect(room.plan.locator(".figures")).to_contain_text("Cost $")


def test_page_opened_during_planning_shows_plan(room: PlanPage) -> None:
    room.team.needs = DIAMOND
    hold = Hold(json.dumps({"tasks": room.team.tasks()}))
    room.team.plans = [hold]
    room.ask()
    expect(room.page.locator("#working")).to_have_text("The team makes a plan…")

    room.page.reload()
    expect(room.page.locator("#working")).to_have_text("The team is at work…")
    expect(room.plan).to_have_count(0)
    hold.release()

    expect(room.task("a")).to_be_visible()
    room.button("Approve").click()
    expect(room.state).to_have_text("done")


def test_old_plan_loads_with_earlier_messages(room: PlanPage) -> None:
    room.team.needs = {"a": "", "b": "a"}
    room.ask()
    room.button("Approve").click()
    expect(room.state).to_have_text("done")
    for number in range(10):
        room.user.person.say(room.user.session, f"And {number}?")
    room.page.reload()
    expect(message_texts(room.page)).to_have_count(20)
    expect(room.plan).to_have_count(0)

    room.page.get_by_role("button", name="Show earlier").click()

    expect(message_texts(room.page)).to_have_count(22)
    expect(room.state).to_have_text("done")
    roles = [item.get_attribute("data-role") for item in room.page.locator("#messages > li").all()]
    assert roles[:4] == ["user", "plan", "assistant", "user"]


def test_planning_without_agents_fails_and_can_be_retried(room: PlanPage) -> None:
    agents = room.chat.project["agents"]
    for agent in agents:
        room.user.person.http.delete(f"/my/projects/{room.chat.id}/agents/{agent['id']}")
    room.team.needs = {"1": ""}
    room.ask()

    expect(room.plan.get_by_role("heading")).to_have_text("No plan was made")
    expect(message_texts(room.page).last).to_contain_text("no agents")
    for name in ("agent_coder", "agent_writer"):  # nothing is planned for a single agent
        room.user.person.agent(room.chat.id, name=name)
    room.button("Retry what is not done").click()
    expect(message_texts(room.page).last).to_have_text("Result of 1.")
    expect(room.state).to_have_text("done")


def test_task_text_streams_and_stays_open(room: PlanPage) -> None:
    first, second = Dictate(), Dictate()
    room.team.needs, room.team.does = {"a": "", "b": "", "c": ""}, {"a": first, "b": second}
    room.team.plans = [Say(json.dumps({"tasks": room.team.tasks()}))]
    room.ask()
    room.button("Approve").click()
    first.say("One ")
    second.say("Uno ")
    room.task("a").get_by_text("What it writes").click()
    expect(room.task("a").locator(".words")).to_have_text("One ")
    first.say(HOSTILE)
    expect(room.task("a").locator(".words")).to_have_text(f"One {HOSTILE}")
    expect(room.task("b").locator(".words")).to_have_text("Uno ")
    expect(room.task("b").locator(".words")).to_be_hidden()
    expect(room.task("a").locator(".words b")).to_have_count(0)
    assert message_texts(room.page).count() == 1  # only the question
    first.end()
    second.end()
    expect(room.state).to_have_text("done")
    expect(room.task("a").locator(".words")).to_be_visible()


def test_a_plan_is_changed_before_it_begins(room: PlanPage) -> None:
    room.team.needs = DIAMOND
    room.ask()

    room.button("Change…").click()
    expect(room.task("a").get_by_label("Agent")).to_be_focused()
    room.task("a").get_by_label("Leave this task out").check()
    room.task("b").get_by_label("Agent").select_option("agent_writer")
    room.task("c").get_by_label("What it does").fill(f"{room.team.mark} do c. {HOSTILE}")
    room.task("c").get_by_label("Leave this task out").press("Enter")  # approves nothing
    expect(room.button("Approve with changes")).to_be_visible()
    room.button("Approve with changes").click()

    expect(room.state).to_have_text("done")
    expect(room.task("a")).to_have_count(0)
    expect(room.task("b")).to_contain_text("agent_writer")
    expect(room.task("c").locator(".what")).to_have_text(f"{room.team.mark} do c. {HOSTILE}")
    assert sorted(room.team.called) == ["b", "c", "d"]
    changed = {task["id"]: task["agent"] for task in room.workflow()["tasks"]}
    assert changed == {"b": "agent_writer", "c": "agent_coder", "d": "agent_coder"}


def test_changes_that_remove_every_task_are_refused_and_can_be_reverted(room: PlanPage) -> None:
    room.team.needs = {"a": "", "b": "", "c": ""}
    room.ask()
    room.button("Change…").click()
    for name in "abc":
        room.task(name).get_by_label("Leave this task out").check()

    room.button("Approve with changes").click()
    expect(room.plan.get_by_role("alert")).to_contain_text("Nothing would be left to do")
    room.button("Change nothing").click()
    expect(room.task("a").get_by_label("Leave this task out")).to_be_hidden()
    room.button("Approve").click()

    expect(room.state).to_have_text("done")
    assert sorted(room.team.called) == ["a", "b", "c"]


def test_rejection_with_feedback_makes_new_plan_that_lists_changes(room: PlanPage) -> None:
    room.team.needs = DIAMOND
    room.ask()
    expect(room.button("Reject")).to_be_visible()
    room.team.needs = {"a": "", "z": "a"}
    hold = Hold(json.dumps({"tasks": room.team.tasks()}))
    room.team.plans = [hold]

    room.plan.get_by_label("If you reject").fill("Only two tasks")
    room.button("Reject").click()

    expect(room.state).to_have_text("planning")
    expect(room.plan.get_by_role("heading")).to_have_text("Another plan is being made")
    expect(room.page.locator("#working")).to_have_text("The team makes a plan…")
    hold.release()
    expect(room.plan.get_by_role("heading")).to_have_text("Plan: 2 tasks")
    expect(room.plan.locator(".changed li")).to_contain_text(["b: left out", "z: new, for agent_coder"])
    expect(room.plan.get_by_label("If you reject")).to_have_value("")
    room.button("Reject").click()
    expect(room.state).to_have_text("rejected")
    expect(message_texts(room.page).last).to_have_text("You did not want this plan, so nothing was done.")
    expect(room.button("Retry what is not done")).to_have_count(0)
    assert room.team.called == []
    assert room.team.planned == 2


def test_plan_over_monthly_budget_shows_remaining_budget(room: PlanPage) -> None:
    _settings(room, monthly_budget_usd=0.5)
    room.team.needs = {"1": ""}

    room.ask()

    expect(room.plan).to_contain_text("Of the project's month $0.50 are left: the plan may end partly done.")
    expect(room.page.locator("#chat-news")).to_contain_text("it may end partly done")
    room.button("Approve").click()
    expect(message_texts(room.page).last).to_have_text("Result of 1.")


def test_answer_moves_to_tasks_when_one_task_becomes_three(room: PlanPage) -> None:
    dictate = Dictate()
    _settings(room, plans={"approve_over_usd": 0.0001})
    room.team.needs = {"a": ""}
    room.ask()
    expect(room.button("Reject")).to_be_visible()
    room.team.needs, room.team.does = {"a": "", "b": "", "c": ""}, {"a": dictate}
    room.plan.get_by_label("If you reject").fill("Three tasks")
    room.button("Reject").click()
    expect(room.plan.get_by_role("heading")).to_have_text("Plan: 3 tasks")

    room.button("Approve").click()
    dictate.say("One ")
    expect(room.task("a").locator(".words")).to_have_text("One ")
    assert message_texts(room.page).count() == 1
    dictate.end()
    expect(room.state).to_have_text("done")


@pytest.mark.req("CHT-08.2")
def test_failed_task_shows_reason_and_can_be_retried(room: PlanPage) -> None:
    room.team.needs, room.team.does = {"a": "", "b": "a", "c": "", "d": "b"}, {"a": Fail(400)}
    room.ask()
    room.button("Approve").click()

    expect(room.state).to_have_text("partly done")
    expect(room.task("a").locator(".badge")).to_have_text("failed")
    expect(room.task("a").locator(".error")).not_to_be_empty()
    expect(room.task("b").locator(".badge")).to_have_text("not done")
    expect(room.task("d").locator(".error")).to_have_text("Task a has no result.")
    expect(room.task("c").locator(".badge")).to_have_text("done")
    expect(room.plan.locator(".figures")).to_contain_text("expected")
    room.page.reload()
    expect(room.task("d").locator(".error")).to_have_text("Task a has no result.")
    hold = Hold("Better.")
    room.team.does = {"a": hold}

    room.button("Retry what is not done").focus()
    room.page.keyboard.press("Enter")
    expect(room.task("a").locator(".badge")).to_have_text("running")
    expect(room.plan).to_be_focused()
    roles = [item.get_attribute("data-role") for item in room.page.locator("#messages > li").all()]
    assert roles == ["user", "assistant", "plan"]  # what goes on is where one looks
    room.page.reload()
    expect(room.task("a").locator(".badge")).to_have_text("running")
    hold.release()

    expect(room.state).to_have_text("done")
    expect(message_texts(room.page)).to_have_count(3)
    expect(message_texts(room.page).last).to_have_text("All of it, in one.")
    assert room.team.called.count("c") == 1
    expect(room.button("Retry what is not done")).to_have_count(0)


def test_another_page_sees_the_retry(room: PlanPage) -> None:
    room.team.needs, room.team.does = {"a": "", "b": "a", "c": ""}, {"a": Fail(400)}
    room.ask()
    room.button("Approve").click()
    expect(room.state).to_have_text("partly done")
    room.team.does = {}

    room.user.person.http.post(f"/my/workflows/{room.workflow()['id']}/retry")

    expect(room.state).to_have_text("done")
    expect(message_texts(room.page)).to_have_count(3)
    expect(room.page.locator("#stop")).to_be_hidden()


def test_a_plan_is_cancelled_on_its_card(room: PlanPage) -> None:
    hold = Hold()
    room.team.needs, room.team.does = {"a": "", "b": "a", "c": "b"}, {"b": hold}
    room.ask()
    room.button("Approve").click()
    expect(room.task("b").locator(".badge")).to_have_text("running")
    eventually(lambda: hold.arrived)

    room.button("Cancel").click()

    assert hold.abandoned.wait(10)
    expect(room.state).to_have_text("cancelled")
    expect(room.task("a").locator(".badge")).to_have_text("done")
    expect(room.task("b").locator(".badge")).to_have_text("cancelled")
    expect(room.task("c").locator(".badge")).to_have_text("cancelled")
    expect(room.chat.stop).to_have_count(0)
    hold.release()
    room.team.does = {}
    room.button("Retry what is not done").click()
    expect(room.state).to_have_text("done")
    assert room.team.called == ["a", "b", "b", "c"]


def test_expired_plan_approval_can_be_renewed(room: PlanPage) -> None:
    _settings(room, approval_seconds=1)
    room.team.needs = DIAMOND
    room.ask()
    expect(room.state).to_have_text("not answered in time")
    expect(room.button("Approve")).to_have_count(0)
    _settings(room)
    room.page.reload()

    room.button("Ask again").click()
    expect(room.state).to_have_text("waits for you")
    room.button("Approve").click()

    expect(room.state).to_have_text("done")
    expect(message_texts(room.page).last).to_have_text("All of it, in one.")
    assert room.team.planned == 1


def _settings(room: PlanPage, **settings: Any) -> None:
    answer = room.user.person.http.patch(f"/my/projects/{room.chat.id}", json={"settings": settings})
    assert answer.status_code == 200, answer.text


def test_budget_approval_shows_amounts(room: PlanPage) -> None:
    hold = Hold()
    room.team.needs = {"a": "", "b": "a", "c": "b"}
    room.team.does = {"a": Say("Dear.", tokens=(4_000_000, 10)), "b": hold}
    room.ask()
    room.button("Approve").click()

    budget = room.plan.locator(".of-budget").first
    expect(budget).to_be_visible()
    expect(budget).to_contain_text("more than was agreed")
    expect(budget.get_by_text("Spent")).to_be_visible()
    spent = budget.locator("[data-field=spent]")
    asked = eventually(lambda: room.user.person.get("/my/approvals", status="pending")["items"])[0]
    expect(spent).to_have_text(usd(asked["details"]["spent"]))
    expect(budget.locator("[data-field=wanted]")).to_have_text(usd(asked["details"]["estimated_cost"]))
    expect(room.plan.get_by_label("If you reject")).to_be_hidden()
    expect(room.button("Change…")).to_have_count(0)
    expect(room.task("b").locator(".badge")).to_have_text("waits for you")
    room.page.reload()
    expect(budget).to_be_visible()
    room.button("Approve").click()
    expect(room.task("b").locator(".badge")).to_have_text("running")
    hold.release()

    expect(room.state).to_have_text("done")
    assert room.team.called == ["a", "b", "c"]


def test_decision_elsewhere_ends_question_on_page(room: PlanPage) -> None:
    hold = Hold()
    room.team.needs, room.team.does = DIAMOND, {"a": hold}
    room.ask()
    expect(room.button("Approve")).to_be_visible()

    [asked] = room.user.person.get("/my/approvals", status="pending")["items"]
    room.user.decide(asked["id"], changes={"tasks": [{"id": "c", "drop": True}]})

    expect(room.button("Approve")).to_have_count(0)
    expect(room.task("c")).to_have_count(0)
    expect(room.task("a").locator(".badge")).to_have_text("running")
    hold.release()
    expect(room.state).to_have_text("done")


def test_refused_budget_ends_plan_with_partial_results(room: PlanPage) -> None:
    room.team.needs = {"a": "", "b": "a", "c": "b"}
    room.team.does = {"a": Say("Dear.", tokens=(4_000_000, 10))}
    room.ask()
    room.button("Approve").click()
    expect(room.plan.locator(".of-budget").first).to_be_visible()

    room.button("Reject").click()

    expect(room.state).to_have_text("partly done")
    expect(room.task("b").locator(".badge")).to_have_text("cancelled")
    expect(room.task("b").locator(".error")).to_have_text("You did not want to spend more.")


def test_a_model_without_a_known_price_is_named(room: PlanPage) -> None:
    room.user.person.agent(room.chat.id, name="agent_odd", model="openai/nobody-knows-this")
    room.team.needs, room.team.agent = {"1": "", "2": ""}, lambda _: "agent_odd"
    room.ask()

    expect(room.plan.locator(".figures")).to_contain_text("Price not known for openai/nobody-knows-this")
    room.button("Approve").click()
    expect(room.state).to_have_text("done")
    expect(room.plan.locator(".figures")).to_contain_text("Cost not known")


def test_single_task_is_answered_like_a_message_in_new_conversation(room: PlanPage) -> None:
    dictate = Dictate()
    room.page.get_by_role("link", name="New conversation").click()
    expect(room.page.get_by_text("Nothing was said yet")).to_be_visible()
    room.team.needs, room.team.does = {"1": ""}, {"1": dictate}
    room.ask()
    dictate.say("One ", "two")

    expect(message_texts(room.page)).to_have_text(
        [f"{room.team.mark} Please do it all.", "One two"]
    )  # as the answer itself
    expect(room.plan.get_by_role("heading")).to_have_text("A task for agent_coder")
    expect(room.task("1")).to_be_hidden()
    expect(room.button("Cancel")).to_have_count(0)  # there is Stop
    dictate.end()
    expect(room.state).to_have_text("done")
    expect(room.plan.locator(".figures")).to_contain_text("Cost $")
    expect(room.chat.stop).to_have_count(0)


def test_tool_approval_shows_waiting_task(room: PlanPage) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    room.team.needs, room.team.does = {"a": "", "b": "", "c": "a"}, {"a": delete}
    room.ask()
    room.button("Approve").click()

    question = room.page.locator("#messages > .question")
    expect(question).to_contain_text("agent_coder wants to delete old.txt")
    expect(room.task("a").locator(".badge")).to_have_text("waits for you")
    expect(room.task("b").locator(".badge")).to_have_text("done")
    hold = Hold("Then I leave it.")
    room.team.does = {"a": hold}
    room.page.reload()
    expect(question).to_have_count(1)
    expect(room.task("a").locator(".badge")).to_have_text("waits for you")
    question.get_by_role("button", name="Refuse").click()
    expect(room.task("a").locator(".badge")).to_have_text("running")
    hold.release()

    expect(room.state).to_have_text("done")
    expect(message_texts(room.page).last).to_have_text("All of it, in one.")


def test_late_decision_shows_error_on_card(room: PlanPage, complaints: Complaints) -> None:
    complaints.expected.append("409")
    room.team.needs = DIAMOND
    room.ask()
    expect(room.button("Approve")).to_be_visible()
    room.page.route("**/confirm", lambda route: route.fulfill(status=409, json={"detail": "It was decided before."}))

    room.button("Approve").click()

    expect(room.plan.get_by_role("alert")).to_have_text("It was decided before.")
    room.page.unroute("**/confirm")
    room.button("Approve").click()
    expect(room.state).to_have_text("done")


LONG = "Read every page of the " + "very_long_name" * 6 + " and say what it says, in three sentences."


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_plan_fits_the_screen(room: PlanPage, width: int, scheme: Any, request: pytest.FixtureRequest) -> None:
    pictures = request.config.rootpath / "build"
    room.page.set_viewport_size({"width": width, "height": 1800})
    room.page.emulate_media(color_scheme=scheme)
    hold = Hold("done", word="Half of what there is to say, ")
    room.team.needs = {"read": "", "search": "", "draft": "read search", "check": "draft"}
    agents = {"read": "agent_analyzer", "search": "agent_researcher", "draft": "agent_writer", "check": "agent_coder"}
    room.team.agent = lambda name: agents[name]
    tasks = [{**task, "description": f"{task['description']} {LONG}"} for task in room.team.tasks()]
    room.team.plans = [Say(json.dumps({"tasks": tasks}))]
    room.team.does = {"search": Fail(400), "read": hold}
    room.ask()
    expect(room.button("Approve")).to_be_visible()
    room.page.screenshot(path=pictures / f"plan-asked-{width}-{scheme}.png")
    assert width_of_contents(room.page) <= width
    room.button("Change…").click()
    room.page.screenshot(path=pictures / f"plan-edited-{width}-{scheme}.png")
    assert width_of_contents(room.page) <= width
    room.button("Change nothing").click()
    room.button("Approve").click()
    expect(room.task("search").locator(".badge")).to_have_text("failed")
    room.task("read").get_by_text("What it writes").click()
    room.page.screenshot(path=pictures / f"plan-running-{width}-{scheme}.png")
    hold.release()
    expect(room.state).to_have_text("partly done")
    room.page.screenshot(path=pictures / f"plan-ended-{width}-{scheme}.png")
    assert width_of_contents(room.page) <= width
