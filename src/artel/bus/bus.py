"""The Protocol that every message bus implements, its data types and its errors."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from artel.contract.envelope import Envelope, ErrorCode, InvalidMessage
from artel.errors import ArtelError, Kind

DEFAULT_TTL_SECONDS = 300.0
DEFAULT_GRACE_SECONDS = 30.0
RETIRED_SECONDS = 31 * 24 * 3600.0  # after which the queues of a name that nobody uses are deleted
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
    """Another subscriber holds this exclusive queue name, or another bus this lock."""


class NoListener(ArtelError, kind=Kind.UNAVAILABLE, code="no_listener"):
    """No queue is bound to this routing key."""


class RequestTimeout(ArtelError, kind=Kind.UNAVAILABLE, code="request_timeout"):
    """No reply came in time."""


class InvalidKey(ArtelError, kind=Kind.INVALID, code="invalid_key"):
    """A routing key, or a name used in one, is empty or has reserved characters."""


class MessageRefused(InvalidMessage, code="message_refused"):
    """Raised by a handler: nobody who reads this queue can handle the message."""

    def __init__(self, detail: str, error_code: ErrorCode = "INVALID_ARGUMENT") -> None:
        super().__init__(detail)
        self.error_code = error_code


class Requeue(Exception):
    """Raised by a handler that gives a message back to its queue, which counts as a delivery."""


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue and the routing keys that it is bound to.

    A durable queue outlives its subscribers, which share its messages, and a restart of the broker. Other queues have
    one subscriber and are deleted with it. An exclusive queue has at most one subscriber at a time.
    Without `dead_letters`, messages that expire, are invalid or fail too often are dropped. A queue with
    `expires_seconds` is deleted when it had no subscriber for that time; one that exists without it is used as it is.
    """

    name: str
    keys: tuple[str, ...]
    exclusive: bool = False
    durable: bool = True
    max_deliveries: int = MAX_DELIVERIES
    max_length: int = MAX_LENGTH
    dead_letters: bool = True
    expires_seconds: float | None = None

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
    ttl_seconds: float | None = field(default=None, compare=False)  # None: the broker never drops it
    received_at: float = field(default_factory=time.monotonic, compare=False)  # in seconds of `time.monotonic()`


class Reason(StrEnum):
    """Why a message became a dead letter."""

    EXPIRED = "expired"
    FAILED = "failed"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that expired, was invalid, or failed too often; `problem` is what is wrong with an invalid one."""

    body: bytes
    key: str
    queue: str
    reason: Reason
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """A notification that `key` of `kind` has changed; hints may be lost, and equal ones may be merged."""

    kind: str
    key: str


Handler = Callable[[Delivery], Awaitable[None]]
InvalidCallback = Callable[[str, InvalidMessage], None]  # the correlation id of the message, and what is wrong
HintCallback = Callable[[Hint], None]


class LockState(StrEnum):
    """What a lock has become."""

    HELD = "held"
    LOST = "lost"  # the connection is gone, or the broker no longer confirms it; it is tried again
    CONFLICT = "conflict"  # somebody else has it; it is not tried again
    RELEASED = "released"


LockCallback = Callable[[LockState], None]


class Lock(Protocol):
    """A name that at most one bus holds at a time."""

    name: str

    @property
    def is_held(self) -> bool:
        """Whether the name is held now, as far as this process knows."""

    async def is_confirmed(self) -> bool:
        """Return whether the name is held; ask the broker first if it last said so more than a second ago."""

    async def release(self) -> None:
        """Free the name at once."""


class Sender(Protocol):
    """The part of a bus that publishes, for those who need no more."""

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

    async def close(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Close the connection."""


class Subscription(Protocol):
    """A handler that consumes a queue."""

    spec: QueueSpec

    async def cancel(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Stop consuming, wait for running handlers, and requeue what is unfinished after the grace period."""


class Hints(Protocol):
    """Sends hints to all processes, and receives theirs."""

    max_hint_bytes: int  # of a key in UTF-8; longer hints are not sent

    @property
    def connected(self) -> bool:
        """Whether hints can be sent and received now."""

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        """Add a callback, which gets every hint of every process; return a function that removes it."""

    def send_hint(self, hint: Hint) -> None:
        """Send a hint, without waiting; it may be lost."""


class Bus(Sender, Protocol):
    """Routes messages by key (words separated by dots); in bindings `*` matches one word, `#` any number."""

    max_hint_bytes: int

    @property
    def connected(self) -> bool:
        """Whether messages can be sent and received now."""

    async def subscribe(
        self, spec: QueueSpec, handler: Handler, *, at_once: int = 1, on_invalid: InvalidCallback | None = None
    ) -> Subscription:
        """Run the handler for every message of the queue, at most `at_once` concurrently.

        A message is acknowledged when the handler returns, so a handler replies before that. If it raises, the message
        is redelivered, up to `max_deliveries` in total, and then becomes a dead letter. An invalid message, or
        one for which it raises MessageRefused, becomes a dead letter at once and is answered with an error;
        `on_invalid` is told of it first, with its correlation id.
        Raises NameTaken, QueueMismatch or BusUnavailable.
        """

    async def lock(self, name: str, on_change: LockCallback | None = None) -> Lock:
        """Hold a name until it is released or the bus is closed; raise NameTaken if another bus holds it.

        On RabbitMQ it is an exclusive queue of this name. After a lost connection it is declared again and again while
        the broker still counts the old connection as alive. If it stays taken for longer than that, another process
        has it: a conflict. `on_change` is called in the event loop at each change after the first success.
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
