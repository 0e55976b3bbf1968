"""The bus on RabbitMQ."""

import asyncio
from functools import partial
from typing import Self

import aiormq
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import DeliveryError

from artel.bus.base import REPLIES_AT_ONCE, BaseBus
from artel.bus.bus import (
    DEFAULT_GRACE_SECONDS,
    DEFAULT_TTL_SECONDS,
    DeadLetter,
    Handler,
    Hint,
    NameTaken,
    QueueFull,
    QueueSpec,
    Reason,
)
from artel.bus.declarations import declare_dead_letter_log, declare_exchanges, declare_reply_queue
from artel.bus.link import Feed, Link, ignore_loss, retry_until_deadline, translate_connection_errors
from artel.bus.rabbit_hints import RabbitHints
from artel.bus.rabbit_subscription import RabbitSubscription, received, settle
from artel.bus.topology import DEAD_LETTER_QUEUE, MAIN_EXCHANGE, check_key
from artel.contract.envelope import Envelope, InvalidMessage
from artel.logs import get_logger

DEADLINE_SECONDS = 10.0
SHORTEST_TTL_SECONDS = 0.001
LONGEST_TTL_SECONDS = 30 * 24 * 3600.0  # the broker refuses much longer ones

log = get_logger(__name__)


class Publisher:
    """One channel with confirms, reopened when it is lost; messages are confirmed concurrently."""

    def __init__(self, link: Link, deadline_seconds: float) -> None:
        self._link = link
        self._deadline_seconds = deadline_seconds
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()

    async def send(self, exchange: str, key: str, message: Message) -> bool:
        """Send until the broker confirms, again after a lost connection; return whether a queue received it."""

        async def send_once() -> bool:
            channel = await self.open()
            async with translate_connection_errors():
                target = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
                try:
                    confirmed = await target.publish(message, key, mandatory=True)
                except DeliveryError:
                    raise QueueFull(f"A queue for {key} is full. Try again in a moment.", retry_after=1) from None
            return isinstance(confirmed, aiormq.spec.Basic.Ack)  # else it is the returned, unroutable message

        return await retry_until_deadline(send_once, self._deadline_seconds)

    async def open(self) -> AbstractChannel:
        """Return the channel; open it and declare the exchanges if it is missing or lost."""
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                await self.close()
                channel = await self._link.channel(confirms=True)
                try:
                    async with translate_connection_errors():
                        await declare_exchanges(channel)
                except BaseException:
                    await ignore_loss(channel.close())
                    raise
                self._channel = channel
            return self._channel

    async def close(self) -> None:
        """Close the channel."""
        if self._channel:
            await ignore_loss(self._channel.close())


