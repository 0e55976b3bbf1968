"""The chat and the dashboard of the worker space in a browser, with a scripted model."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.actors.chat_page import HOSTILE, ChatPage, authors, message_texts
from tests.browser.visits import Complaints, Held, width_of_contents
from tests.conftest import StartServer
from tests.cut_line import CutLine
from tests.model_server import Cut, Dictate, Fail, ModelServer, Say
from tests.people import Person
from tests.running import Server


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer().running_in_thread() as models:
        yield models


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    """A server with a scripted model."""
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.fixture
def chat(page: Page, person: Person, models: ModelServer) -> Iterator[ChatPage]:
    yield ChatPage(page, person)
    models.queue.clear()


@pytest.fixture
def dictate(models: ModelServer) -> Iterator[Dictate]:
    """The next answer of the model, dictated by the test."""
    dictation = Dictate()
    models.script(dictation)
    yield dictation
    dictation.end()


def test_answer_is_streamed_and_announced_once(chat: ChatPage, dictate: Dictate) -> None:
    chat.open()
    expect(chat.page.get_by_text("Nothing was said yet")).to_be_visible()
    dictate.say("One ", "two ")

    chat.send("Count")

    expect(message_texts(chat.page)).to_have_text(["Count", "One two "])
    expect(authors(chat.page)).to_have_text(["You", "agent_coder"])
    expect(chat.page.get_by_text("agent_coder is at work")).to_be_visible()
    expect(chat.box).to_be_focused()
    expect(chat.box).to_have_value("")
    news = chat.page.locator("[aria-live=polite]").filter(visible=True).first
    expect(news).to_have_text("")
    dictate.say("three")
    expect(message_texts(chat.page)).to_have_text(["Count", "One two three"])
    expect(news).to_have_text("")
    dictate.end()
    expect(news).to_have_text("agent_coder: One two three")
    expect(chat.stop).to_have_count(0)
    expect(chat.page.get_by_text("demo brain")).to_be_hidden()
    expect(chat.page.get_by_role("navigation", name="Conversations").get_by_role("listitem")).to_have_text(["Count"])
    assert [message["content"] for message in chat.stored()] == ["Count", "One two three"]


def test_page_opened_during_answer_shows_it_and_continues(chat: ChatPage, dictate: Dictate) -> None:
    chat.open()
    dictate.say("One ", "two ")
    chat.send("Count")
    expect(message_texts(chat.page)).to_have_text(["Count", "One two "])

    chat.page.reload()

    expect(message_texts(chat.page)).to_have_text(["Count", "One two "])
    expect(authors(chat.page)).to_have_text(["You", "agent_coder"])
    expect(chat.page.get_by_text("agent_coder is at work")).to_be_visible()
    expect(chat.stop).to_be_visible()
    dictate.say("three")
    expect(message_texts(chat.page)).to_have_text(["Count", "One two three"])
    dictate.end()
    expect(chat.stop).to_have_count(0)
    expect(message_texts(chat.page)).to_have_text(["Count", "One two three"])


def test_stream_resumes_after_lost_connection(
    chat: ChatPage, models: ModelServer, dictate: Dictate, server: Server, complaints: Complaints
) -> None:
    complaints.expected += ["request failed", "ERR_"]
    models.queue.appendleft(("", Say()))
    chat.session("Hello")
    before = ["Hello", "You said: Hello", "Count"]
    with CutLine(int(server.url.rsplit(":", 1)[1])).running() as line:
        chat.page.goto(f"{line.url}/#token={chat.person.token}")
        chat.page.get_by_role("link", name="Website").click()
        dictate.say("One ", "two ")
        chat.send("Count")
        expect(message_texts(chat.page)).to_have_text([*before, "One two "])

        line.cut()
        expect(chat.page.get_by_text("The connection is lost")).to_be_visible()
        dictate.say("three")
        expect(message_texts(chat.page)).to_have_text([*before, "One two three"])
        expect(chat.page.get_by_text("The connection is lost")).to_have_count(0)
        line.cut()
        dictate.end()

        expect(chat.stop).to_have_count(0)
        expect(message_texts(chat.page)).to_have_text([*before, "One two three"])
        chat.page.goto("about:blank")


@pytest.mark.req("CHT-10.2", "CHT-10.3")
def test_stopped_answer_survives_reload_and_can_be_retried(chat: ChatPage, dictate: Dictate) -> None:
    chat.open()
    dictate.say("One ")
    chat.send("Count")
    expect(message_texts(chat.page)).to_have_text(["Count", "One "])
    chat.stop.click()
    expect(authors(chat.page)).to_have_text(["You", "agent_coder", "Stopped"])

    chat.page.reload()
    expect(message_texts(chat.page)).to_have_text(["Count", "One ", "You stopped this."])
    expect(authors(chat.page)).to_have_text(["You", "agent_coder", "Stopped"])
    chat.page.get_by_role("button", name="Again").click()

    expect(message_texts(chat.page)).to_have_text(["Count", "One ", "You stopped this.", "Count", "You said: Count"])
    expect(authors(chat.page)).to_have_text(["You", "agent_coder", "Stopped", "You, again", "agent_coder"])
    expect(chat.page.get_by_role("button", name="Again")).to_have_count(0)
    chat.page.reload()
    expect(authors(chat.page)).to_have_text(["You", "agent_coder", "Stopped", "You, again", "agent_coder"])
    expect(chat.page.get_by_role("button", name="Again")).to_have_count(0)


@pytest.mark.req("AGT-03.4")
def test_answer_is_rated_with_the_keyboard(chat: ChatPage) -> None:
    chat.open()
    chat.send("Hello")
    good, bad = (chat.page.get_by_role("button", name=f"{word} answer") for word in ("Good", "Bad"))
    expect(good).to_have_attribute("aria-pressed", "false")

    bad.focus()
    chat.page.keyboard.press("Enter")
    expect(bad).to_have_attribute("aria-pressed", "true")
    chat.page.keyboard.press("Tab")
    chat.page.keyboard.type("Too short.")
    chat.page.keyboard.press("Enter")

    expect(bad).to_be_focused()
    [_, answer] = chat.stored()
    assert answer["feedback"] == {"rating": "bad", "comment": "Too short."}
    chat.page.reload()
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "false")


def test_reload_keeps_last_agent_selected(chat: ChatPage) -> None:
    chat.open()
    chat.send("Hello", to="agent_writer")
    expect(message_texts(chat.page)).to_have_text(["Hello", "You said: Hello"])

    chat.page.reload()

    expect(chat.page.get_by_label("To", exact=True)).to_have_value("agent_writer")


def test_stop_ends_a_turn(chat: ChatPage, dictate: Dictate) -> None:
    chat.open()
    dictate.say("One ")
    chat.send("Count")
    expect(message_texts(chat.page)).to_have_text(["Count", "One "])

    chat.stop.click()

    expect(message_texts(chat.page)).to_have_text(["Count", "One ", "You stopped this."])
    expect(chat.stop).to_have_count(0)
    expect(chat.box).to_be_focused()
    dictate.say("two")
    chat.send("Go on")
    expect(message_texts(chat.page)).to_have_text(["Count", "One ", "You stopped this.", "Go on", "You said: Go on"])


def test_failure_looks_different_from_answer(chat: ChatPage, models: ModelServer) -> None:
    chat.open()
    models.script(Fail(400))

    chat.send("Do it")

    expect(authors(chat.page)).to_have_text(["You", "Not answered"])
    expect(chat.page.locator("#messages > li").last).to_have_attribute("data-role", "system")
    live = message_texts(chat.page).last.inner_text()
    assert live == chat.stored()[1]["content"]
    chat.page.reload()
    expect(message_texts(chat.page)).to_have_text(["Do it", live])
    expect(authors(chat.page)).to_have_text(["You", "Not answered"])


@pytest.mark.req("CHT-10.2")
def test_notice_of_interrupted_answer_is_not_shown_as_failure(chat: ChatPage, models: ModelServer) -> None:
    chat.open()
    models.script(*[Cut(broken=True)] * 5)

    chat.send("Count")

    headings = ["You", "agent_coder", "Cut off"]
    expect(authors(chat.page)).to_have_text(headings)
    for _ in range(2):  # live, and after a reload
        expect(chat.page.locator("#messages > li").last).to_have_attribute("data-status", "stopped")
        chat.page.reload()
        expect(authors(chat.page)).to_have_text(headings)
    models.queue.clear()


def test_enter_sends_and_shift_enter_begins_a_line(chat: ChatPage) -> None:
    chat.open()
    chat.box.press("Enter")
    chat.box.press_sequentially("one")
    chat.box.press("Shift+Enter")
    chat.box.press_sequentially("two")
    expect(chat.box).to_have_value("one\ntwo")
    expect(message_texts(chat.page)).to_have_count(0)

    chat.box.press("Enter")

    expect(message_texts(chat.page).first).to_have_text("one\ntwo")
    expect(message_texts(chat.page)).to_have_count(2)  # the team decides who answers
    assert chat.stored()[0]["content"] == "one\ntwo"


def test_message_sent_before_conversation_loads_goes_into_it(chat: ChatPage) -> None:
    chat.session("Hello")
    held = Held()
    chat.page.route("**/my/chat/sessions?*", held.hold)
    chat.open()
    chat.send("And now?")
    expect(chat.box).to_have_value("And now?")

    held.let_go()

    expect(message_texts(chat.page)).to_have_text(["Hello", "You said: Hello", "And now?", "You said: And now?"])
    expect(chat.box).to_have_value("")


def test_message_sent_while_new_conversation_opens_goes_into_it(chat: ChatPage) -> None:
    old = chat.session("Hello")
    chat.open(path=f"/chat/{old}")
    expect(message_texts(chat.page)).to_have_text(["Hello", "You said: Hello"])
    held = Held()
    chat.page.route(f"**/my/projects/{chat.id}", held.hold)
    with chat.page.expect_request(f"**/my/projects/{chat.id}"):
        chat.page.get_by_role("link", name="New conversation").click()
    chat.send("And now?")

    held.let_go()

    expect(message_texts(chat.page)).to_have_text(["And now?", "You said: And now?"])
    expect(chat.box).to_have_value("")
    assert [message["content"] for message in chat.stored()] == ["And now?", "You said: And now?"]


def test_message_typed_while_another_is_on_its_way_is_sent_after_it(chat: ChatPage) -> None:
    chat.open()
    held = Held()
    chat.page.route("**/my/chat/*/message", held.hold)
    with chat.page.expect_request("**/my/chat/*/message"):
        chat.send("First")
    chat.page.get_by_role("link", name="New conversation").click()
    expect(message_texts(chat.page)).to_have_count(0)
    chat.send("Second")
    expect(chat.box).to_have_value("Second")

    held.let_go()

    expect(message_texts(chat.page)).to_have_text(["Second", "You said: Second"])
    expect(chat.box).to_have_value("")


def test_a_second_tab_sees_the_same_conversation_live(chat: ChatPage, dictate: Dictate, complaints: Complaints) -> None:
    session_id = chat.session("Hello", prefer="respond-async")
    chat.open()
    dictate.say("One ")
    expect(message_texts(chat.page)).to_have_text(["Hello", "One "])
    second = chat.page.context.new_page()
    complaints.listen(second)
    chat.open(second, f"/chat/{session_id}")
    expect(message_texts(second)).to_have_text(["Hello", "One "])

    dictate.say("two")
    chat.send("And then?")

    for page in (chat.page, second):
        expect(message_texts(page)).to_have_text(["Hello", "One two", "And then?"])
        expect(page.get_by_text("agent_coder is at work, 1 message waits…")).to_be_visible()
    dictate.end()
    for page in (chat.page, second):
        expect(message_texts(page)).to_have_text(["Hello", "One two", "And then?", "You said: And then?"])
    second.reload()
    expect(message_texts(second)).to_have_text(["Hello", "One two", "And then?", "You said: And then?"])


def test_messages_are_shown_as_text_not_html(chat: ChatPage, models: ModelServer) -> None:
    chat.open()
    models.script(Say(f"{HOSTILE}\n\n```html\n{HOSTILE}\n```\nDone."))

    chat.send(HOSTILE)

    expect(message_texts(chat.page).first).to_have_text(HOSTILE)
    expect(message_texts(chat.page).last.locator("p")).to_have_text([HOSTILE, "Done."])
    expect(message_texts(chat.page).last.locator("pre")).to_have_text(HOSTILE)
    expect(chat.page.get_by_role("navigation", name="Conversations").get_by_role("listitem")).to_have_text(HOSTILE)
    chat.page.reload()
    expect(message_texts(chat.page).last.locator("pre")).to_have_text(HOSTILE)
    expect(chat.page.get_by_role("main").locator("img, b")).to_have_count(0)


def test_nothing_is_wider_than_a_phone(chat: ChatPage, models: ModelServer) -> None:
    chat.page.set_viewport_size({"width": 360, "height": 740})
    chat.session(title="t" * 200)
    chat.open()
    models.script(Say(f"{'w' * 300}\n```\n{'c' * 300}\n```"))
    chat.send("u" * 300)
    expect(message_texts(chat.page).last.locator("pre")).to_be_visible()
    assert width_of_contents(chat.page) == 360
    log = chat.page.get_by_role("region", name="Messages")
    assert log.evaluate("log => log.scrollWidth <= log.clientWidth")
    chat.page.get_by_text("Conversations").click()
    expect(chat.page.get_by_role("link", name="New conversation")).to_be_visible()
    assert width_of_contents(chat.page) == 360
    chat.page.get_by_role("link", name="Worker space").click()
    expect(chat.page.get_by_text("Tasks done").first).to_be_visible()
    assert width_of_contents(chat.page) == 360


def test_chat_works_by_keyboard(chat: ChatPage, dictate: Dictate) -> None:
    chat.session()
    chat.open()
    press = chat.page.keyboard.press
    expect(chat.page.get_by_role("link", name="Before")).to_be_visible()
    expect(chat.page.get_by_role("heading", level=1)).to_be_focused()
    active = """(({ activeElement: one }) => one.ariaLabel ?? (one.labels?.[0] ?? one).innerText)(document)"""

    expected = ["Chat", "Agents", "Worker space", "New conversation", "Before", "Messages", "To", "Message", "Send"]
    reached = []
    for _ in expected:
        press("Tab")
        reached.append(chat.page.evaluate(active))
        assert chat.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", reached
    assert reached == expected

    press("Shift+Tab")
    press("Shift+Tab")
    press("ArrowDown")
    press("Tab")
    chat.page.keyboard.type("By keyboard")
    dictate.say("One ")
    press("Enter")
    expect(message_texts(chat.page)).to_have_text(["By keyboard", "One "])
    expect(authors(chat.page)).to_have_text(["You", "agent_coder"])
    press("Shift+Tab")
    press("Shift+Tab")
    expect(chat.stop).to_be_focused()
    press("Enter")
    expect(message_texts(chat.page).last).to_have_text("You stopped this.")
    expect(chat.box).to_be_focused()


@pytest.mark.parametrize(
    ("status", "code", "detail", "expected"),
    [
        (429, "session_busy", "Ten messages are waiting.", "Ten messages are waiting. Try again in 7 seconds."),
        (503, "agent_in_error", "It failed. Try again in 30 seconds.", "It failed. Try again in 30 seconds."),
        (404, "agent_not_found", "Agent not found", "Choose another one."),
    ],
)
def test_refused_message_shows_error_and_keeps_text(
    chat: ChatPage, complaints: Complaints, status: int, code: str, detail: str, expected: str
) -> None:
    complaints.expected.append(str(status))
    problem = json.dumps({"status": status, "code": code, "detail": detail})
    chat.open()
    chat.page.route(
        "**/message", lambda route: route.fulfill(status=status, body=problem, headers={"Retry-After": "7"})
    )

    chat.send("Hello")

    expect(chat.alert).to_contain_text(expected)
    expect(chat.box).to_have_value("Hello")
    expect(message_texts(chat.page)).to_have_count(0)
    chat.page.unroute_all()
    chat.box.press("Enter")
    expect(message_texts(chat.page)).to_have_text(["Hello", "You said: Hello"])
    expect(chat.alert).to_have_count(0)


@pytest.mark.parametrize("line", ["the events tell of it", "nothing tells of it"])
def test_a_message_whose_answer_got_lost_is_not_stored_twice(chat: ChatPage, complaints: Complaints, line: str) -> None:
    complaints.expected += ["ERR_FAILED", "request failed"]
    chat.session()
    if line == "nothing tells of it":
        chat.page.route("**/events", lambda route: route.abort())

    def lose_the_answer(route: Route) -> None:
        route.fetch()
        if line == "the events tell of it":
            expect(chat.page.locator(".pending")).to_have_count(0)
        route.abort()

    chat.page.route("**/message", lose_the_answer)
    chat.open()
    chat.send("Once")
    if line == "nothing tells of it":
        expect(chat.alert).to_contain_text("can't be reached")
        expect(chat.box).to_have_value("Once")
        chat.page.unroute_all()
        chat.box.press("Enter")

    expect(chat.box).to_have_value("")
    expect(message_texts(chat.page)).to_have_text(["Once", "You said: Once"])
    expect(chat.alert).to_have_count(0)
    assert len(chat.stored()) == 2


def test_loading_earlier_messages_keeps_scroll_position(chat: ChatPage, dictate: Dictate) -> None:
    dictate.end()
    chat.session(*(f"Question {number}" for number in range(14)))
    chat.open()
    expect(message_texts(chat.page)).to_have_count(20)
    log = chat.page.get_by_role("region", name="Messages")
    at_end = "log => log.scrollHeight - log.scrollTop - log.clientHeight < 5"
    assert log.evaluate(at_end)
    log.evaluate("log => { log.scrollTop = 0; }")

    chat.page.get_by_role("button", name="Show earlier").click()

    expect(message_texts(chat.page)).to_have_count(28)
    questions = chat.page.locator("#messages > [data-role=user] .text")
    expect(questions).to_have_text([f"Question {number}" for number in range(14)])
    expect(chat.page.get_by_role("button", name="Show earlier")).to_have_count(0)
    assert log.evaluate("log => log.scrollTop > 100")


AT_THE_END = "(log => log.scrollHeight - log.scrollTop - log.clientHeight < 5)(document.getElementById('log'))"


def test_log_follows_newest_message_unless_scrolled_up(chat: ChatPage, dictate: Dictate) -> None:
    chat.open()
    chat.send("Count")
    lines = [f"{number}\n" for number in range(100)]
    dictate.say(*lines[:50])
    log = chat.page.get_by_role("region", name="Messages")
    expect(message_texts(chat.page).last).to_contain_text("49")
    chat.page.wait_for_function(AT_THE_END)
    log.evaluate("log => { log.scrollTop = 10; }")

    chat.page.wait_for_function("document.getElementById('log').scrollTop === 10")
    dictate.say(*lines[50:])
    dictate.end()

    expect(message_texts(chat.page).last).to_contain_text("99")
    expect(chat.stop).to_have_count(0)
    assert log.evaluate("log => log.scrollTop") == 10
    chat.send("And now?")
    expect(message_texts(chat.page)).to_have_count(4)
    chat.page.wait_for_function(AT_THE_END)


def test_conversations_keep_their_drafts(chat: ChatPage) -> None:
    chat.session("First", title="Older")
    chat.session("Second", title="Newer")
    chat.open()
    conversations = chat.page.get_by_role("navigation", name="Conversations")
    expect(conversations.get_by_role("listitem")).to_have_text(["Newer", "Older"])
    expect(message_texts(chat.page)).to_have_text(["Second", "You said: Second"])
    chat.box.fill("Not sent")

    conversations.get_by_role("link", name="Older").click()
    expect(message_texts(chat.page)).to_have_text(["First", "You said: First"])
    expect(chat.box).to_have_value("")
    expect(chat.box).to_be_focused()
    conversations.get_by_role("link", name="New conversation").click()
    expect(message_texts(chat.page)).to_have_count(0)
    chat.send("Third")
    expect(message_texts(chat.page)).to_have_text(["Third", "You said: Third"])
    expect(conversations.get_by_role("listitem")).to_have_text(["Third", "Newer", "Older"])
    conversations.get_by_role("link", name="Newer").click()
    expect(chat.box).to_have_value("Not sent")

    chat.page.get_by_role("button", name="Sign out").click()
    expect(chat.page.get_by_label("Password", exact=True)).to_be_visible()
    assert not any(text in chat.page.content() for text in ("Second", "Newer", "Not sent"))


def figure(page: Page, name: str) -> Locator:
    """Return the value of a figure on the dashboard."""
    term = page.locator("dt").filter(has_text=name)
    return page.locator("#figures > div").filter(has=term).locator("dd").first


@pytest.mark.req("UWS-25.2")
def test_dashboard_shows_metrics_and_active_agents(chat: ChatPage, dictate: Dictate) -> None:
    chat.open(path="/space")
    expect(figure(chat.page, "Tasks done")).to_have_text("0")
    expect(figure(chat.page, "Active agents")).to_have_text("4")
    expect(chat.page.locator("#health")).to_have_text("healthy")
    expect(chat.page.get_by_text("Nothing needs a look.")).to_be_visible()
    coder = chat.page.locator("#statuses > li").filter(has_text="agent_coder")
    expect(coder).to_contain_text("idle")

    chat.session("Count", prefer="respond-async")
    expect(coder).to_contain_text("at work")
    dictate.say("One")
    dictate.end()
    expect(coder).to_contain_text("idle")

    expect(figure(chat.page, "Tasks done")).to_have_text("1")
    expect(figure(chat.page, "Sent to one agent")).to_have_text("1")
    chart = chat.page.get_by_role("img", name="Tasks done in the last")
    expect(chart).to_have_attribute("aria-label", re.compile("1 done now, 1 at most"))
    line = chart.locator("polyline")
    expect(line).to_have_attribute("points", re.compile(r"\S+\s+\S+"))
    points = line.get_attribute("points") or ""
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert len(heights) >= 2
    assert heights[-1] < heights[0]  # the line goes up


@pytest.mark.req("UWS-25.2")
def test_the_dashboard_shows_an_alert_after_five_failures(chat: ChatPage, models: ModelServer) -> None:
    models.script(*[Fail(400)] * 5)
    chat.session(*(f"Try {number}" for number in range(4)))
    chat.open(path="/space")
    expect(figure(chat.page, "Tasks done")).to_have_text("4")
    expect(chat.page.get_by_text("Nothing needs a look.")).to_be_visible()

    chat.session("Try again")

    alert = chat.page.get_by_role("region", name="Open alerts").get_by_role("listitem")
    expect(alert).to_contain_text("agent_coder has failed several times in a row")
    [raised] = chat.person.http.get(f"/my/projects/{chat.id}/alerts").json()["items"]
    expect(alert.locator("time")).to_have_attribute("datetime", raised["raised_at"])
    expect(chat.page.locator("#health")).to_have_text("degraded")
    expect(chat.page.locator("#statuses > li").filter(has_text="agent_coder")).to_contain_text("in error")
