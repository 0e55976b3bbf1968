"""A handler that consumes a queue of RabbitMQ."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import ChannelPreconditionFailed
from aiormq.exceptions import ChannelLockedResource

from artel.bus.bus import DEFAULT_GRACE_SECONDS, NameTaken, QueueMismatch, QueueSpec
from artel.bus.declarations import declare_work_queue
from artel.bus.link import STEP_SECONDS, ConnectionLost, Feed, Link, translate_connection_errors
from artel.bus.receiver import Outcome, Received, Receiver
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


async def settle(message: AbstractIncomingMessage, outcome: Outcome) -> None:
    """Acknowledge, requeue or reject a message; if that fails, the broker redelivers it."""
    try:
        async with translate_connection_errors(), asyncio.timeout(STEP_SECONDS):
            match outcome:
                case Outcome.DONE:
                    await message.ack()
                case Outcome.AGAIN:
                    await message.nack(requeue=True)
                case Outcome.DEAD:
                    await message.reject(requeue=False)
    except (ConnectionLost, TimeoutError) as problem:
        log.warning("message_not_settled", key=message.routing_key, outcome=outcome.name, problem=repr(problem))


class RabbitSubscription:
    """Consumes one queue; an exclusive name is held by a lock queue that the broker deletes with the connection."""

    def __init__(
        self, link: Link, spec: QueueSpec, receiver: Receiver, forget: Callable[["RabbitSubscription"], None]
    ) -> None:
        self._spec = spec
        self._receiver = receiver
        self._forget = forget
        self._feed = Feed(link, spec.name, self._declare, self._receive, prefetch=receiver.at_once)
        self._has_lock = spec.durable and spec.exclusive  # quorum queues have no exclusive consumers

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._spec.name

    async def open(self) -> None:
        """Start to consume; raise NameTaken or QueueMismatch."""
        await self._feed.open()

    async def cancel(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Stop consuming, wait for running handlers, and requeue what is unfinished after the grace period."""
        try:
            await self._feed.stop()
            await self._receiver.finish(grace_seconds)
            if self._has_lock:
                await self._feed.delete_queue(lock_queue(self._spec.name))
            elif not self._spec.durable:
                await self._feed.delete_queue(self._spec.name)
        finally:
            await self._feed.close()
            self._forget(self)

    async def _declare(self, channel: AbstractChannel) -> AbstractQueue:
        try:
            queue = await declare_work_queue(channel, self._spec)
            if self._has_lock:  # last, so that nothing can fail while the lock is held
                await channel.declare_queue(lock_queue(self._spec.name), exclusive=True)
        except ChannelLockedResource as refused:
            raise NameTaken(f"The name {self._spec.name} is taken.") from refused
        except ChannelPreconditionFailed as refused:
            raise QueueMismatch(f"The queue {self._spec.name} exists with other properties: {refused}") from refused
        return queue

    async def _receive(self, message: AbstractIncomingMessage) -> None:
        self._receiver.start(self._handle(message))

    async def _handle(self, message: AbstractIncomingMessage) -> None:
        outcome = await self._receiver.handle(received(message))
        if not self._spec.durable:
            outcome = await self._retry(message, outcome)
        await settle(message, outcome)

    async def _retry(self, message: AbstractIncomingMessage, outcome: Outcome) -> Outcome:
        """Retry in this process, since classic queues don't count deliveries; a last failure is a dead letter."""
        attempt = 1
        while outcome is Outcome.AGAIN and attempt < self._spec.max_deliveries:
            attempt += 1
            outcome = await self._receiver.handle(replace(received(message), attempt=attempt))
        return Outcome.DEAD if outcome is Outcome.AGAIN else outcome
