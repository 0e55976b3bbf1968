"""The bus on RabbitMQ."""

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import Self

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import ChannelPreconditionFailed
from aiormq.exceptions import ChannelLockedResource

from artel.bus.base import REPLIES_AT_ONCE, BaseBus
from artel.bus.bus import (
    DEFAULT_GRACE_SECONDS,
    DEFAULT_TTL_SECONDS,
    DeadLetter,
    Handler,
    Hint,
    InvalidCallback,
    LockCallback,
    NameTaken,
    QueueMismatch,
    QueueSpec,
    Reason,
    Subscription,
)
from artel.bus.declarations import (
    declare_dead_letter_log,
    declare_hint_queue,
    declare_reply_queue,
    declare_work_queue,
)
from artel.bus.hints import HintDispatcher, PendingHints
from artel.bus.link import (
    STEP_SECONDS,
    BrokerConnectionLost,
    Feed,
    Link,
    Publisher,
    ignore_loss,
    retry_until_deadline,
    translate_connection_errors,
)
from artel.bus.rabbit_lock import RabbitLock
from artel.bus.receiver import Received, Receiver, Settlement, log_dead_letter, problem_of
from artel.bus.topology import DEAD_LETTER_QUEUE, HINT_EXCHANGE, MAIN_EXCHANGE, check_key, lock_queue
from artel.contract.envelope import Envelope
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger

DEADLINE_SECONDS = 10.0
SHORTEST_TTL_SECONDS = 0.001
LONGEST_TTL_SECONDS = 30 * 24 * 3600.0  # the broker refuses much longer ones
SEND_HINTS_SECONDS = 2.0
HINT_TTL_SECONDS = 10.0

log = get_logger(__name__)


def _received(message: AbstractIncomingMessage) -> Received:
    """Convert a RabbitMQ message to the common form."""
    returned = message.headers.get("x-delivery-count", 0)
    return Received(
        message.body,
        message.routing_key or "",
        message.reply_to,
        message.correlation_id,
        attempt=1 + (returned if isinstance(returned, int) else 0),
        ttl_seconds=_ttl_of(message),
    )


def _ttl_of(message: AbstractIncomingMessage) -> float | None:
    """Return after how many seconds in a queue the broker drops a message, None if it never does."""
    expiration = message.expiration
    return float(expiration) if isinstance(expiration, int | float) else None


async def _settle(message: AbstractIncomingMessage, settlement: Settlement) -> None:
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
        self._link = link
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
            queue = await declare_work_queue(channel, await self._usable_spec())
            if self._has_lock:  # last, so that nothing can fail while the lock is held
                await channel.declare_queue(lock_queue(self.spec.name), exclusive=True)
        except ChannelLockedResource as refused:
            raise NameTaken(f"The name {self.spec.name} is taken.") from refused
        except ChannelPreconditionFailed as refused:
            raise QueueMismatch(f"The queue {self.spec.name} exists with other properties: {refused}") from refused
        return queue

    async def _usable_spec(self) -> QueueSpec:
        """Return the spec, without expiry if the queue exists without: an earlier version has declared it."""
        if self.spec.expires_seconds is None:
            return self.spec
        channel = await self._link.channel()  # a refused declaration closes its channel
        try:
            await declare_work_queue(channel, self.spec)
        except ChannelPreconditionFailed:
            log.info("queue_never_expires", queue=self.spec.name)
            return replace(self.spec, expires_seconds=None)
        finally:
            await ignore_loss(channel.close())
        return self.spec

    async def _receive(self, message: AbstractIncomingMessage) -> None:
        self._receiver.start(self._handle(message))

    async def _handle(self, message: AbstractIncomingMessage) -> None:
        settlement = await self._receiver.handle(_received(message))
        if not self.spec.durable:  # retry in this process, since classic queues don't count deliveries
            attempt = 1
            while settlement is Settlement.AGAIN and attempt < self.spec.max_deliveries:
                attempt += 1
                settlement = await self._receiver.handle(replace(_received(message), attempt=attempt))
            if settlement is Settlement.AGAIN:
                settlement = Settlement.DEAD
        await _settle(message, settlement)


