"""What a conversation does in a browser: live, after a reload, without a connection, in two tabs."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conversation import Chat, idle
from tests.browser.visits import Complaints, Held
from tests.conftest import StartServer
from tests.cut_line import CutLine
from tests.model_server import Cut, Dictate, Fail, ModelServer, Say
from tests.people import Person, client
from tests.running import Server

HOSTILE = "<img src=x onerror=alert(1)><b>bold</b>"


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    """A server with a scripted model."""
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.fixture(scope="module", autouse=True)
def first(server: Server) -> Person:
    """The first account of the server, its administrator."""
    return Person.register(server.url)


@pytest.fixture
def administrator(server: Server, first: Person) -> Person:
    return replace(first, http=client(server.url, first.token))


@pytest.fixture
def chat(page: Page, person: Person, models: ModelServer, violations: list[str]) -> Iterator[Chat]:  # noqa: ARG001 - a violation fails the test
    yield Chat(page, person)
    models.queue.clear()


@pytest.fixture
def dictate(models: ModelServer) -> Iterator[Dictate]:
    """The next answer of the model, dictated by the test."""
    dictation = Dictate()
    models.script(dictation)
    yield dictation
    dictation.end()


def test_answer_goes_on_after_a_reload_and_a_lost_line_and_is_announced_once(
    chat: Chat, dictate: Dictate, server: Server, complaints: Complaints
) -> None:
    complaints.expected += ["request failed", "ERR_"]
    with CutLine(int(server.url.rsplit(":", 1)[1])).running() as line:
        chat.open(base=line.url)
        dictate.say("One ", "two ")
        chat.send("Count")
        chat.shows("Count", "One two ")
        expect(chat.answers).to_have_attribute("aria-busy", "true")
        expect(chat.page.get_by_text("Coder is at work")).to_be_visible()
        expect(chat.box).to_be_focused()
        expect(chat.box).to_have_value("")

        chat.page.reload()
        chat.shows("Count", "One two ")
        expect(chat.button("Stop")).to_be_visible()
        line.cut()
        expect(chat.page.get_by_text("No connection to the server")).to_be_visible()
        dictate.say("three")
        chat.shows("Count", "One two three")
        expect(chat.page.get_by_text("No connection to the server")).to_have_count(0)
        expect(chat.announced).to_have_count(0)
        expect(chat.log).to_have_attribute("aria-live", "off")
        dictate.end()

        expect(chat.announced).to_have_text("Coder: One two three")
        idle(chat)
        chat.shows("Count", "One two three")
        expect(chat.conversations.get_by_role("link", name="Count")).to_have_attribute("aria-current", "page")
        assert [message["content"] for message in chat.stored()] == ["Count", "One two three"]
        chat.page.goto("about:blank")


@pytest.mark.req("CHT-10.2", "CHT-10.3")
def test_stopped_failed_and_cut_off_answers_survive_a_reload_and_are_repeated(
    chat: Chat, models: ModelServer, dictate: Dictate
) -> None:
    chat.open()
    dictate.say("One ")
    chat.send("Count")
    chat.shows("Count", "One ")
    chat.button("Stop").click()
    expect(chat.notices).to_contain_text("You stopped this.")
    expect(chat.box).to_be_focused()

    chat.page.reload()
    chat.shows("Count", "One ")
    expect(chat.notices).to_contain_text("You stopped this.")
    dictate.end()
    chat.button("Again", chat.notices).click()

    earlier = chat.log.get_by_text("Earlier version")
    for _ in range(2):  # live, and after a reload
        expect(earlier).to_be_visible()
        chat.shows("Count", "You said: Count")
        expect(chat.notices).to_have_count(0)
        chat.page.reload()

    idle(chat)
    models.script(Fail(400))
    chat.send("Do it")
    expect(chat.notices).to_have_count(1)
    failure = chat.stored()[-1]["content"]
    for _ in range(2):
        expect(chat.notices).to_contain_text(failure)
        chat.shows("Count", "You said: Count", "Do it")
        expect(chat.button("Continue", chat.notices)).to_have_count(0)
        chat.page.reload()

    models.script(*[Cut("The beginning,", broken=True)] * 5, about="Go on")
    chat.send("Go on")
    expect(chat.notices).to_have_count(2)
    models.queue.clear()
    for _ in range(2):
        chat.shows("Count", "You said: Count", "Do it", "Go on", "The beginning,")
        expect(chat.button("Continue", chat.notices)).to_be_enabled()
        chat.page.reload()
    models.script(Say(" and the end."))
    chat.button("Continue", chat.notices).click()
    chat.shows("Count", "You said: Count", "Do it", "Go on", "The beginning, and the end.")
    expect(chat.button("Continue")).to_have_count(0)


@pytest.mark.req("AGT-03.4")
def test_keyboard_writes_sends_and_rates(chat: Chat) -> None:
    chat.open()
    chat.box.press("Enter")
    chat.box.press_sequentially("one")
    chat.box.press("Shift+Enter")
    chat.box.press_sequentially("two")
    expect(chat.box).to_have_value("one\ntwo")
    expect(chat.questions).to_have_count(0)
    chat.page.get_by_role("combobox", name="To").select_option("Writer")
    chat.box.press("Enter")

    chat.shows("one", "You said: one")
    assert chat.stored()[0]["content"] == "one\ntwo"
    idle(chat)
    good, bad = (chat.button(f"{word} answer") for word in ("Good", "Bad"))
    expect(good).to_have_attribute("aria-pressed", "false")
    bad.focus()
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_role("textbox", name="Comment")).to_be_focused()
    chat.page.keyboard.type("Too short.")
    chat.button("Send comment").press("Enter")
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(chat.page.get_by_role("dialog")).to_have_count(0)
    expect(bad).to_be_focused()
    assert chat.stored()[1]["feedback"] == {"rating": "bad", "comment": "Too short."}
    chat.page.reload()
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "false")
    expect(chat.page.get_by_role("combobox", name="To")).to_have_value("agent_writer")


def test_two_tabs_agree_live(chat: Chat, dictate: Dictate, complaints: Complaints) -> None:
    chat.open()
    dictate.say("One ")
    chat.send(HOSTILE)
    chat.shows(HOSTILE, "One ")
    second = chat.in_tab(chat.page.context.new_page())
    complaints.listen(second.page)
    second.page.goto(chat.page.url)
    second.shows(HOSTILE, "One ")

    dictate.say("two")
    second.send("And then?")

    for tab in (chat, second):
        tab.shows(HOSTILE, "One two")
        expect(tab.waiting).to_contain_text("And then?")
    dictate.end()
    for tab in (chat, second):
        tab.shows(HOSTILE, "One two", "And then?", "You said: And then?")
        expect(tab.waiting).to_have_count(0)
        for place in (tab.page.get_by_role("main"), tab.conversations):  # text, and no HTML
            expect(place.locator("img, b")).to_have_count(0)
    second.button(f"Menu of {HOSTILE}", second.conversations).click()
    second.page.get_by_role("menuitem", name="Rename").click()
    second.page.get_by_role("textbox", name="Title").fill("Counting")
    second.button("Save").click()
    expect(chat.page.get_by_role("heading", level=1, name="Counting")).to_be_visible()
    expect(chat.conversations.get_by_role("link", name="Counting")).to_be_visible()


def _fulfill(answer: dict[str, Any], route: Route) -> None:
    route.fulfill(**answer)


def test_refused_message_keeps_its_text_and_its_file(chat: Chat, complaints: Complaints) -> None:
    complaints.expected += ["429", "404"]
    chat.open()
    problems = [
        (429, "session_busy", "Ten messages are waiting.", "Ten messages are waiting. Try again in 7 s."),
        (404, "agent_not_found", "Agent not found", "Choose another one."),
    ]
    chat.page.locator("input[type=file]").set_input_files(
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember"}
    )
    expect(chat.button("Remove notes.txt")).to_be_visible()
    chat.page.reload()  # a file of a draft survives that
    expect(chat.button("Remove notes.txt")).to_be_visible()
    for status, code, detail, expected in problems:
        body = json.dumps({"status": status, "code": code, "detail": detail})
        answer = {"status": status, "body": body, "headers": {"Retry-After": "7"}}
        chat.page.route("**/message", partial(_fulfill, answer))
        chat.send("Hello")
        expect(chat.alert).to_contain_text(expected)
        expect(chat.box).to_have_value("Hello")
        expect(chat.button("Remove notes.txt")).to_be_visible()
        expect(chat.questions).to_have_count(0)
        chat.page.unroute_all()

    chat.page.reload()
    expect(chat.button("Remove notes.txt")).to_be_visible()
    chat.box.press("Enter")
    chat.shows("Hello", "remember")
    expect(chat.questions.get_by_role("link", name="notes.txt")).to_be_visible()
    expect(chat.button("Remove notes.txt")).to_have_count(0)
    expect(chat.alert).to_be_empty()


@pytest.mark.req("CHT-09.1")
def test_messages_sent_while_others_are_on_their_way_arrive_once_and_in_order(
    chat: Chat, complaints: Complaints
) -> None:
    complaints.expected += ["ERR_FAILED", "request failed"]
    session = chat.session("Hello")
    loading = Held()
    chat.page.route(f"**/my/chat/sessions/{session}", loading.hold)
    chat.open(f"c/{session}")
    chat.send("While it loads")
    loading.release()
    chat.shows("Hello", "You said: Hello", "While it loads", "You said: While it loads")
    idle(chat)

    lost: list[str] = []

    def lose_the_answer(route: Route) -> None:
        lost.append(json.loads(route.request.post_data or "{}")["content"])
        route.fetch()
        route.abort()

    chat.page.route("**/message", lose_the_answer, times=2)
    chat.send("Once")
    expect(chat.answers).to_have_count(3)
    idle(chat)
    assert lost[0] == "Once"

    created = Held()
    chat.page.route("**/my/chat/sessions", created.hold)
    chat.page.keyboard.press("Control+j")
    expect(chat.questions).to_have_count(0)
    with chat.page.expect_request("**/my/chat/sessions"):
        chat.send("First")
    chat.box.fill("Written meanwhile")
    created.release()
    chat.shows("First", "You said: First")
    expect(chat.box).to_have_value("Written meanwhile")
    for text in ("yes", "yes"):
        chat.send(text)
    expect(chat.answers).to_have_count(3)
    assert [each["content"] for each in chat.stored() if each["role"] == "user"] == ["First", "yes", "yes"]
    history = [each["content"] for each in chat.person.history(session) if each["role"] == "user"]
    assert history == ["Hello", "While it loads", "Once"]


def test_log_keeps_the_place_and_conversations_their_drafts(chat: Chat, models: ModelServer) -> None:
    long = chat.session(*(f"Question {number}" for number in range(30)), title="Long")
    chat.session("Second", title="Short")
    chat.open(f"c/{long}")
    expect(chat.log).to_contain_text("Question 29")
    expect(chat.questions).to_have_count(25)
    expect(chat.button("Again", chat.answers.last)).to_be_in_viewport()
    chat.box.fill("Not sent")

    chat.log.evaluate("log => { log.scrollTop = 300; }")
    expect(chat.questions).to_have_count(30)
    expect(chat.questions.filter(has_text="Question 6")).to_be_in_viewport()  # what was read stays in sight

    dictation = Dictate()
    models.script(dictation)
    chat.box.fill("Count")
    chat.box.press("Enter")
    dictation.say(*(f"{number}\n\n" for number in range(40)))
    expect(chat.answers.last).to_contain_text("39")
    expect(chat.answers.last.get_by_text("39")).to_be_in_viewport()
    chat.log.evaluate("log => { log.scrollTop -= 400; }")
    expect(chat.page.get_by_role("button", name="To the newest")).to_be_visible()
    scrolled_to = chat.log.evaluate("log => log.scrollTop")
    dictation.say(*(f"{number}\n\n" for number in range(40, 60)))
    dictation.end()
    expect(chat.answers.last).to_contain_text("59")
    idle(chat)
    assert chat.log.evaluate("log => log.scrollTop") == scrolled_to
    chat.page.get_by_role("button", name="To the newest").click()
    expect(chat.button("Again", chat.answers.last)).to_be_in_viewport()

    chat.box.fill("Not sent")
    chat.conversations.get_by_role("link", name="Short").click()
    chat.shows("Second", "You said: Second")
    expect(chat.box).to_have_value("")
    expect(chat.box).to_be_focused()
    chat.conversations.get_by_role("link", name="Long").click()
    expect(chat.box).to_have_value("Not sent")


@pytest.mark.req("SEC-05.2")
def test_used_up_limit_of_the_account_says_what_to_do_and_leads_to_the_usage(
    chat: Chat, administrator: Person, models: ModelServer
) -> None:
    limit = {"monthly_budget_usd": 0}
    administrator.http.patch(f"/admin/users/{chat.person.user_id}", json=limit).raise_for_status()
    chat.open()
    models.script(Say("Too dear."))
    chat.send("Write a book")
    expect(chat.notices).to_contain_text("Monthly budget of your account exceeded")
    expect(chat.notices).to_contain_text("Ask an administrator to raise it, or wait for the next month.")
    expect(chat.button("Raise the budget")).to_have_count(0)
    expect(chat.button("Raise the limit")).to_have_count(0)  # only an administrator can
    chat.button("Show usage").click()
    expect(chat.page).to_have_url(re.compile(r"/settings/usage$"))
