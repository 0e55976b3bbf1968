"""Many listeners to streams of events, as cheap as a listener can be."""

import asyncio
import time
from functools import partial
from typing import Any, cast

from bench.connection import Connection, request

NEEDLE = b"event: message_created"
AT_ONCE = 100
PATIENCE_SECONDS = 30


class Listener(asyncio.Protocol):
    """Asks for a stream of events and notes when the first one came."""

    def __init__(self, asks: bytes) -> None:
        self._asks = asks
        self._seen = b""
        self.connected = asyncio.get_running_loop().create_future()
        self.heard = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own is none by its class
        self.transport.write(self._asks)

    def data_received(self, data: bytes) -> None:
        if not self.connected.done():
            self.connected.set_result(data.startswith(b"HTTP/1.1 200"))
        self._seen = self._seen[-len(NEEDLE) :] + data
        if NEEDLE in self._seen and not self.heard.done():
            self.heard.set_result(time.perf_counter())

    def connection_lost(self, _: Exception | None) -> None:
        for future in (self.connected, self.heard):
            if not future.done():
                future.set_result(None)


def _itself(listener: Listener) -> Listener:
    return listener


async def listen(port: int, token: str, streams: list[str], lines: list[dict[str, str]], count: int) -> dict[str, Any]:
    """Connect so many listeners to the streams in turn, then send a message on every line; measure when all heard."""
    loop, listeners = asyncio.get_running_loop(), list[Listener]()
    began = time.perf_counter()
    for start in range(0, count, AT_ONCE):
        made = [Listener(request("GET", streams[n % len(streams)], token)) for n in range(start, start + AT_ONCE)]
        await asyncio.gather(*(loop.create_connection(partial(_itself, one), "127.0.0.1", port) for one in made))
        assert all(await asyncio.gather(*(one.connected for one in made))), "a listener was refused"
        listeners += made
    connected = time.perf_counter() - began
    speakers = [await Connection.open(port, token) for _ in lines]
    sent = time.perf_counter()
    for speaker, line in zip(speakers, lines, strict=True):
        body = {"content": "to all"} | ({"target_agent": line["agent"]} if line["agent"] else {})
        speaker.send("POST", line["path"], body, "Prefer: respond-async\r\n")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            heard = await asyncio.gather(*(one.heard for one in listeners))
    except TimeoutError:
        heard = [one.heard.result() if one.heard.done() and not one.heard.cancelled() else None for one in listeners]
    for one in listeners:
        one.transport.abort()
    return {
        "connected_seconds": connected,
        "taken": [moment - sent for moment in heard if moment is not None],
        "missed": sum(moment is None for moment in heard),
    }
