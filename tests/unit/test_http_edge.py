"""Timeouts and shutdown of the HTTP server."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import HTTPException
from prometheus_client import CollectorRegistry
from starlette.responses import Response

from artel.api import http_protocol
from artel.api.event_stream import EventStream
from artel.api.http_protocol import BoundedHttp
from artel.api.metrics import HttpMetrics
from artel.api.middleware import PIECE_BYTES, UPLOAD_PIECE_BYTES, BodyLimitMiddleware, RequestMiddleware
from artel.events.hub import Delta, Item

pytestmark = pytest.mark.anyio


async def ok(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(app: Any, http: type[BoundedHttp]) -> AsyncIterator[int]:
    """Serve an application; return the port."""
    config = uvicorn.Config(app, port=0, lifespan="off", http=http, log_config=None, timeout_keep_alive=60)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


async def _exchange(port: int, pieces: list[bytes]) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    async with asyncio.timeout(10):
        for piece in pieces:
            writer.write(piece)
            if piece.endswith(b"\r\n\r\n"):
                answer += await reader.readuntil(b"ok")
        answer += await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"GET / HTTP/1.1\r\nHost: x\r\n"],
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\n"],
    ],
)
async def test_connection_without_complete_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.2)
    async with serving(ok, BoundedHttp) as port:
        answer = await _exchange(port, pieces)

    assert answer.count(b"200 OK") == max(len(pieces) - 1, 0)


async def read_all(_scope: Any, receive: Any, _send: Any) -> None:
    while (await receive())["more_body"]:
        pass


async def ignore(_message: Any) -> None:
    pass


async def large(scope: Any, receive: Any, send: Any) -> None:
    await Response(b"x" * 20_000_000)(scope, receive, send)


async def endless(scope: Any, receive: Any, send: Any) -> None:
    async def items() -> AsyncIterator[Item | None]:
        while True:
            yield Delta("m", "t", 2, "x" * 10_000)
            await asyncio.sleep(0)  # after the end of the connection nothing else waits

    async def login_ended() -> str:
        await asyncio.Event().wait()
        return ""

    scope["state"]["login_ended"] = login_ended
    await EventStream(items(), "s")(scope, receive, send)


@pytest.mark.req("SEC-02.4")
@pytest.mark.parametrize("app", [large, endless])
async def test_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch, app: Any) -> None:
    monkeypatch.setattr(http_protocol, "SEND_SECONDS", 0.2)
    lost, finished = asyncio.Event(), asyncio.Event()

    class Watched(BoundedHttp):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        finished.set()

    async with serving(watched, Watched) as port:
        with socket.socket() as unread:
            unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            unread.connect(("127.0.0.1", port))
            unread.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(30):
                await lost.wait()
                await finished.wait()


async def test_client_that_reads_stays_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "SEND_SECONDS", 0.05)
    loop, aborted, over = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    class Line(asyncio.Transport):
        def abort(self) -> None:
            aborted.set()

        def close(self) -> None:
            pass

    config = uvicorn.Config(ok, lifespan="off", log_config=None)
    config.load()
    connection = BoundedHttp(config, uvicorn.server.ServerState(), {}, loop)
    connection.connection_made(Line())
    connection.pause_writing()
    connection.resume_writing()
    loop.call_later(0.1, over.set)  # due after the send timeout, however slow the machine is
    await over.wait()
    was_aborted = aborted.is_set()
    connection.pause_writing()
    async with asyncio.timeout(30):
        await aborted.wait()
    connection.connection_lost(None)

    assert not was_aborted


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
async def test_response_is_sent_in_pieces(size: int) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    body = bytes(index % 251 for index in range(size))
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "state": {}}
    await RequestMiddleware(Response(body), HttpMetrics(CollectorRegistry()))(scope, receive, send)

    pieces = [message["body"] for message in sent[1:]]
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(pieces) - 1) + [False]


async def test_request_cancelled_by_shutdown_gets_a_problem() -> None:
    async def cancelled(_scope: Any, _receive: Any, _send: Any) -> None:
        raise asyncio.CancelledError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "state": {}}
    with pytest.raises(asyncio.CancelledError):
        await RequestMiddleware(cancelled, HttpMetrics(CollectorRegistry()))(scope, receive, send)

    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"])["code"] == "server_busy"


@pytest.mark.req("SEC-02.4")
async def test_trickled_file_times_out_long_before_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.api.middleware.UPLOAD_PIECE_SECONDS", 0.2)
    pieces = [b"x" * UPLOAD_PIECE_BYTES, b"x"]

    async def trickle() -> Any:
        if not pieces:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": pieces.pop(0), "more_body": True}

    path = "/my/chat/019a8f0e/attachments"
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"content-length", b"100000")]}
    async with asyncio.timeout(30):
        with pytest.raises(HTTPException) as refused:
            await BodyLimitMiddleware(read_all, max_bytes=1000)(scope, trickle, ignore)

    assert refused.value.status_code == 408
    assert "65,536 bytes" in refused.value.detail


async def test_slow_body_times_out_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.api.middleware.BODY_SECONDS", 0.3)
    pieces = 0

    async def drip() -> Any:
        nonlocal pieces
        pieces += 1
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": pieces < 100}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-length", b"100")]}

    with pytest.raises(HTTPException) as refused:
        await BodyLimitMiddleware(read_all, max_bytes=1000)(scope, drip, ignore)

    assert refused.value.status_code == 408
    assert pieces < 20
