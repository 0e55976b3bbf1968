"""Timeouts and shutdown of the HTTP server."""

import asyncio
import json
from typing import Any

import pytest
import uvicorn
from prometheus_client import CollectorRegistry

from artel.api import http_protocol
from artel.api.http_protocol import BoundedHttp
from artel.api.metrics import HttpMetrics
from artel.api.middleware import BodyLimitMiddleware, RequestMiddleware

pytestmark = pytest.mark.anyio


async def ok(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


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
    config = uvicorn.Config(ok, port=0, lifespan="off", http=BoundedHttp, log_config=None, timeout_keep_alive=60)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        answer = await _exchange(server.servers[0].sockets[0].getsockname()[1], pieces)
    finally:
        await server.shutdown()

    assert answer.count(b"200 OK") == max(len(pieces) - 1, 0)


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


async def test_slow_body_times_out_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.api.middleware.BODY_SECONDS", 0.3)
    pieces = 0

    async def drip() -> Any:
        nonlocal pieces
        pieces += 1
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": pieces < 100}

    async def ignore(_message: Any) -> None:
        pass

    async def read_all(_scope: Any, receive: Any, _send: Any) -> None:
        while (await receive())["more_body"]:
            pass

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-length", b"100")]}
    from fastapi import HTTPException

    with pytest.raises(HTTPException) as refused:
        await BodyLimitMiddleware(read_all, max_bytes=1000)(scope, drip, ignore)

    assert refused.value.status_code == 408
    assert pieces < 20
