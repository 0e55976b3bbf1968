"""What one user may have open at a server, so that the others have room."""

import json
import select
import socket as tcp
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from artel.api.download import MAX_WAITING_DOWNLOADS
from artel.attachments.service import MAX_UPLOADS_OF_USER
from tests.conftest import JWT_SECRET
from tests.connector import ScriptedConnector, connected, socket
from tests.deadlines import eventually
from tests.people import Person, assert_problem
from tests.running import Server, clean_environment

EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets a user have two connectors and two streams, and gives searches no time."""
    folder = tmp_path_factory.mktemp("server")
    env = clean_environment(
        folder,
        ARTEL_JWT_SECRET=JWT_SECRET,
        ARTEL_REGISTRATION_OPEN="true",
        ARTEL_MAX_CONNECTORS_PER_USER="2",
        ARTEL_MAX_STREAMS_PER_USER="2",
        ARTEL_SEARCH_SECONDS="0.000001",
    )
    server = Server.start(folder, env)
    yield server
    server.stop()


def refusal(person: Person, project_id: int) -> dict[str, Any] | None:
    """Return the problem document that a socket is refused with."""
    try:
        with socket(person, project_id):
            return None
    except InvalidStatus as refused:
        document: dict[str, Any] = json.loads(refused.response.body)
        return document


def refused_stream(person: Person, path: str) -> httpx.Response | None:
    """Return the answer that a stream is refused with."""
    with person.http.stream("GET", path) as answer:
        if answer.status_code == 200:
            return None
        answer.read()
        return answer


def assert_cut_off(connector: ScriptedConnector) -> None:
    """Check that the server reads no more of a large message; the word about it may be lost with the connection."""
    with suppress(ConnectionClosed):
        connector.say("x" * 5_000_000)
    with pytest.raises(ConnectionClosed) as closed:
        connector.socket.recv(60)
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009


@pytest.mark.req("SEC-02.4")
def test_a_user_has_so_many_sockets_counted_from_before_the_hello(limited: Server) -> None:
    person, other = Person.register(limited.url), Person.register(limited.url)
    projects = [person.project()["id"] for _ in range(3)]

    with connected(person, projects[0]), ExitStack() as second:
        second.enter_context(socket(person, projects[1]))  # which has not said hello
        refused = refusal(person, projects[2])
        assert refusal(other, other.project()["id"]) is None
        second.close()
        eventually(lambda: refusal(person, projects[2]) is None)

    assert refused is not None
    assert refused["status"] == 429
    assert refused["code"] == "too_many_connectors"
    assert "Stop one" in refused["detail"]


@pytest.mark.req("SEC-02.4")
def test_a_user_follows_so_many_streams_through_whichever_door(limited: Server) -> None:
    person, other = Person.register(limited.url), Person.register(limited.url)
    project = person.project()["id"]
    session = person.session(project)

    with person.follow_project(project) as first, ExitStack() as second:
        first.first_line()
        session_events = second.enter_context(person.follow(session))  # which ends when nothing refers to it
        session_events.first_line()
        refused = [
            eventually(lambda: refused_stream(person, f"/my/chat/{session}/events"), 60),
            eventually(lambda: refused_stream(person, f"/my/projects/{project}/events"), 60),
            person.post(session, "Hello", headers=EVENTS),
        ]
        messages = person.history(session)
        theirs = other.project()["id"]
        with other.follow_project(theirs) as following:
            following.first_line()
        second.close()
        eventually(lambda: person.post(session, "Hello", headers=EVENTS).status_code == 200)

    for answer in refused:
        assert answer is not None
        problem = assert_problem(answer, 429, "too_many_streams")
        assert "Close one" in problem["detail"]
        assert answer.headers["retry-after"]
    assert messages == []  # a message that can't be followed is not taken either


@pytest.mark.req("SEC-02.4")
def test_a_user_has_so_many_downloads(limited: Server) -> None:
    person, other = Person.register(limited.url), Person.register(limited.url)
    content = "x" * 10_000_000  # more than the system buffers for a connection

    def uploaded(by: Person) -> str:
        path = f"/my/chat/{by.session(by.project()['id'])}/attachments"
        return f"{path}/{by.http.post(path, params={'name': 'x.txt'}, content=content).json()['id']}"

    theirs = uploaded(other)
    request = f"GET {uploaded(person)} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {person.token}\r\n\r\n"
    address = urlsplit(limited.url)
    with ExitStack() as connections:
        unread = [connections.enter_context(tcp.socket()) for _ in range(MAX_WAITING_DOWNLOADS + 1)]
        for connection in unread:
            connection.setsockopt(tcp.SOL_SOCKET, tcp.SO_RCVBUF, 4096)
            connection.settimeout(60)
            connection.connect((address.hostname, address.port))
            connection.sendall(request.encode())
        statuses: list[bytes] = []  # until a download has begun and one is refused
        while len(set(statuses)) < 2:
            readable = select.select(unread, [], [], 60)[0]
            assert readable, statuses
            for connection in readable:
                unread.remove(connection)
                statuses.append(connection.recv(12))
        downloaded = other.http.get(theirs)

    assert set(statuses) == {b"HTTP/1.1 200", b"HTTP/1.1 429"}
    assert downloaded.text == content


@pytest.mark.req("SEC-02.4", "SEC-02.5")
def test_unfinished_uploads_of_others_keep_nobody_from_uploading(limited: Server) -> None:
    address = urlsplit(limited.url)
    with ExitStack() as connections:
        for person in [Person.register(limited.url) for _ in range(4)]:
            path = f"/my/chat/{person.session(person.project()['id'])}/attachments?name=x.txt"
            head = (
                f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {person.token}\r\n"
                "Content-Length: 10000000\r\nExpect: 100-continue\r\n\r\n"
            )
            for _ in range(MAX_UPLOADS_OF_USER):
                connection = connections.enter_context(tcp.create_connection((address.hostname, address.port), 60))
                connection.sendall(head.encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 100")  # its upload is in progress
        other = Person.register(limited.url)
        path = f"/my/chat/{other.session(other.project()['id'])}/attachments"
        uploaded = other.http.post(path, params={"name": "x.txt"}, content="x" * 100_000)

    assert uploaded.status_code == 201, uploaded.text


@pytest.mark.req("SEC-02.4")
def test_a_large_message_before_the_hello_is_cut_off_before_it_is_all_there(limited: Server) -> None:
    person = Person.register(limited.url)
    with socket(person, person.project()["id"]) as connector:
        assert_cut_off(connector)


@pytest.mark.req("SEC-02.3")
def test_large_unrequested_message_closes_the_connection(limited: Server) -> None:
    person = Person.register(limited.url)
    with connected(person, person.project()["id"]) as connector:
        assert_cut_off(connector)


@pytest.mark.req("SEC-02.6")
def test_a_search_that_takes_too_long_is_stopped_and_says_so(limited: Server) -> None:
    person = Person.register(limited.url)
    project = person.project()["id"]
    for _ in range(150):
        person.session(project)

    answer = person.http.get("/my/search", params={"q": "needle"})

    problem = assert_problem(answer, 504, "search_timeout")
    assert "search_seconds" in problem["detail"]
    assert person.get("/my/chat/sessions")["total"] == 150
