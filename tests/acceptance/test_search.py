"""Search over the user's own sessions and messages."""

import pytest

from tests.people import Person, assert_problem
from tests.running import Server


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.mark.req("UWS-09.3")
def test_search_finds_only_own_sessions_and_messages(person: Person, other: Person, mark: str) -> None:
    for who in (person, other):
        session = who.session(title=f"About {mark}")
        who.say(session, f"What about {mark}, {who.email}?")

    found = person.get("/my/search", q=mark.upper())

    assert found["total"] == 3
    assert [(item["kind"], item["role"]) for item in found["items"]] == [
        ("session", None),
        ("message", "assistant"),
        ("message", "user"),
    ]
    assert other.email not in str(found)
    assert all(mark in item["text"] for item in found["items"])
    [session] = person.get("/my/chat/sessions")["items"]
    assert {item["session_id"] for item in found["items"]} == {session["session_id"]}
    assert {item["project_id"] for item in found["items"]} == {session["project_id"]}
    messages = {message["id"] for message in person.history(session["session_id"])}
    assert {item["message_id"] for item in found["items"][1:]} == messages
    assert {item["title"] for item in found["items"]} == {f"About {mark}"}


def test_search_in_one_session_finds_its_messages_only(person: Person, other: Person, mark: str) -> None:
    searched, another = (person.session(title=f"About {mark}") for _ in range(2))
    for session in (searched, another):
        person.say(session, f"What about {mark}?")

    found = person.get("/my/search", q=mark, session_id=searched)

    assert found["total"] == len(found["items"]) == 2
    assert {item["message_id"] for item in found["items"]} == {message["id"] for message in person.history(searched)}
    assert {item["title"] for item in found["items"]} == {f"About {mark}"}
    foreign = other.http.get("/my/search", params={"q": mark, "session_id": searched})
    assert_problem(foreign, 404, "session_not_found")


def test_search_results_are_paged(person: Person, mark: str) -> None:
    for number in range(3):
        person.say(person.session(title=f"{mark} {number}"), f"{mark} in message {number}")
    everything = person.get("/my/search", q=mark)

    pages = [person.get("/my/search", q=mark, limit=2, offset=offset) for offset in range(0, 10, 2)]

    assert everything["total"] == 9
    assert [item for page in pages for item in page["items"]] == everything["items"]
    assert {page["total"] for page in pages} == {9}


@pytest.mark.parametrize("wild", ["%", "_", "\\", "/", "'", '"', "a%b", "100_percent"])
def test_search_has_no_wildcards(person: Person, wild: str) -> None:
    session = person.session(title="Plain")
    person.say(session, "aXb 100Xpercent")
    assert person.get("/my/search", q=wild)["total"] == 0

    person.http.patch(f"/my/chat/sessions/{session}", json={"title": f"This is {wild} here"})

    assert [item["text"] for item in person.get("/my/search", q=wild)["items"]] == [f"This is {wild} here"]


def test_long_message_is_shown_as_excerpt_around_the_match(person: Person, mark: str) -> None:
    session = person.session()
    person.say(session, "before " * 200 + mark + " after" * 200)

    item = person.get("/my/search", q=mark)["items"][-1]

    assert mark in item["text"]
    assert len(item["text"]) < 300
    assert item["text"].startswith("…")
    assert item["text"].endswith("…")


@pytest.mark.parametrize("query", ["", " ", "x" * 201, "a\x00b"])
def test_a_bad_search_is_refused(person: Person, query: str) -> None:
    assert_problem(person.http.get("/my/search", params={"q": query}), 422, "invalid_request")
