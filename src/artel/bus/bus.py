"""The Protocol that every message bus implements, its data types and its errors."""

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


class BusUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="bus_unavailable"):
    """The broker can't be reached, or didn't confirm a message in time."""


class BusClosed(ArtelError, kind=Kind.UNAVAILABLE, code="bus_closed"):
    """This process has closed the bus."""


class QueueFull(ArtelError, kind=Kind.UNAVAILABLE, code="queue_full"):
    """A queue that the message is routed to has reached its maximum length."""


class QueueMismatch(ArtelError, kind=Kind.CONFLICT, code="queue_mismatch"):
    """A queue of this name exists with other properties."""


class NameTaken(ArtelError, kind=Kind.CONFLICT, code="name_taken"):
    """Another subscriber holds this exclusive queue name."""


class NoListener(ArtelError, kind=Kind.UNAVAILABLE, code="no_listener"):
    """No queue is bound to this routing key."""


class RequestTimeout(ArtelError, kind=Kind.UNAVAILABLE, code="request_timeout"):
    """No reply came in time."""


class InvalidKey(ArtelError, kind=Kind.INVALID, code="invalid_key"):
    """A routing key, or a name used in one, is empty or has reserved characters."""


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue and the routing keys that it is bound to.

    A durable queue outlives its subscribers, which share its messages, and a restart of the broker. Other queues have
    one subscriber and are deleted with it. An exclusive queue has at most one subscriber at a time.
    """

    name: str
    keys: tuple[str, ...]
    exclusive: bool = False
    durable: bool = True
    max_deliveries: int = MAX_DELIVERIES
    max_length: int = MAX_LENGTH

    def __post_init__(self) -> None:
        if not self.durable and not self.exclusive:
            raise ValueError("a queue that is not durable must be exclusive")
        if self.max_deliveries < 1 or self.max_length < 1:
            raise ValueError("max_deliveries and max_length must be at least 1")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as a handler receives it; attempts are counted from 1."""

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
    """A message that expired, was invalid, or failed too often."""

    body: bytes
    key: str
    queue: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Hint:
    """A notification that `key` of `kind` has changed; hints may be lost, and equal ones may be merged."""

    kind: str
    key: str


Handler = Callable[[Delivery], Awaitable[None]]
HintCallback = Callable[[Hint], None]


class Subscription(Protocol):
    """A handler that consumes a queue."""

    spec: QueueSpec

    async def cancel(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Stop consuming, wait for running handlers, and requeue what is unfinished after the grace period."""


class Bus(Protocol):
    """Routes messages by key (words separated by dots); in bindings `*` matches one word, `#` any number."""

    @property
    def connected(self) -> bool:
        """Whether messages can be sent and received now."""

    async def publish(
        self,
        key: str,
        envelope: Envelope,
        *,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        reply_to: str | None = None,
        correlation_id: str | None = None,
    ) -> bool:
        """Send a message, wait for the confirmation, and return whether any queue received it.

        Raises QueueFull if a queue rejected it, and BusUnavailable if it was not confirmed in time. In that case it may
        have arrived: a retry must use the same message id.
        """

    async def subscribe(self, spec: QueueSpec, handler: Handler, *, at_once: int = 1) -> Subscription:
        """Run the handler for every message of the queue, at most `at_once` concurrently.

        A message is acknowledged when the handler returns, so a handler replies before that. If it raises, the message
        is redelivered, up to `max_deliveries` in total, and then becomes a dead letter. An invalid message becomes a
        dead letter at once and is answered with INVALID_ARGUMENT. Raises NameTaken, QueueMismatch or BusUnavailable.
        """

    async def reply(self, delivery: Delivery, envelope: Envelope) -> bool:
        """Reply to the sender of a delivery; return whether the reply was routed to a queue."""

    async def request(self, key: str, envelope: Envelope, *, timeout_seconds: float) -> Envelope:
        """Send a request and return the reply, which may be an Error; raise NoListener or RequestTimeout."""

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Return the oldest dead letters without removing them."""

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to every process on the bus, including this one; never blocks, raises or retries."""

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        """Call back for every hint; return a function that removes the callback."""

    async def close(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Cancel every subscription and request, and close all connections."""
