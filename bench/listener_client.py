"""Many event stream subscribers with little overhead each."""

import asyncio
import time
from functools import partial
from typing import Any, cast

from bench.connection import Connection, request

EVENT = b"event: message_created"
BATCH = 100
TIMEOUT_SECONDS = 30


class Subscriber(asyncio.Protocol):
    """Requests an event stream and records when the first event arrived."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = b""
        self.connected = asyncio.get_running_loop().create_future()
        self.delivered = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transport is no subclass
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.connected.done():
            self.connected.set_result(data.startswith(b"HTTP/1.1 200"))
        self._received = self._received[-len(EVENT) :] + data
        if EVENT in self._received and not self.delivered.done():
            self.delivered.set_result(time.perf_counter())

    def connection_lost(self, _: Exception | None) -> None:
        for future in (self.connected, self.delivered):
            if not future.done():
                future.set_result(None)


def _itself(subscriber: Subscriber) -> Subscriber:
    return subscriber


async def listen(
    port: int, token: str, streams: list[str], targets: list[dict[str, str]], count: int
) -> dict[str, Any]:
    """Distribute subscribers over the streams, send a message to every target, and measure the delivery times."""
    loop, subscribers = asyncio.get_running_loop(), list[Subscriber]()
    started = time.perf_counter()
    for start in range(0, count, BATCH):
        batch = [Subscriber(request("GET", streams[n % len(streams)], token)) for n in range(start, start + BATCH)]
        await asyncio.gather(*(loop.create_connection(partial(_itself, each), "127.0.0.1", port) for each in batch))
        assert all(await asyncio.gather(*(each.connected for each in batch))), "a subscriber was refused"
        subscribers += batch
    connected = time.perf_counter() - started
    senders = [await Connection.open(port, token) for _ in targets]
    sent = time.perf_counter()
    for sender, target in zip(senders, targets, strict=True):
        body = {"content": "to all"} | ({"target_agent": target["agent"]} if target["agent"] else {})
        sender.send("POST", target["path"], body, "Prefer: respond-async\r\n")
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            delivered = await asyncio.gather(*(each.delivered for each in subscribers))
    except TimeoutError:
        futures = [each.delivered for each in subscribers]
        delivered = [future.result() if future.done() and not future.cancelled() else None for future in futures]
    for each in subscribers:
        each.transport.abort()
    return {
        "connected_seconds": connected,
        "durations": [moment - sent for moment in delivered if moment is not None],
        "missed": sum(moment is None for moment in delivered),
    }
