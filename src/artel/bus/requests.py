"""Pending requests and their replies."""

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
    """The pending requests of one bus by correlation id; all replies arrive in one queue."""

    def __init__(self, bus: Bus, address: str) -> None:
        self._bus = bus
        self._address = address
        self._waiting: dict[str, asyncio.Future[Envelope]] = {}

    async def send(self, key: str, envelope: Envelope, timeout_seconds: float) -> Envelope:
        """Publish a request and return its reply; raise NoListener or RequestTimeout."""
        correlation_id = uuid7()
        try:
            async with asyncio.timeout(timeout_seconds):
                with self._awaiting_reply(correlation_id) as reply:
                    routed = await self._bus.publish(
                        key,
                        envelope,
                        ttl_seconds=timeout_seconds,
                        reply_to=self._address,
                        correlation_id=correlation_id,
                    )
                    if not routed:
                        raise NoListener(f"No queue receives messages for {key}.")
                    return await reply
        except TimeoutError:
            raise RequestTimeout(f"No reply to {key} came within {timeout_seconds:g} s.") from None

    async def resolve(self, delivery: Delivery) -> None:
        """Resolve the request that a reply belongs to; drop a late reply."""
        if reply := self._pending_reply(delivery.correlation_id):
            reply.set_result(delivery.envelope)
        else:
            log.info("reply_too_late", message_id=delivery.envelope.id)

    async def fail(self, received: Received, problem: InvalidMessage) -> None:
        """Fail the request that an invalid reply belongs to."""
        if reply := self._pending_reply(received.correlation_id):
            reply.set_exception(problem)

    def close(self) -> None:
        """Fail every pending request with BusClosed."""
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(BusClosed("The bus was closed before the reply came."))

    def _pending_reply(self, correlation_id: str | None) -> asyncio.Future[Envelope] | None:
        reply = self._waiting.get(correlation_id or "")
        return None if reply is None or reply.done() else reply

    @contextmanager
    def _awaiting_reply(self, correlation_id: str) -> Iterator[asyncio.Future[Envelope]]:
        reply: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        try:
            yield reply
        finally:
            del self._waiting[correlation_id]
            if reply.done() and not reply.cancelled():
                reply.exception()  # mark as retrieved, also when the requester was cancelled
            reply.cancel()
