"""A handler that consumes a queue of RabbitMQ."""

import asyncio
from dataclasses import replace

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import ChannelPreconditionFailed
from aiormq.exceptions import ChannelLockedResource

from artel.bus.bus import DEFAULT_GRACE_SECONDS, NameTaken, QueueMismatch, QueueSpec, Subscription
from artel.bus.declarations import declare_work_queue
from artel.bus.link import STEP_SECONDS, BrokerConnectionLost, Feed, Link, translate_connection_errors
from artel.bus.receiver import Received, Receiver, Settlement
from artel.bus.topology import lock_queue
from artel.logs import get_logger

log = get_logger(__name__)


def received(message: AbstractIncomingMessage) -> Received:
    """Convert a RabbitMQ message to the common form."""
    returned = message.headers.get("x-delivery-count", 0)
    return Received(
        message.body,
        message.routing_key or "",
        message.reply_to,
        message.correlation_id,
        attempt=1 + (returned if isinstance(returned, int) else 0),
    )


async def settle(message: AbstractIncomingMessage, settlement: Settlement) -> None:
    """Acknowledge, requeue or reject a message; if that fails, the broker redelivers it."""
    try:
        async with translate_connection_errors(), asyncio.timeout(STEP_SECONDS):
            match settlement:
                case Settlement.DONE:
                    await message.ack()
                case Settlement.AGAIN:
                    await message.nack(requeue=True)
                case Settlement.DEAD:
                    await message.reject(requeue=False)
    except (BrokerConnectionLost, TimeoutError) as problem:
        log.warning("message_not_settled", key=message.routing_key, outcome=settlement.name, problem=repr(problem))


class RabbitSubscription:
    """Consumes one queue; an exclusive name is held by a lock queue that the broker deletes with the connection."""

    def __init__(self, link: Link, spec: QueueSpec, receiver: Receiver, registry: set[Subscription]) -> None:
        self.spec = spec
        self.feed = Feed(link, spec.name, self._declare, self._receive, prefetch=receiver.at_once)
        self._receiver = receiver
        self._registry = registry
        self._has_lock = spec.durable and spec.exclusive  # quorum queues have no exclusive consumers

    async def cancel(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        try:
            await self.feed.stop()
            await self._receiver.finish(grace_seconds)
            if self._has_lock:
                await self.feed.delete_queue(lock_queue(self.spec.name))
            elif not self.spec.durable:
                await self.feed.delete_queue(self.spec.name)
        finally:
            await self.feed.close()
            self._registry.discard(self)

    async def _declare(self, channel: AbstractChannel) -> AbstractQueue:
        try:
            queue = await declare_work_queue(channel, self.spec)
            if self._has_lock:  # last, so that nothing can fail while the lock is held
                await channel.declare_queue(lock_queue(self.spec.name), exclusive=True)
        except ChannelLockedResource as refused:
            raise NameTaken(f"The name {self.spec.name} is taken.") from refused
        except ChannelPreconditionFailed as refused:
            raise QueueMismatch(f"The queue {self.spec.name} exists with other properties: {refused}") from refused
        return queue

    async def _receive(self, message: AbstractIncomingMessage) -> None:
        self._receiver.start(self._handle(message))

    async def _handle(self, message: AbstractIncomingMessage) -> None:
        settlement = await self._receiver.handle(received(message))
        if not self.spec.durable:  # retry in this process, since classic queues don't count deliveries
            attempt = 1
            while settlement is Settlement.AGAIN and attempt < self.spec.max_deliveries:
                attempt += 1
                settlement = await self._receiver.handle(replace(received(message), attempt=attempt))
            if settlement is Settlement.AGAIN:
                settlement = Settlement.DEAD
        await settle(message, settlement)
