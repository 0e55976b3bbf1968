"""Format and life cycle of server-sent event streams."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from artel.api.event_stream import HEARTBEAT, HEARTBEAT_SECONDS, RETRY, EventStream
from artel.auth.middleware import LoginWatch
from artel.auth.principal import Principal
from artel.contract.events import StoredEvent
from artel.errors import DatabaseUnavailable, SessionNotFound, TokenInvalid
from artel.events.hub import Delta, EventHub, Item, ReaderTooSlow

pytestmark = pytest.mark.anyio

EVENT = StoredEvent(7, "turn_completed", datetime(2026, 3, 1, tzinfo=UTC), {"status": "completed"}, "s", "t")


async def never_ended() -> str:
    """Wait forever: the login never ends."""
    await asyncio.Event().wait()
    return ""


class Connection:
    """Records what a stream sends; the client stays until `gone` is set."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.gone = asyncio.Event()

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> list[bytes]:
        return [message["body"] for message in self.sent[1:]]

    async def follow(self, items: AsyncIterator[Item | None]) -> None:
        await EventStream(items, "s")({"type": "http", "state": {"login_ended": never_ended}}, self.receive, self.send)


async def test_events_have_numbers_and_deltas_have_none() -> None:
    async def items() -> AsyncIterator[Item | None]:
        yield EVENT
        yield Delta("m", "t", 2, "two\nlines")

    connection = Connection()
    await connection.follow(items())

    assert connection.sent[0]["status"] == 200
    assert connection.body[0] == RETRY
    assert connection.body[1].startswith(b"id: 7\nevent: turn_completed\ndata: {")
    assert connection.body[2].startswith(b"event: message_delta\ndata: {")
    assert b"two\\nlines" in connection.body[2]
    assert all(piece.endswith(b"\n\n") for piece in connection.body[:3])
    assert connection.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_heartbeat_keeps_an_idle_stream_open() -> None:
    async def nothing(*_: Any) -> list[StoredEvent]:
        return []

    class Patient(Connection):
        async def send(self, message: Any) -> None:
            await super().send(message)
            if self.body.count(HEARTBEAT) == 3:
                self.gone.set()

    async with asyncio.timeout(10):
        await Patient().follow(EventHub(nothing).follow(Principal(1), "s", 0, 0.001))

    assert HEARTBEAT.startswith(b":")
    assert HEARTBEAT_SECONDS == 15


@pytest.mark.parametrize("end", [SessionNotFound("Session not found"), ReaderTooSlow()])
async def test_failing_stream_ends_cleanly(end: Exception) -> None:
    async def items() -> AsyncIterator[Item | None]:
        yield EVENT
        raise end

    connection = Connection()
    await connection.follow(items())

    assert len(connection.body) == 3
    assert connection.sent[-1]["more_body"] is False


@pytest.mark.req("SEC-04.6")
async def test_streams_of_a_login_share_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.auth.middleware.LOGIN_CHECK_SECONDS", 0)
    checked: list[str] = []

    async def authenticate(token: str) -> None:
        checked.append(token)
        if checked.count(token) == 2:
            raise DatabaseUnavailable("Try again in a moment.")
        if checked.count(token) == 3:
            raise TokenInvalid("This login has ended.")

    async def items() -> AsyncIterator[Item | None]:
        await asyncio.Event().wait()
        yield None

    watch = LoginWatch(authenticate)

    async def follow(token: str) -> None:
        connection = Connection()
        state = {"login_ended": lambda: watch.ended(token)}
        await EventStream(items(), "s")({"type": "http", "state": state}, connection.receive, connection.send)
        assert connection.sent[-1]["more_body"] is False

    async with asyncio.timeout(60):
        await asyncio.gather(*(follow(token) for token in ["first"] * 20 + ["second"] * 20))

    assert sorted(checked) == ["first"] * 3 + ["second"] * 3


@pytest.mark.req("SEC-04.6")
async def test_a_login_without_streams_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.auth.middleware.LOGIN_CHECK_SECONDS", 0)
    checks = asyncio.Semaphore(0)

    async def authenticate(_: str) -> None:
        checks.release()

    watch, before = LoginWatch(authenticate), asyncio.all_tasks()
    streams = [asyncio.create_task(watch.ended("token")) for _ in range(2)]
    async with asyncio.timeout(60):
        await checks.acquire()
        streams[0].cancel()
        await asyncio.wait(streams[:1])
        for _ in range(5):  # the other stream continues
            await checks.acquire()
        streams[1].cancel()
        await asyncio.wait(asyncio.all_tasks() - before)
