"""The bus inside one process, with the semantics of RabbitMQ."""

import asyncio
from collections.abc import Callable

from artel.bus.bus import (
    DEFAULT_GRACE_SECONDS,
    DEFAULT_TTL_SECONDS,
    BusClosed,
    DeadLetter,
    Delivery,
    Handler,
    Hint,
    HintCallback,
    QueueSpec,
)
from artel.bus.hints import HintDispatcher
from artel.bus.local_broker import LocalBroker, QueuedMessage
from artel.bus.receiver import Outcome, Received, Receiver, Refuse, invalid_argument
from artel.bus.requests import Requests
from artel.bus.topology import check_key, check_pattern, reply_queue
from artel.contract.envelope import Envelope, InvalidMessage
from artel.ids import uuid7

REPLIES_AT_ONCE = 100


class LocalSubscription:
    """A handler that consumes a queue of the in-process broker."""

    def __init__(
        self, broker: LocalBroker, spec: QueueSpec, receiver: Receiver, forget: Callable[["LocalSubscription"], None]
    ) -> None:
        self._broker = broker
        self._receiver = receiver
        self._forget = forget
        self._stopped = False
        self._queue = broker.attach(spec, self)

    @property
    def is_free(self) -> bool:
        """Whether another message can be handled now."""
        return not self._stopped and self._receiver.is_free

    def take(self, message: QueuedMessage) -> None:
        """Start a task that handles a message, and settle the message when the task ends."""
        task = self._receiver.start(self._receiver.handle(message.received))

        def settle(done: asyncio.Task[Outcome]) -> None:
            unfinished = done.cancelled() or done.exception() is not None
            self._queue.settle(message, Outcome.AGAIN if unfinished else done.result())

        task.add_done_callback(settle)

    async def cancel(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Stop consuming, wait for running handlers, and requeue what is unfinished after the grace period."""
        self._stopped = True
        try:
            await self._receiver.finish(grace_seconds)
        finally:
            self._broker.detach(self._queue, self)
            self._forget(self)


class LocalBus:
    """A bus with its own in-process broker, or one of several that share one."""

    def __init__(self, broker: LocalBroker | None = None, *, name: str = "artel") -> None:
        self._broker = broker or LocalBroker()
        self._owns_broker = broker is None
        self._name = name
        self._closed = False
        self._hints = HintDispatcher()
        self._broker.join(self._hints)
        self._subscriptions: set[LocalSubscription] = set()
        address = reply_queue(uuid7())
        self._requests = Requests(self, address)
        replies = QueueSpec(address, keys=(), exclusive=True, durable=False)
        self._replies = self._subscription(replies, self._requests.resolve, REPLIES_AT_ONCE, self._requests.fail)

    @property
    def connected(self) -> bool:
        """Whether the bus is open."""
        return not self._closed

    async def publish(
        self,
        key: str,
        envelope: Envelope,
        *,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        reply_to: str | None = None,
        correlation_id: str | None = None,
    ) -> bool:
        """Put a message into every queue bound to its key; return whether there was any."""
        received = Received(envelope.to_bytes(), check_key(key), reply_to, correlation_id, attempt=1)
        self._check_open()
        routed = self._broker.publish(received, ttl_seconds)
        await asyncio.sleep(0)  # backpressure: lets handlers run when a caller publishes in a loop
        return routed

    async def subscribe(self, spec: QueueSpec, handler: Handler, *, at_once: int = 1) -> LocalSubscription:
        """Run the handler for every message of the queue, at most `at_once` concurrently."""
        self._check_open()
        for pattern in spec.keys:
            check_pattern(pattern)
        subscription = self._subscription(spec, handler, at_once, self._refuse)
        self._subscriptions.add(subscription)
        return subscription

    async def reply(self, delivery: Delivery, envelope: Envelope) -> bool:
        """Reply to the sender of a delivery; return whether its reply queue exists."""
        return self._send_reply(delivery.reply_to, delivery.correlation_id, envelope)

    async def request(self, key: str, envelope: Envelope, *, timeout_seconds: float) -> Envelope:
        """Publish a request and return the reply."""
        return await self._requests.send(key, envelope, timeout_seconds)

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Return the oldest dead letters without removing them."""
        return self._broker.dead_letters(limit)

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to every bus that shares the broker."""
        if not self._closed:
            self._broker.send_hint(hint)

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        """Call back for every hint; return a function that removes the callback."""
        return self._hints.on_hint(callback)

    async def close(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Cancel every subscription and request."""
        await asyncio.gather(*(each.cancel(grace_seconds=grace_seconds) for each in list(self._subscriptions)))
        self._closed = True  # only now: handlers that are finishing may still publish
        self._requests.close()
        await self._replies.cancel(grace_seconds=0)
        self._broker.leave(self._hints)
        self._hints.clear()
        if self._owns_broker:
            self._broker.close()

    def _subscription(self, spec: QueueSpec, handler: Handler, at_once: int, refuse: Refuse) -> LocalSubscription:
        receiver = Receiver(spec.name, handler, at_once=at_once, refuse=refuse)
        return LocalSubscription(self._broker, spec, receiver, forget=self._subscriptions.discard)

    def _send_reply(self, reply_to: str | None, correlation_id: str | None, envelope: Envelope) -> bool:
        self._check_open()
        if reply_to is None:
            return False
        received = Received(envelope.to_bytes(), reply_to, None, correlation_id, attempt=1)
        return self._broker.send_to(reply_to, received, DEFAULT_TTL_SECONDS)

    async def _refuse(self, received: Received, problem: InvalidMessage) -> None:
        self._send_reply(received.reply_to, received.correlation_id, invalid_argument(self._name, problem))

    def _check_open(self) -> None:
        if self._closed:
            raise BusClosed("The bus is closed.")
