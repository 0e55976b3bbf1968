"""The bus on RabbitMQ."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Self

import aiormq
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import DeliveryError

from artel.bus.bus import (
    DEFAULT_GRACE_SECONDS,
    DEFAULT_TTL_SECONDS,
    BusClosed,
    DeadLetter,
    Delivery,
    Handler,
    Hint,
    HintCallback,
    NameTaken,
    QueueFull,
    QueueSpec,
)
from artel.bus.declarations import declare_exchanges, declare_reply_queue
from artel.bus.hints import HintDispatcher
from artel.bus.link import Feed, Link, close_channel, retry_until_deadline, translate_connection_errors
from artel.bus.rabbit_dead_letters import RabbitDeadLetters
from artel.bus.rabbit_hints import RabbitHints
from artel.bus.rabbit_subscription import RabbitSubscription, received, settle
from artel.bus.receiver import Received, Receiver, invalid_argument
from artel.bus.requests import Requests
from artel.bus.topology import MAIN_EXCHANGE, check_key, check_pattern, reply_queue
from artel.contract.envelope import Envelope, InvalidMessage
from artel.ids import uuid7

DEADLINE_SECONDS = 10.0
REPLIES_AT_ONCE = 100
SHORTEST_TTL_SECONDS = 0.001
LONGEST_TTL_SECONDS = 30 * 24 * 3600.0  # the broker refuses much longer ones


class Publisher:
    """One channel with confirms, reopened when it is lost; messages are confirmed concurrently."""

    def __init__(self, link: Link, deadline_seconds: float) -> None:
        self._link = link
        self._deadline_seconds = deadline_seconds
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()

    async def send(self, exchange: str, key: str, message: Message) -> bool:
        """Send until the broker confirms, again after a lost connection; return whether a queue received it."""
        return await retry_until_deadline(lambda: self._send_once(exchange, key, message), self._deadline_seconds)

    async def open(self) -> None:
        """Open the channel and declare the exchanges."""
        await retry_until_deadline(self._open_channel, self._deadline_seconds)

    async def close(self) -> None:
        """Close the channel."""
        if self._channel:
            await close_channel(self._channel)

    async def _send_once(self, exchange: str, key: str, message: Message) -> bool:
        channel = await self._open_channel()
        async with translate_connection_errors():
            target = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
            try:
                confirmed = await target.publish(message, key, mandatory=True)
            except DeliveryError:
                raise QueueFull(f"A queue for {key} is full. Try again in a moment.", retry_after=1) from None
        return isinstance(confirmed, aiormq.spec.Basic.Ack)  # else it is the returned, unroutable message

    async def _open_channel(self) -> AbstractChannel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                if self._channel:
                    await close_channel(self._channel)
                channel = await self._link.channel(confirms=True)
                try:
                    async with translate_connection_errors():
                        await declare_exchanges(channel)
                except BaseException:
                    await close_channel(channel)
                    raise
                self._channel = channel
            return self._channel


class RabbitBus:
    """A bus on two connections, one to consume and one to publish, so that slow consumers never block publishing."""

    def __init__(self, url: str, *, name: str, deadline_seconds: float) -> None:
        self._name = name
        self._deadline_seconds = deadline_seconds
        self._closed = False
        self._reading = Link(url, f"{name}-reads")
        self._writing = Link(url, f"{name}-writes")
        self._publisher = Publisher(self._writing, deadline_seconds)
        self._dispatcher = HintDispatcher()
        self._hints = RabbitHints(self._reading, self._writing, self._dispatcher)
        self._letters = RabbitDeadLetters(self._reading)
        self._address = reply_queue(uuid7())
        self._requests = Requests(self, self._address)
        self._reply_receiver = Receiver(
            self._address, self._requests.resolve, at_once=REPLIES_AT_ONCE, refuse=self._requests.fail
        )
        declare = partial(declare_reply_queue, name=self._address)
        self._replies = Feed(self._reading, self._address, declare, self._take_reply, prefetch=REPLIES_AT_ONCE)
        self._subscriptions: set[RabbitSubscription] = set()
        self._names: set[str] = set()

    @classmethod
    async def connect(cls, url: str, *, name: str = "artel", deadline_seconds: float = DEADLINE_SECONDS) -> Self:
        """Connect to the broker; the deadline also applies to every later operation."""
        bus = cls(url, name=name, deadline_seconds=deadline_seconds)
        try:
            await asyncio.gather(bus._reading.open(deadline_seconds), bus._writing.open(deadline_seconds))
            await bus._publisher.open()
            for consumer in (bus._replies, bus._letters, bus._hints):
                await retry_until_deadline(consumer.open, deadline_seconds)
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
        """Send to every queue bound to the key; return, after the broker's confirmation, whether there was any."""
        self._check_open()
        message = _message(envelope, ttl_seconds, correlation_id)
        message.delivery_mode = DeliveryMode.PERSISTENT
        message.reply_to = reply_to
        return await self._publisher.send(MAIN_EXCHANGE, check_key(key), message)

    async def subscribe(self, spec: QueueSpec, handler: Handler, *, at_once: int = 1) -> RabbitSubscription:
        """Run the handler for every message of the queue, at most `at_once` concurrently."""
        self._check_open()
        for pattern in spec.keys:
            check_pattern(pattern)
        if spec.name in self._names:  # the broker allows one connection to declare its exclusive queue twice
            raise NameTaken(f"The name {spec.name} is taken.")
        receiver = Receiver(spec.name, handler, at_once=at_once, refuse=self._refuse)
        subscription = RabbitSubscription(self._reading, spec, receiver, forget=self._forget)
        self._subscriptions.add(subscription)
        if spec.exclusive:
            self._names.add(spec.name)
        try:
            await retry_until_deadline(subscription.open, self._deadline_seconds)
        except BaseException:
            self._forget(subscription)
            raise
        return subscription

    async def reply(self, delivery: Delivery, envelope: Envelope) -> bool:
        """Reply to the sender of a delivery; return whether its reply queue exists."""
        self._check_open()
        return await self._send_reply(delivery.reply_to, delivery.correlation_id, envelope)

    async def request(self, key: str, envelope: Envelope, *, timeout_seconds: float) -> Envelope:
        """Publish a request and return the reply."""
        return await self._requests.send(key, envelope, timeout_seconds)

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Return the oldest dead letters without removing them; concurrent calls may miss some."""
        self._check_open()
        return await retry_until_deadline(lambda: self._letters.oldest(limit), self._deadline_seconds)

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to this process, and to the others if the broker can be reached."""
        if not self._closed:
            self._hints.send(hint)

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        """Call back for every hint; return a function that removes the callback."""
        return self._dispatcher.on_hint(callback)

    async def close(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Cancel every subscription and request, and close the connections."""
        await asyncio.gather(*(each.cancel(grace_seconds=grace_seconds) for each in list(self._subscriptions)))
        self._closed = True  # only now: handlers that are finishing may still publish
        self._requests.close()
        await self._replies.stop()
        await self._replies.delete_queue(self._address)
        await asyncio.gather(self._replies.close(), self._letters.close(), self._hints.close(), self._publisher.close())
        self._dispatcher.clear()
        await asyncio.gather(self._reading.close(), self._writing.close())

    async def _take_reply(self, message: AbstractIncomingMessage) -> None:
        await settle(message, await self._reply_receiver.handle(received(message)))

    async def _send_reply(self, reply_to: str | None, correlation_id: str | None, envelope: Envelope) -> bool:
        if reply_to is None:
            return False
        return await self._publisher.send("", reply_to, _message(envelope, DEFAULT_TTL_SECONDS, correlation_id))

    async def _refuse(self, received: Received, problem: InvalidMessage) -> None:
        await self._send_reply(received.reply_to, received.correlation_id, invalid_argument(self._name, problem))

    def _forget(self, subscription: RabbitSubscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._names.discard(subscription.name)

    def _check_open(self) -> None:
        if self._closed:
            raise BusClosed("The bus is closed.")


def _message(envelope: Envelope, ttl_seconds: float, correlation_id: str | None) -> Message:
    # No message_id: the library generates one per publish and uses it to match returned, unroutable messages.
    return Message(
        envelope.to_bytes(),
        type=envelope.type,
        content_type="application/cloudevents+json",
        expiration=min(max(ttl_seconds, SHORTEST_TTL_SECONDS), LONGEST_TTL_SECONDS),
        correlation_id=correlation_id,
    )
