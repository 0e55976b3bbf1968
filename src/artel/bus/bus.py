"""What a bus promises, whichever it is: the Protocol, what goes in and out of it, and its errors."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from artel.contract.envelope import Envelope
from artel.errors import ArtelError, Kind

DEFAULT_TTL_SECONDS = 300.0
DEFAULT_GRACE_SECONDS = 30.0
MAX_DELIVERIES = 5
MAX_LENGTH = 10_000


class BusUnavailable(ArtelError):
    """The broker can't be reached, or didn't confirm in time."""

    kind = Kind.UNAVAILABLE
    code = "bus_unavailable"


class BusClosed(ArtelError):
    """The bus was closed, by us."""

    kind = Kind.UNAVAILABLE
    code = "bus_closed"


class QueueFull(ArtelError):
    """A queue that the message belongs into holds as many as it may."""

    kind = Kind.UNAVAILABLE
    code = "queue_full"


class QueueMismatch(ArtelError):
    """There is a queue of this name with other properties."""

    kind = Kind.CONFLICT
    code = "queue_mismatch"


class NameTaken(ArtelError):
    """Somebody else holds this exclusive name."""

    kind = Kind.CONFLICT
    code = "name_taken"


class NoListener(ArtelError):
    """No queue takes messages with this key."""

    kind = Kind.UNAVAILABLE
    code = "no_listener"


class RequestTimeout(ArtelError):
    """No reply came in time."""

    kind = Kind.UNAVAILABLE
    code = "request_timeout"


class InvalidKey(ArtelError):
    """A key, or a name that belongs into one, has characters that mean something else there."""

    kind = Kind.INVALID
    code = "invalid_key"


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue and the keys that lead into it; commands, events and control each have their own.

    A durable queue outlives its readers, who share its messages, and the broker's restart. The others belong to one
    reader and go with it. An exclusive name has one reader at a time, and is free again when that one is gone.
    """

    name: str
    keys: tuple[str, ...]
    exclusive: bool = False
    durable: bool = True
    max_deliveries: int = MAX_DELIVERIES
    max_length: int = MAX_LENGTH

    def __post_init__(self) -> None:
        if not self.durable and not self.exclusive:
            raise ValueError("a queue that goes with its reader is exclusive")
        if self.max_deliveries < 1 or self.max_length < 1:
            raise ValueError("a queue delivers at least once, and holds at least one message")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it reaches a handler; the first attempt is 1."""

    envelope: Envelope
    key: str
    reply_to: str | None
    correlation_id: str | None
    attempt: int


class Reason(StrEnum):
    """Why a message became a dead letter."""

    EXPIRED = "expired"
    FAILED = "failed"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that reached nobody, or nobody could handle."""

    body: bytes
    key: str
    queue: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Hint:
    """Something has changed, look for yourself: `key` of `kind`. It may get lost, or come twice as one."""

    kind: str
    key: str


Handler = Callable[[Delivery], Awaitable[None]]
HintCallback = Callable[[Hint], None]


class Subscription(Protocol):
    """A handler at work on a queue."""

    async def cancel(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Take no more, let running handlers finish, and give back what is not done after the grace."""
        ...


class Bus(Protocol):
    """Carries messages by key: words with dots between; queues bind `*` for one word, `#` for any number."""

    @property
    def connected(self) -> bool:
        """Whether messages can be sent and received now."""
        ...

    async def publish(
        self,
        key: str,
        envelope: Envelope,
        *,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        reply_to: str | None = None,
        correlation_id: str | None = None,
    ) -> bool:
        """Send, and return when it is safe; say whether any queue took it.

        Raises QueueFull when a queue refused it, and BusUnavailable when nobody confirmed it in time: it may have
        arrived then, and whoever sends it again uses the same id.
        """
        ...

    async def subscribe(self, spec: QueueSpec, handler: Handler, *, at_once: int = 1) -> Subscription:
        """Hand every message of the queue to the handler, at most so many at once.

        A message is done when the handler returns, so it replies before. When it raises, the message comes again,
        `max_deliveries` times in all, and is then a dead letter. What is no valid message is one at once, and is
        answered INVALID_ARGUMENT. Raises NameTaken, QueueMismatch or BusUnavailable.
        """
        ...

    async def reply(self, delivery: Delivery, envelope: Envelope) -> bool:
        """Return whoever sent the delivery; say whether there was somebody to answer."""
        ...

    async def request(self, key: str, envelope: Envelope, *, timeout_seconds: float) -> Envelope:
        """Send, and return the reply, which may be an Error; raise NoListener or RequestTimeout when none comes."""
        ...

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Return the oldest dead letters, which stay where they are."""
        ...

    def send_hint(self, hint: Hint) -> None:
        """Tell every process on the bus, this one too, now or never; doesn't wait, doesn't raise."""
        ...

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        """Call back for every hint, soon after it came; return how to end that."""
        ...

    async def close(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Cancel every subscription and request, and end everything that runs."""
        ...
