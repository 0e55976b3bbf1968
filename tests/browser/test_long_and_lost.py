"""A conversation in a browser when the server is killed, when it is very long, and when the text is hostile."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conversation import Chat, idle
from tests.browser.visits import MOST_MILLISECONDS, Complaints
from tests.conftest import StartServer, Write
from tests.cut_line import CutLine
from tests.deadlines import eventually
from tests.depth import by_depth
from tests.model_server import Dictate, ModelServer, Say
from tests.people import Person, client
from tests.running import Server
from tests.sample_views import PAINTED

MARKDOWN = """# Heading

| Name | Size |
|------|-----:|
| `a`  |    1 |

- one
  1. nested
     - deeper
- [x] done
- [ ] open

```python
print("<b>code</b>")
```

Inline $a^2$ and a block:

$$
\\frac{1}{2}
$$

<img src=x onerror=alert(1)><script>alert(2)</script><b onclick="alert(3)">bold</b>

[bad](javascript:alert(4)) [good](https://example.org/) ![picture](https://example.org/tracker.png)
"""
MOST_NODES = 2_000  # of the log
# Open a conversation, and return how long it took until its newest message was there.
OPENED_MILLISECONDS = """async ([title, newest]) => {
  const began = performance.now();
  document.querySelector(`nav span[title="${title}"]`).click();
  while (!document.querySelector("[role=log]")?.textContent.includes(newest)) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
COPIES = """
INSERT INTO messages
  (id, user_id, project_id, session_id, number, turn_number, role, content, status, tokens, created_at)
WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 9 + :copies)
SELECT printf('%s-%05d', substr(session_id, 1, 30), i), user_id, project_id, session_id, i, i - i % 2,
  CASE i % 2 WHEN 0 THEN 'user' ELSE 'assistant' END, printf('Copy %d of a message', i), status, tokens, created_at
FROM n JOIN messages ON session_id = :session AND role = 'user' AND number = 1
"""


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    """A server with a scripted model."""
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.fixture
def chat(page: Page, person: Person, models: ModelServer, violations: list[str]) -> Iterator[Chat]:  # noqa: ARG001 - a violation fails the test
    yield Chat(page, person)
    models.queue.clear()


@pytest.mark.usefixtures("violations")
def test_killed_server_loses_and_doubles_no_word(
    page: Page, start_server: StartServer, models: ModelServer, complaints: Complaints
) -> None:
    complaints.expected += ["request failed", "ERR_"]
    model = {"OPENAI_BASE_URL": models.url, "OPENAI_API_KEY": "none"}
    first = start_server(**model)
    chat = Chat(page, Person.register(first.url))
    dictation = Dictate()
    models.script(dictation)
    with CutLine(int(first.url.rsplit(":", 1)[1])).running() as line:
        chat.open(base=line.url)
        dictation.say("One ", "two ", "three, ")
        chat.send("Count")
        chat.shows("Count", "One two three,")
        session = page.url.rsplit("/", 1)[1]
        eventually(lambda: [text for _, text in first.drafts()] == ["One two three, "])

        first.kill()
        line.cut()

        expect(page.get_by_text("No connection to the server, trying again")).to_be_visible()
        chat.shows("Count", "One two three,")
        chat.box.fill("Written without a connection")
        chat.box.press("Enter")
        expect(page.get_by_text("Waits for the connection")).to_be_visible()
        dictation.end()
        second = start_server(ARTEL_DATABASE_URL=first.env["ARTEL_DATABASE_URL"], **model)
        line.lead_to(int(second.url.rsplit(":", 1)[1]))

        expect(page.get_by_text("No connection to the server")).to_have_count(0)
        expect(chat.notices).to_contain_text("The server restarted; the answer was cut off.")
        chat.shows("Count", "One two three,", "Written without a connection", "You said: Written without a connection")
        idle(chat)
        models.script(Say("four."))
        chat.button("Continue", chat.notices).click()
        chat.shows("Count", "One two three, four.", "Written without", "You said: Written without")
        expect(chat.notices).to_have_count(0)
        page.reload()
        chat.shows("Count", "One two three, four.", "Written without", "You said: Written without")
        chat.person.http = client(second.url, chat.person.token)
        said = [each["content"] for each in chat.person.history(session) if each["role"] == "user"]
        assert said == ["Count", "Written without a connection"]
        page.goto("about:blank")


@pytest.mark.req("CHT-09.1")
def test_first_message_without_a_connection_is_sent_once_later(chat: Chat, complaints: Complaints) -> None:
    complaints.expected += ["request failed", "ERR_"]
    chat.open()
    page = chat.page

    def lose_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.context.set_offline(True)
    chat.send("Written on the train")
    expect(chat.questions).to_contain_text("Waits for the connection")
    expect(chat.box).to_have_value("")
    chat.send("And in a tunnel")
    expect(chat.questions).to_have_count(2)
    chat.box.fill("Not sent yet")
    page.route("**/my/chat/sessions", lose_answer, times=1)
    page.context.set_offline(False)

    expect(page).to_have_url(re.compile(r"/c/[0-9a-f-]{36}$"))
    chat.shows("Written on the train", "You said: Written on", "And in a tunnel", "You said: And in")
    expect(chat.box).to_have_value("Not sent yet")
    idle(chat)
    said = [message["content"] for message in chat.stored() if message["role"] == "user"]
    assert said == ["Written on the train", "And in a tunnel"]
    assert chat.person.get("/my/chat/sessions")["total"] == 1  # though the answer to the first request was lost


def test_small_talk_asks_nothing_and_markdown_runs_nothing(chat: Chat, models: ModelServer) -> None:
    chat.open()
    for number in range(10):
        chat.box.fill(f"Small talk {number}")  # to the default recipient
        chat.box.press("Enter")
        expect(chat.answers).to_have_count(number + 1)
        idle(chat)
    assert chat.person.get("/my/approvals")["total"] == 0
    expect(chat.log.get_by_role("group", name="Plan")).to_have_count(0)

    models.script(Say(MARKDOWN, pieces=[MARKDOWN[at : at + 7] for at in range(0, len(MARKDOWN), 7)]))
    chat.send("Show it")
    answer = chat.answers.last
    for _ in range(2):  # live, and after a reload
        expect(answer.get_by_role("heading", name="Heading")).to_be_visible()
        expect(answer.get_by_role("table").get_by_role("cell", name="1")).to_be_visible()
        expect(answer.locator("ul > li > ol > li > ul > li")).to_have_text("deeper")
        expect(answer.get_by_role("checkbox", checked=True)).to_have_count(1)
        expect(answer.get_by_role("checkbox", checked=False)).to_have_count(1)
        expect(answer.locator("pre code")).to_have_text('print("<b>code</b>")')
        expect(answer.locator("math mfrac")).to_have_count(1)
        expect(answer.locator("math msup")).to_have_count(1)
        expect(answer.locator("img, script, b, [onclick]")).to_have_count(0)
        expect(answer).to_contain_text("<img src=x onerror=alert(1)>")
        expect(answer.get_by_role("link", name="bad")).to_have_count(0)
        expect(answer.get_by_role("link", name="good")).to_have_attribute("href", "https://example.org/")
        chat.page.reload()
    expect(answer.get_by_role("heading", name="Heading")).to_be_visible()


def test_thousand_messages_open_with_few_requests_and_nodes(chat: Chat, write: Write) -> None:
    session = chat.session("Hello", title="Long")
    write(COPIES, session=session, copies=1_000)
    chat.open()
    requested: list[str] = []
    chat.page.on("request", lambda request: requested.append(request.url))

    expect(chat.conversations.get_by_role("link", name="Long")).to_be_visible()
    assert chat.page.evaluate(OPENED_MILLISECONDS, ["Long", "Copy 1009 of a message"]) <= MOST_MILLISECONDS

    assert len([url for url in requested if "/timeline" in url]) == 1
    assert len(requested) < 20
    nodes = "log => log.querySelectorAll('*').length"
    assert chat.log.evaluate(nodes) < MOST_NODES
    for _ in range(6):  # the reader goes up, page by page, and what is read stays in sight
        with chat.page.expect_response(lambda response: "offset=" in response.url):
            chat.log.evaluate("log => { log.scrollTop = 0; }")
        expect(chat.button("Show earlier")).not_to_be_in_viewport()
    expect(chat.log).to_contain_text("Copy 720 of a message")
    assert chat.log.evaluate(nodes) < MOST_NODES
    chat.page.get_by_role("button", name="To the newest").click()
    expect(chat.log.get_by_text("Copy 1009 of a message")).to_be_in_viewport()


def test_words_are_found_anywhere_in_a_long_conversation(chat: Chat, write: Write) -> None:
    session = chat.session("Hello", title="Long")
    write(COPIES, session=session, copies=1_000)
    chat.open(f"c/{session}")
    page, found = chat.page, chat.log.locator("[data-found], [class*=found]")
    expect(chat.log).to_contain_text("Copy 1009 of a message")

    page.keyboard.press("Control+Shift+f")
    bar = page.get_by_role("search", name="Find in conversation")
    bar.get_by_role("textbox").fill("Copy 12")
    expect(bar.get_by_role("status")).to_have_text("1 of 11")
    expect(found).to_contain_text("Copy 129 of a message")
    expect(found).to_be_in_viewport()
    for _ in range(10):
        page.keyboard.press("Enter")
    expect(bar.get_by_role("status")).to_have_text("11 of 11")
    expect(found).to_contain_text("Copy 12 of a message")
    expect(found).to_be_in_viewport()
    page.keyboard.press("Shift+Enter")
    expect(found).to_contain_text("Copy 120 of a message")
    page.keyboard.press("Escape")
    expect(found).to_have_count(0)
    expect(chat.box).to_be_focused()

    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to").fill("Copy 500 of a message")
    page.get_by_role("option", name="Copy 500 of a message").click()
    expect(found).to_contain_text("Copy 500 of a message")
    expect(found).to_be_in_viewport()


def test_very_long_conversation_is_read_from_its_first_message_to_its_last(chat: Chat, write: Write) -> None:
    copies = by_depth(1_000, 10_000)
    session = chat.session("Hello", title="Long")
    write(COPIES, session=session, copies=copies)
    chat.open(f"c/{session}")
    expect(chat.log).to_contain_text(f"Copy {copies + 9} of a message")
    chat.page.keyboard.press("Control+Shift+f")
    chat.page.get_by_role("search", name="Find in conversation").get_by_role("textbox").fill("Copy 10 of a message")
    first = chat.log.get_by_text("Copy 10 of a message", exact=True)
    expect(first).to_be_in_viewport()  # everything is loaded
    chat.page.keyboard.press("Escape")

    assert chat.log.evaluate("log => log.scrollHeight") > copies * 20
    seen = chat.log.evaluate(
        f"""async (log) => {{
          const seen = [];
          for (let part = 0; part <= 40; part++) {{
            log.scrollTop = ((log.scrollHeight - log.clientHeight) * part) / 40;
            {PAINTED}
            const {{ top, bottom }} = log.getBoundingClientRect();
            const rows = [...log.querySelectorAll("[role=group], [role=article], article")].filter((row) => {{
              const at = row.getBoundingClientRect();
              return at.bottom > top && at.top < bottom;
            }});
            const found = /Copy (\\d+)/.exec(rows.map((row) => row.textContent).join(" "));
            seen.push([Number(found?.[1] ?? 0), log.querySelectorAll("*").length]);
          }}
          return seen;
        }}"""
    )
    assert max(nodes for _, nodes in seen) < MOST_NODES
    numbers = [number for number, _ in seen]
    assert numbers == sorted(numbers)  # never a blank stretch, and in order
    assert numbers[0] <= 10
    assert numbers[-1] > copies - 30
    expect(chat.log.get_by_text(f"Copy {copies + 9} of a message")).to_be_in_viewport()