class RabbitHints:
    """Sends the hints of this process to the others, unconfirmed, and dispatches theirs here."""

    def __init__(self, reading: Link, writing: Link, dispatcher: HintDispatcher) -> None:
        self._link = writing
        self._dispatcher = dispatcher
        self._sender = uuid7()
        self.feed = Feed(reading, "hints", declare_hint_queue, self._receive, no_ack=True)
        self._pending = PendingHints()
        self._sending: asyncio.Task[None] | None = None
        self._channel: AbstractChannel | None = None

    def send(self, hint: Hint) -> None:
        """Dispatch a hint in this process, and send it to the others if the broker can be reached."""
        self._dispatcher.dispatch(hint)
        if self._link.connected:
            self._pending.add(hint)
            if self._sending is None or self._sending.done():
                self._sending = asyncio.create_task(self._send_pending(), name="bus-hints-send")

    async def close(self) -> None:
        """Stop sending and receiving."""
        if self._sending:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        if self._channel:
            await ignore_loss(self._channel.close())
        await self.feed.close()

    async def _send_pending(self) -> None:
        while hints := self._pending.take():
            try:
                async with asyncio.timeout(SEND_HINTS_SECONDS), translate_connection_errors():
                    for hint in hints:
                        if self._channel is None or self._channel.is_closed:
                            self._channel = await self._link.channel()
                        body = json.dumps({"kind": hint.kind, "key": hint.key}).encode()
                        message = Message(body, app_id=self._sender, expiration=HINT_TTL_SECONDS)
                        exchange = await self._channel.get_exchange(HINT_EXCHANGE, ensure=False)
                        await exchange.publish(message, "", mandatory=False)
            except (BrokerConnectionLost, TimeoutError, ArtelError) as problem:
                log.info("hints_dropped", count=len(hints), problem=repr(problem))

    async def _receive(self, message: AbstractIncomingMessage) -> None:
        if message.app_id == self._sender:
            return  # already dispatched by send()
        try:
            fields = json.loads(message.body)
            self._dispatcher.dispatch(Hint(kind=str(fields["kind"]), key=str(fields["key"])))
        except (ValueError, KeyError, TypeError) as problem:
            log.info("hint_not_understood", problem=str(problem))


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
        message = _persistent(envelope, ttl_seconds, reply_to, correlation_id)
        return await self._publisher.send(MAIN_EXCHANGE, check_key(key), message)

    async def subscribe(
        self, spec: QueueSpec, handler: Handler, *, at_once: int = 1, on_invalid: InvalidCallback | None = None
    ) -> RabbitSubscription:
        receiver = self._receiver(spec, handler, at_once, on_invalid)
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

    def _new_lock(self, name: str, on_change: LockCallback | None) -> RabbitLock:
        return RabbitLock(self._reading, name, on_change, deadline_seconds=self._deadline_seconds, registry=self._locks)

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Return the oldest dead letters without removing them; concurrent calls may miss some."""
        self._check_open()

        return await retry_until_deadline(partial(_read_letters, self._reading, limit), self._deadline_seconds)

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
        await _settle(message, await self._reply_receiver.handle(_received(message)))

    async def _send_to_queue(self, queue: str, envelope: Envelope, correlation_id: str | None) -> bool:
        return await self._publisher.send("", queue, _message(envelope, DEFAULT_TTL_SECONDS, correlation_id))


async def read_dead_letters(url: str, limit: int, deadline_seconds: float = DEADLINE_SECONDS) -> list[DeadLetter]:
    """Return the oldest dead letters of a broker without taking part in its bus; raise BusUnavailable."""
    link = Link(url, "dead-letters")
    publisher = Publisher(link, deadline_seconds)
    try:
        await link.open(deadline_seconds)
        await retry_until_deadline(publisher.open, deadline_seconds)  # declares the queue on a new broker
        return await retry_until_deadline(partial(_read_letters, link, limit), deadline_seconds)
    finally:
        await publisher.close()
        await link.close()


async def _read_letters(link: Link, limit: int) -> list[DeadLetter]:
    channel = await link.channel()
    letters: list[DeadLetter] = []
    try:
        async with translate_connection_errors():
            queue = await channel.get_queue(DEAD_LETTER_QUEUE, ensure=False)
            while len(letters) < limit and (message := await queue.get(fail=False)):
                letters.append(_dead_letter(message))
    finally:
        await ignore_loss(channel.close())  # requeues the unacknowledged messages in order
    return letters


class RabbitSender:
    """The part of a bus that publishes, on one connection."""

    def __init__(self, link: Link, deadline_seconds: float) -> None:
        self._link = link
        self._publisher = Publisher(link, deadline_seconds)

    @classmethod
    async def connect(cls, url: str, *, name: str = "artel", deadline_seconds: float = DEADLINE_SECONDS) -> Self:
        """Connect to the broker; raise BusUnavailable after the deadline, which also applies to every message."""
        sender = cls(Link(url, name), deadline_seconds)
        try:
            await sender._link.open(deadline_seconds)
        except BaseException:
            await sender.close()
            raise
        return sender

    async def publish(
        self,
        key: str,
        envelope: Envelope,
        *,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        reply_to: str | None = None,
        correlation_id: str | None = None,
    ) -> bool:
        """Send a message as `RabbitBus.publish` does."""
        message = _persistent(envelope, ttl_seconds, reply_to, correlation_id)
        return await self._publisher.send(MAIN_EXCHANGE, check_key(key), message)

    async def close(self, *, grace_seconds: float = 0) -> None:  # noqa: ARG002 - there is nothing to wait for
        """Close the connection."""
        await self._publisher.close()
        await self._link.close()


def _persistent(envelope: Envelope, ttl_seconds: float, reply_to: str | None, correlation_id: str | None) -> Message:
    """Return a message that survives a restart of the broker."""
    message = _message(envelope, ttl_seconds, correlation_id)
    message.delivery_mode = DeliveryMode.PERSISTENT
    message.reply_to = reply_to
    return message


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
    key, problem = message.routing_key or "", ""
    match message.headers.get("x-first-death-reason"):
        case "expired":
            reason = Reason.EXPIRED
        case "rejected":  # by us: invalid, or failed at the last attempt on a queue that isn't durable
            problem = problem_of(message.body, key)
            reason = Reason.INVALID if problem else Reason.FAILED
        case _:
            reason = Reason.FAILED
    return DeadLetter(message.body, key, str(message.headers.get("x-first-death-queue", "")), reason, problem)


async def _log_dead_letter(message: AbstractIncomingMessage) -> None:
    log_dead_letter(_dead_letter(message))
