"""The bus inside one process, with the semantics of RabbitMQ, on timers and callbacks without tasks of its own."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from artel.bus.base import BaseBus
from artel.bus.bus import (
    DEFAULT_GRACE_SECONDS,
    DEFAULT_TTL_SECONDS,
    DeadLetter,
    Handler,
    Hint,
    InvalidCallback,
    LockCallback,
    LockState,
    NameTaken,
    QueueFull,
    QueueMismatch,
    QueueSpec,
    Reason,
    Subscription,
)
from artel.bus.hints import HintDispatcher
from artel.bus.lock import BusLock
from artel.bus.receiver import Received, Receiver, Settlement, log_dead_letter, problem_of
from artel.bus.topology import check_key, matches
from artel.contract.envelope import Envelope

MAX_DEAD_LETTERS = 10_000


@dataclass(slots=True, eq=False)
class QueuedMessage:
    """A message in a queue and the time at which it expires."""

    received: Received
    deadline: float
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        """Cancel the expiry."""
        if self.timer:
            self.timer.cancel()
            self.timer = None


class LocalQueue:
    """One queue: the next free consumer gets the oldest message."""

    def __init__(self, spec: QueueSpec, dead_letters: deque[DeadLetter]) -> None:
        self.spec = spec
        self.consumers: deque[LocalSubscription] = deque()
        self._waiting: deque[QueuedMessage] = deque()
        self._closed = False
        self._dead_letters = dead_letters
        self._expiry: asyncio.TimerHandle | None = None

    def put(self, message: QueuedMessage) -> bool:
        """Append a message; return False if the queue has reached its maximum length."""
        if len(self._waiting) >= self.spec.max_length:
            return False
        self._waiting.append(message)
        self._start_timer(message)
        self.dispatch()
        return True

    def settle(self, message: QueuedMessage, settlement: Settlement) -> None:
        """Requeue, dead-letter or drop a delivered message, then dispatch the next one."""
        attempt = message.received.attempt
        if settlement is Settlement.DEAD:
            is_invalid = problem_of(message.received.body, message.received.key)
            self._dead_letter(message, Reason.INVALID if is_invalid else Reason.FAILED)
        elif settlement is Settlement.AGAIN and attempt >= self.spec.max_deliveries:
            self._dead_letter(message, Reason.FAILED)
        elif settlement is Settlement.AGAIN and not self._closed:
            message.received = replace(message.received, attempt=attempt + 1)
            self._waiting.appendleft(message)
            self._start_timer(message)
        self.dispatch()

    def dispatch(self) -> None:
        """Deliver messages while there are any and a consumer is free."""
        while self._waiting and (consumer := self._next_free()):
            message = self._waiting.popleft()
            message.stop_timer()
            if message.deadline <= asyncio.get_running_loop().time():  # expired, but its timer has not run yet
                self._dead_letter(message, Reason.EXPIRED)
            else:
                consumer.take(message)

    def expire(self, delete: Callable[["LocalQueue"], None]) -> None:
        """Call back when the queue has had no consumer for so long that it is to be deleted."""
        if self.spec.expires_seconds is not None:
            self._expiry = asyncio.get_running_loop().call_later(self.spec.expires_seconds, delete, self)

    def keep(self) -> None:
        """Do not delete the queue, because it has a consumer again."""
        if self._expiry:
            self._expiry.cancel()
            self._expiry = None

    def close(self) -> None:
        """Drop all messages, also those that are requeued later."""
        self._closed = True
        self.keep()
        for message in self._waiting:
            message.stop_timer()
        self._waiting.clear()

    def _next_free(self) -> "LocalSubscription | None":
        for _ in range(len(self.consumers)):
            self.consumers.rotate(-1)
            if self.consumers[-1].is_free:
                return self.consumers[-1]
        return None

    def _start_timer(self, message: QueuedMessage) -> None:
        message.timer = asyncio.get_running_loop().call_at(message.deadline, self._expire, message)

    def _expire(self, message: QueuedMessage) -> None:
        self._waiting.remove(message)
        self._dead_letter(message, Reason.EXPIRED)

    def _dead_letter(self, message: QueuedMessage, reason: Reason) -> None:
        message.stop_timer()
        if not self.spec.dead_letters:
            return
        body, key = message.received.body, message.received.key
        problem = problem_of(body, key) if reason is Reason.INVALID else ""
        letter = DeadLetter(body, key, self.spec.name, reason, problem)
        log_dead_letter(letter)
        self._dead_letters.append(letter)


def _without_expiry(spec: QueueSpec, *, keys: tuple[str, ...]) -> QueueSpec:
    return replace(spec, keys=keys, expires_seconds=None)


class LocalBroker:
    """The broker that the buses of one process share."""

    def __init__(self) -> None:
        self.queues: dict[str, LocalQueue] = {}
        self.dead_letters: deque[DeadLetter] = deque(maxlen=MAX_DEAD_LETTERS)
        self.dispatchers: set[HintDispatcher] = set()
        self.locks: set[str] = set()

    def publish(self, received: Received, ttl_seconds: float, queue: str | None = None) -> bool:
        """Put a message once into the named queue, or every one with a matching key; return whether there was any."""
        queues = [
            each
            for name, each in self.queues.items()
            if name == queue or (queue is None and any(matches(key, received.key) for key in each.spec.keys))
        ]
        deadline = asyncio.get_running_loop().time() + ttl_seconds
        full = [each.spec.name for each in queues if not each.put(QueuedMessage(received, deadline))]
        if full:
            raise QueueFull(f"The queue {full[0]} is full. Try again in a moment.", retry_after=1)
        return bool(queues)

    def attach(self, spec: QueueSpec, consumer: "LocalSubscription") -> LocalQueue:
        """Add a consumer to a queue, which is created if missing; raise NameTaken or QueueMismatch."""
        queue = self.queues.get(spec.name)
        if queue is None:
            queue = self.queues[spec.name] = LocalQueue(spec, self.dead_letters)
        elif _without_expiry(spec, keys=queue.spec.keys) != _without_expiry(queue.spec, keys=queue.spec.keys):
            raise QueueMismatch(f"The queue {spec.name} exists with other properties.")
        elif spec.exclusive and queue.consumers:
            raise NameTaken(f"The name {spec.name} is taken.")
        else:  # as on RabbitMQ, existing bindings stay
            queue.spec = replace(queue.spec, keys=tuple(dict.fromkeys(queue.spec.keys + spec.keys)))
        queue.consumers.append(consumer)
        queue.keep()
        queue.dispatch()
        return queue

    def detach(self, queue: LocalQueue, consumer: "LocalSubscription") -> None:
        """Remove a consumer from a queue, and the queue too unless it is durable."""
        if consumer in queue.consumers:
            queue.consumers.remove(consumer)
            if not queue.spec.durable:
                self._delete(queue)
            elif not queue.consumers:
                queue.expire(self._delete)

    def _delete(self, queue: LocalQueue) -> None:
        queue.close()
        del self.queues[queue.spec.name]


class LocalSubscription:
    """A handler that consumes a queue of the in-process broker."""

    def __init__(self, broker: LocalBroker, spec: QueueSpec, receiver: Receiver, registry: set[Subscription]) -> None:
        self.spec = spec
        self._broker = broker
        self._receiver = receiver
        self._registry = registry
        self._stopped = False
        self._queue = broker.attach(spec, self)

    @property
    def is_free(self) -> bool:
        """Whether another message can be handled now."""
        return not self._stopped and self._receiver.is_free

    def take(self, message: QueuedMessage) -> None:
        """Start a task that handles a message, and settle the message when the task ends."""
        task = self._receiver.start(self._receiver.handle(message.received))

        def settle(done: asyncio.Task[Settlement]) -> None:
            unfinished = done.cancelled() or done.exception() is not None
            self._queue.settle(message, Settlement.AGAIN if unfinished else done.result())

        task.add_done_callback(settle)

    async def cancel(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        self._stopped = True
        try:
            await self._receiver.finish(grace_seconds)
        finally:
            self._broker.detach(self._queue, self)
            self._registry.discard(self)


class LocalLock(BusLock):
    """A name in the in-process broker, which can't be lost."""

    def __init__(
        self, broker: LocalBroker, name: str, on_change: LockCallback | None, registry: dict[str, BusLock]
    ) -> None:
        super().__init__(name, on_change)
        self._broker = broker
        self._registry = registry

    async def acquire(self) -> None:
        if self.name in self._broker.locks:
            raise NameTaken(f"The name {self.name} is taken.")
        self._broker.locks.add(self.name)
        self._state = LockState.HELD

    async def release(self) -> None:
        if self.is_held:
            self._broker.locks.discard(self.name)
            self._change(LockState.RELEASED)
            self._registry.pop(self.name, None)


