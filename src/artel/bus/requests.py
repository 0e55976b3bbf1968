"""Requests that wait for their reply."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from artel.bus.bus import Bus, BusClosed, Delivery, NoListener, RequestTimeout
from artel.bus.receiver import Received
from artel.contract.envelope import Envelope, InvalidMessage
from artel.ids import uuid7
from artel.logs import get_logger

log = get_logger(__name__)


class Requests:
    """The requests of one bus, each known by its correlation id; their replies come to one address."""

    def __init__(self, bus: Bus, address: str) -> None:
        self._bus = bus
        self._address = address
        self._waiting: dict[str, asyncio.Future[Envelope]] = {}

    async def send(self, key: str, envelope: Envelope, timeout_seconds: float) -> Envelope:
        """Publish a request and wait for its reply."""
        correlation_id = uuid7()
        try:
            async with asyncio.timeout(timeout_seconds):
                with self._expected(correlation_id) as reply:
                    routed = await self._bus.publish(
                        key,
                        envelope,
                        ttl_seconds=timeout_seconds,
                        reply_to=self._address,
                        correlation_id=correlation_id,
                    )
                    if not routed:
                        raise NoListener(f"Nobody listens to {key}.")
                    return await reply
        except TimeoutError:
            raise RequestTimeout(f"No reply to {key} came within {timeout_seconds:g} s.") from None

    async def take(self, delivery: Delivery) -> None:
        """Give a reply to whoever waits for it; one that comes too late is dropped."""
        if reply := self._open(delivery.correlation_id):
            reply.set_result(delivery.envelope)
        else:
            log.info("reply_too_late", message_id=delivery.envelope.id)

    async def refuse(self, received: Received, problem: InvalidMessage) -> None:
        """Tell whoever waits for it that the reply can't be read."""
        if reply := self._open(received.correlation_id):
            reply.set_exception(problem)

    def close(self) -> None:
        """End every request."""
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(BusClosed("The bus was closed before the reply came."))

    def _open(self, correlation_id: str | None) -> asyncio.Future[Envelope] | None:
        reply = self._waiting.get(correlation_id or "")
        return None if reply is None or reply.done() else reply

    @contextmanager
    def _expected(self, correlation_id: str) -> Iterator[asyncio.Future[Envelope]]:
        reply: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        try:
            yield reply
        finally:
            del self._waiting[correlation_id]
            if reply.done() and not reply.cancelled():
                reply.exception()  # seen, even when nobody waited any more
            reply.cancel()
