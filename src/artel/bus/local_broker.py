"""The in-process broker: queues, routing, TTL and dead letters, on timers and callbacks without tasks of its own."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from artel.bus.bus import DeadLetter, Hint, NameTaken, QueueFull, QueueMismatch, QueueSpec, Reason
from artel.bus.hints import HintDispatcher
from artel.bus.receiver import Outcome, Received
from artel.bus.topology import matches
from artel.logs import get_logger

MAX_DEAD_LETTERS = 10_000

log = get_logger(__name__)


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


class Consumer(Protocol):
    """A subscriber that receives messages from a queue."""

    @property
    def is_free(self) -> bool:
        """Whether another message can be handled now."""
        ...

    def take(self, message: QueuedMessage) -> None:
        """Start to handle a message; settle it with the queue later."""
        ...


class LocalQueue:
    """One queue: the next free consumer gets the oldest message."""

    def __init__(self, spec: QueueSpec, dead_letter: Callable[[QueuedMessage, str, Reason], None]) -> None:
        self.spec = spec
        self.consumers: deque[Consumer] = deque()
        self._waiting: deque[QueuedMessage] = deque()
        self._closed = False
        self._dead_letter = dead_letter

    @property
    def is_full(self) -> bool:
        """Whether the queue has reached its maximum length."""
        return len(self._waiting) >= self.spec.max_length

    def put(self, message: QueuedMessage) -> None:
        """Append a message."""
        self._waiting.append(message)
        self._start_timer(message)
        self.dispatch()

    def settle(self, message: QueuedMessage, outcome: Outcome) -> None:
        """Requeue, dead-letter or drop a delivered message, then dispatch the next one."""
        if outcome is Outcome.AGAIN:
            self._requeue(message)
        elif outcome is Outcome.DEAD:
            self._dead_letter(message, self.spec.name, Reason.INVALID)
        self.dispatch()

    def dispatch(self) -> None:
        """Deliver messages while there are any and a consumer is free."""
        while self._waiting and (consumer := self._next_free()):
            message = self._waiting.popleft()
            message.stop_timer()
            if message.deadline <= asyncio.get_running_loop().time():  # expired, but its timer has not run yet
                self._dead_letter(message, self.spec.name, Reason.EXPIRED)
            else:
                consumer.take(message)

    def close(self) -> None:
        """Drop all messages, also those that are requeued later."""
        self._closed = True
        for message in self._waiting:
            message.stop_timer()
        self._waiting.clear()

    def _requeue(self, message: QueuedMessage) -> None:
        if message.received.attempt >= self.spec.max_deliveries:
            self._dead_letter(message, self.spec.name, Reason.FAILED)
            return
        if self._closed:
            return
        message.received = replace(message.received, attempt=message.received.attempt + 1)
        self._waiting.appendleft(message)
        self._start_timer(message)

    def _next_free(self) -> Consumer | None:
        for _ in range(len(self.consumers)):
            self.consumers.rotate(-1)
            if self.consumers[-1].is_free:
                return self.consumers[-1]
        return None

    def _start_timer(self, message: QueuedMessage) -> None:
        message.timer = asyncio.get_running_loop().call_at(message.deadline, self._expire, message)

    def _expire(self, message: QueuedMessage) -> None:
        self._waiting.remove(message)
        self._dead_letter(message, self.spec.name, Reason.EXPIRED)


class LocalBroker:
    """The broker that the buses of one process share."""

    def __init__(self) -> None:
        self._queues: dict[str, LocalQueue] = {}
        self._dead_letters: deque[DeadLetter] = deque(maxlen=MAX_DEAD_LETTERS)
        self._dispatchers: list[HintDispatcher] = []

    def publish(self, received: Received, ttl_seconds: float) -> bool:
        """Put a message once into every queue with a matching key; return whether there was any."""
        return self._put(
            [
                queue
                for queue in self._queues.values()
                if any(matches(pattern, received.key) for pattern in queue.spec.keys)
            ],
            received,
            ttl_seconds,
        )

    def send_to(self, name: str, received: Received, ttl_seconds: float) -> bool:
        """Put a message into one queue; return whether it exists."""
        queue = self._queues.get(name)
        return self._put([queue] if queue else [], received, ttl_seconds)

    def attach(self, spec: QueueSpec, consumer: Consumer) -> LocalQueue:
        """Add a consumer to a queue, which is created if missing; raise NameTaken or QueueMismatch."""
        queue = self._queues.get(spec.name)
        if queue is None:
            queue = self._queues[spec.name] = LocalQueue(spec, self._dead_letter)
        elif replace(spec, keys=queue.spec.keys) != queue.spec:
            raise QueueMismatch(f"The queue {spec.name} exists with other properties.")
        elif spec.exclusive and queue.consumers:
            raise NameTaken(f"The name {spec.name} is taken.")
        else:  # as on RabbitMQ, existing bindings stay
            queue.spec = replace(spec, keys=tuple(dict.fromkeys(queue.spec.keys + spec.keys)))
        queue.consumers.append(consumer)
        queue.dispatch()
        return queue

    def detach(self, queue: LocalQueue, consumer: Consumer) -> None:
        """Remove a consumer from a queue, and the queue too unless it is durable."""
        if consumer in queue.consumers:
            queue.consumers.remove(consumer)
            if not queue.spec.durable:
                queue.close()
                del self._queues[queue.spec.name]

    def join(self, dispatcher: HintDispatcher) -> None:
        """Start delivering hints to a bus."""
        self._dispatchers.append(dispatcher)

    def leave(self, dispatcher: HintDispatcher) -> None:
        """Stop delivering hints to a bus."""
        if dispatcher in self._dispatchers:
            self._dispatchers.remove(dispatcher)

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to every bus that has joined."""
        for dispatcher in self._dispatchers:
            dispatcher.dispatch(hint)

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        """Return the oldest dead letters."""
        return list(self._dead_letters)[:limit]

    def close(self) -> None:
        """Drop every message and cancel all timers."""
        for queue in self._queues.values():
            queue.close()

    def _put(self, queues: list[LocalQueue], received: Received, ttl_seconds: float) -> bool:
        deadline = asyncio.get_running_loop().time() + ttl_seconds
        full = [queue.spec.name for queue in queues if queue.is_full]
        for queue in queues:
            if not queue.is_full:
                queue.put(QueuedMessage(received, deadline))
        if full:
            raise QueueFull(f"The queue {full[0]} is full. Try again in a moment.", retry_after=1)
        return bool(queues)

    def _dead_letter(self, message: QueuedMessage, queue: str, reason: Reason) -> None:
        message.stop_timer()
        received = message.received
        log.warning("message_dead_lettered", queue=queue, key=received.key, reason=reason.value)
        self._dead_letters.append(DeadLetter(received.body, received.key, queue, reason))
