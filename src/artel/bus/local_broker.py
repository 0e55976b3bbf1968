"""What a broker does, inside the process: queues, keys, time limits, dead letters. No task waits for anything here."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from artel.bus.bus import DeadLetter, Hint, NameTaken, QueueFull, QueueMismatch, QueueSpec, Reason
from artel.bus.hints import HintBoard
from artel.bus.receiver import Outcome, Received
from artel.bus.topology import matches
from artel.logs import get_logger

MAX_DEAD_LETTERS = 10_000

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class Parcel:
    """A message on its way, with the time by which somebody must have taken it."""

    received: Received
    deadline: float
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        """Let it no longer expire."""
        if self.timer:
            self.timer.cancel()
            self.timer = None


class Consumer(Protocol):
    """Whoever takes messages from a queue."""

    @property
    def is_free(self) -> bool:
        """Whether it can take another one now."""
        ...

    def take(self, parcel: Parcel) -> None:
        """Begin to handle a message, and settle it with the queue later."""
        ...


class LocalQueue:
    """One queue: whoever is free takes the oldest message."""

    def __init__(self, spec: QueueSpec, bury: Callable[[Parcel, str, Reason], None]) -> None:
        self.spec = spec
        self.consumers: deque[Consumer] = deque()
        self._waiting: deque[Parcel] = deque()
        self._closed = False
        self._bury = bury

    @property
    def is_full(self) -> bool:
        """Whether it holds as many waiting messages as it may."""
        return len(self._waiting) >= self.spec.max_length

    def put(self, parcel: Parcel) -> None:
        """Add a message at the end."""
        self._waiting.append(parcel)
        self._start_timer(parcel)
        self.dispatch()

    def settle(self, parcel: Parcel, outcome: Outcome) -> None:
        """End a delivery, and go on with the next message."""
        if outcome is Outcome.AGAIN:
            self._give_back(parcel)
        elif outcome is Outcome.DEAD:
            self._bury(parcel, self.spec.name, Reason.INVALID)
        self.dispatch()

    def dispatch(self) -> None:
        """Hand out messages as long as there are any and somebody is free."""
        while self._waiting and (consumer := self._next_free()):
            parcel = self._waiting.popleft()
            parcel.stop_timer()
            if parcel.deadline <= asyncio.get_running_loop().time():  # its timer had no turn yet
                self._bury(parcel, self.spec.name, Reason.EXPIRED)
            else:
                consumer.take(parcel)

    def close(self) -> None:
        """Drop all messages, those that come back later too."""
        self._closed = True
        for parcel in self._waiting:
            parcel.stop_timer()
        self._waiting.clear()

    def _give_back(self, parcel: Parcel) -> None:
        if parcel.received.attempt >= self.spec.max_deliveries:
            self._bury(parcel, self.spec.name, Reason.FAILED)
            return
        if self._closed:
            return
        parcel.received = replace(parcel.received, attempt=parcel.received.attempt + 1)
        self._waiting.appendleft(parcel)
        self._start_timer(parcel)

    def _next_free(self) -> Consumer | None:
        for _ in range(len(self.consumers)):
            self.consumers.rotate(-1)
            if self.consumers[-1].is_free:
                return self.consumers[-1]
        return None

    def _start_timer(self, parcel: Parcel) -> None:
        parcel.timer = asyncio.get_running_loop().call_at(parcel.deadline, self._expire, parcel)

    def _expire(self, parcel: Parcel) -> None:
        self._waiting.remove(parcel)
        self._bury(parcel, self.spec.name, Reason.EXPIRED)


class LocalBroker:
    """What the buses of one process share; each of them stands for a process of its own."""

    def __init__(self) -> None:
        self._queues: dict[str, LocalQueue] = {}
        self._dead_letters: deque[DeadLetter] = deque(maxlen=MAX_DEAD_LETTERS)
        self._boards: list[HintBoard] = []

    def publish(self, received: Received, ttl_seconds: float) -> bool:
        """Put a message into every queue that has a fitting key, once each; say whether there was any."""
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
        """Put a message into one queue; say whether there is such a queue."""
        queue = self._queues.get(name)
        return self._put([queue] if queue else [], received, ttl_seconds)

    def attach(self, spec: QueueSpec, consumer: Consumer) -> LocalQueue:
        """Let somebody take messages from a queue, which is made if it is missing."""
        queue = self._queues.get(spec.name)
        if queue is None:
            queue = self._queues[spec.name] = LocalQueue(spec, self._bury)
        elif replace(spec, keys=queue.spec.keys) != queue.spec:
            raise QueueMismatch(f"There is a queue {spec.name} with other properties.")
        elif spec.exclusive and queue.consumers:
            raise NameTaken(f"The name {spec.name} is taken.")
        else:  # as on a real broker, the keys of an earlier reader stay
            queue.spec = replace(spec, keys=tuple(dict.fromkeys(queue.spec.keys + spec.keys)))
        queue.consumers.append(consumer)
        queue.dispatch()
        return queue

    def detach(self, queue: LocalQueue, consumer: Consumer) -> None:
        """End what `attach` began; a queue that belongs to its reader goes with it."""
        if consumer in queue.consumers:
            queue.consumers.remove(consumer)
            if not queue.spec.durable:
                queue.close()
                del self._queues[queue.spec.name]

    def join(self, board: HintBoard) -> None:
        """Let a bus take part in the hints."""
        self._boards.append(board)

    def leave(self, board: HintBoard) -> None:
        """End what `join` began."""
        if board in self._boards:
            self._boards.remove(board)

    def show(self, hint: Hint) -> None:
        """Tell everybody who takes part."""
        for board in self._boards:
            board.show(hint)

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        """Return the oldest dead letters."""
        return list(self._dead_letters)[:limit]

    def close(self) -> None:
        """Drop every message, so that no timer is left."""
        for queue in self._queues.values():
            queue.close()

    def _put(self, queues: list[LocalQueue], received: Received, ttl_seconds: float) -> bool:
        deadline = asyncio.get_running_loop().time() + ttl_seconds
        full = [queue.spec.name for queue in queues if queue.is_full]
        for queue in queues:
            if not queue.is_full:
                queue.put(Parcel(received, deadline))
        if full:
            raise QueueFull(f"The queue {full[0]} is full. Try again in a moment.", retry_after=1)
        return bool(queues)

    def _bury(self, parcel: Parcel, queue: str, reason: Reason) -> None:
        parcel.stop_timer()
        received = parcel.received
        log.warning("message_dead_lettered", queue=queue, key=received.key, reason=reason.value)
        self._dead_letters.append(DeadLetter(received.body, received.key, queue, reason))