class LocalBus(BaseBus):
    """A bus with its own in-process broker, or one of several that share one."""

    def __init__(self, broker: LocalBroker | None = None, *, name: str = "artel") -> None:
        super().__init__(name)
        self._broker = broker or LocalBroker()
        self._owns_broker = broker is None
        self._broker.dispatchers.add(self._hints)
        replies = QueueSpec(self._address, keys=(), exclusive=True, durable=False)
        self._replies = LocalSubscription(self._broker, replies, self._reply_receiver, self._subscriptions)

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
        received = Received(envelope.to_bytes(), check_key(key), reply_to, correlation_id, 1, ttl_seconds)
        self._check_open()
        routed = self._broker.publish(received, ttl_seconds)
        await asyncio.sleep(0)  # backpressure: lets handlers run when a caller publishes in a loop
        return routed

    async def subscribe(
        self, spec: QueueSpec, handler: Handler, *, at_once: int = 1, on_invalid: InvalidCallback | None = None
    ) -> LocalSubscription:
        receiver = self._receiver(spec, handler, at_once, on_invalid)
        subscription = LocalSubscription(self._broker, spec, receiver, self._subscriptions)
        self._subscriptions.add(subscription)
        return subscription

    def _new_lock(self, name: str, on_change: LockCallback | None) -> LocalLock:
        return LocalLock(self._broker, name, on_change, self._locks)

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        return list(self._broker.dead_letters)[:limit]

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to every bus that shares the broker."""
        if not self._closed:
            for dispatcher in self._broker.dispatchers:
                dispatcher.dispatch(hint)

    async def close(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        await self._stop(grace_seconds)
        await self._replies.cancel(grace_seconds=0)
        self._broker.dispatchers.discard(self._hints)
        self._hints.clear()
        if self._owns_broker:
            for queue in self._broker.queues.values():
                queue.close()

    async def _send_to_queue(self, queue: str, envelope: Envelope, correlation_id: str | None) -> bool:
        received = Received(envelope.to_bytes(), queue, None, correlation_id, attempt=1)
        return self._broker.publish(received, DEFAULT_TTL_SECONDS, queue)