class RabbitBus(BaseBus):
    """A bus on two connections, one to consume and one to publish, so that slow consumers never block publishing."""

    def __init__(self, url: str, *, name: str, deadline_seconds: float) -> None:
        super().__init__(name)
        self._deadline_seconds = deadline_seconds
        self._reading = Link(url, f"{name}-reads")
        self._writing = Link(url, f"{name}-writes")
        self._publisher = Publisher(self._writing, deadline_seconds)
        self._remote_hints = RabbitHints(self._reading, self._writing, self._hints)
        self._letters = Feed(self._reading, "dead-letters", declare_dead_letter_log, _log_dead_letter, no_ack=True)
        declare = partial(declare_reply_queue, name=self._address)
        self._replies = Feed(self._reading, self._address, declare, self._take_reply, prefetch=REPLIES_AT_ONCE)

    @classmethod
    async def connect(cls, url: str, *, name: str = "artel", deadline_seconds: float = DEADLINE_SECONDS) -> Self:
        """Connect to the broker; the deadline also applies to every later operation."""
        bus = cls(url, name=name, deadline_seconds=deadline_seconds)
        try:
            await asyncio.gather(bus._reading.open(deadline_seconds), bus._writing.open(deadline_seconds))
            await retry_until_deadline(bus._publisher.open, deadline_seconds)
            for feed in (bus._replies, bus._letters, bus._remote_hints.feed):
                await retry_until_deadline(feed.open, deadline_seconds)
        except BaseException:
            await bus.close(grace_seconds=0)
            raise
        return bus

    @property
    def connected(self) -> bool:
        """Whether both connections are up."""
        return self._reading.connected and self._writing.connected

    async def publish(
        self,
        key: str,
        envelope: Envelope,
        *,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        reply_to: str | None = None,
        correlation_id: str | None = None,
    ) -> bool:
        self._check_open()
        message = _message(envelope, ttl_seconds, correlation_id)
        message.delivery_mode = DeliveryMode.PERSISTENT
        message.reply_to = reply_to
        return await self._publisher.send(MAIN_EXCHANGE, check_key(key), message)

    async def subscribe(self, spec: QueueSpec, handler: Handler, *, at_once: int = 1) -> RabbitSubscription:
        receiver = self._receiver(spec, handler, at_once)
        # The broker allows one connection to declare its exclusive queue twice.
        if any(other.spec.exclusive and other.spec.name == spec.name for other in self._subscriptions):
            raise NameTaken(f"The name {spec.name} is taken.")
        subscription = RabbitSubscription(self._reading, spec, receiver, self._subscriptions)
        self._subscriptions.add(subscription)
        try:
            await retry_until_deadline(subscription.feed.open, self._deadline_seconds)
        except BaseException:
            self._subscriptions.discard(subscription)
            raise
        return subscription

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Return the oldest dead letters without removing them; concurrent calls may miss some."""
        self._check_open()

        async def read() -> list[DeadLetter]:
            channel = await self._reading.channel()
            letters: list[DeadLetter] = []
            try:
                async with translate_connection_errors():
                    queue = await channel.get_queue(DEAD_LETTER_QUEUE, ensure=False)
                    while len(letters) < limit and (message := await queue.get(fail=False)):
                        letters.append(_dead_letter(message))
            finally:
                await ignore_loss(channel.close())  # requeues the unacknowledged messages in order
            return letters

        return await retry_until_deadline(read, self._deadline_seconds)

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to this process, and to the others if the broker can be reached."""
        if not self._closed:
            self._remote_hints.send(hint)

    async def close(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        await self._stop(grace_seconds)
        await self._replies.stop()
        await self._replies.delete_queue(self._address)
        consumers = self._replies, self._letters, self._remote_hints
        await asyncio.gather(*(consumer.close() for consumer in consumers), self._publisher.close())
        self._hints.clear()
        await asyncio.gather(self._reading.close(), self._writing.close())

    async def _take_reply(self, message: AbstractIncomingMessage) -> None:
        await settle(message, await self._reply_receiver.handle(received(message)))

    async def _send_to_queue(self, queue: str, envelope: Envelope, correlation_id: str | None) -> bool:
        return await self._publisher.send("", queue, _message(envelope, DEFAULT_TTL_SECONDS, correlation_id))


def _message(envelope: Envelope, ttl_seconds: float, correlation_id: str | None) -> Message:
    # No message_id: the library generates one per publish and uses it to match returned, unroutable messages.
    return Message(
        envelope.to_bytes(),
        type=envelope.type,
        content_type="application/cloudevents+json",
        expiration=min(max(ttl_seconds, SHORTEST_TTL_SECONDS), LONGEST_TTL_SECONDS),
        correlation_id=correlation_id,
    )


def _dead_letter(message: AbstractIncomingMessage) -> DeadLetter:
    """Return a dead letter from a message and its headers."""
    match message.headers.get("x-first-death-reason"):
        case "expired":
            reason = Reason.EXPIRED
        case "rejected":  # by us: invalid, or failed at the last attempt on a queue that isn't durable
            try:
                Envelope.from_bytes(message.body)
                reason = Reason.FAILED
            except InvalidMessage:
                reason = Reason.INVALID
        case _:
            reason = Reason.FAILED
    queue = str(message.headers.get("x-first-death-queue", ""))
    return DeadLetter(message.body, message.routing_key or "", queue, reason)


async def _log_dead_letter(message: AbstractIncomingMessage) -> None:
    letter = _dead_letter(message)
    log.warning("message_dead_lettered", queue=letter.queue, key=letter.key, reason=letter.reason.value)
