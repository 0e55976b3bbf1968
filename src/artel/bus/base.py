"""What all buses share: requests and their replies, refusals, hints and the order of shutting down."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from artel.bus.bus import (
    Bus,
    BusClosed,
    Delivery,
    Handler,
    HintCallback,
    InvalidCallback,
    LockCallback,
    MessageRefused,
    NameTaken,
    NoListener,
    QueueSpec,
    RequestTimeout,
    Subscription,
)
from artel.bus.hints import HintDispatcher
from artel.bus.lock import BusLock
from artel.bus.receiver import Received, Receiver
from artel.bus.topology import check_key, check_lock_name, reply_queue
from artel.contract.envelope import NOTHING_USED, Envelope, Error, ErrorInfo, InvalidMessage
from artel.ids import uuid7
from artel.logs import get_logger

REPLIES_AT_ONCE = 100

log = get_logger(__name__)


class BaseBus(Bus, ABC):
    """A bus whose requests wait by correlation id; all replies arrive in one queue."""

    max_hint_bytes = 262_144

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = False
        self._hints = HintDispatcher()
        self._subscriptions: set[Subscription] = set()
        self._locks: dict[str, BusLock] = {}
        self._waiting: dict[str, asyncio.Future[Envelope]] = {}
        self._address = reply_queue(uuid7())
        self._reply_receiver = Receiver(self._address, self._resolve, at_once=REPLIES_AT_ONCE, refuse=self._fail)

    @abstractmethod
    async def _send_to_queue(self, queue: str, envelope: Envelope, correlation_id: str | None) -> bool:
        """Send a message to one queue; return whether it exists."""

    @abstractmethod
    def _new_lock(self, name: str, on_change: LockCallback | None) -> BusLock:
        """Return a lock that is not acquired yet; releasing it removes it from `_locks`."""

    async def lock(self, name: str, on_change: LockCallback | None = None) -> BusLock:
        self._check_open()
        check_lock_name(name)
        if name in self._locks:  # RabbitMQ allows one connection to declare its exclusive queue twice
            raise NameTaken(f"The name {name} is taken.")
        lock = self._locks[name] = self._new_lock(name, on_change)
        try:
            await lock.acquire()
        except BaseException:
            self._locks.pop(name, None)
            raise
        return lock

    async def reply(self, delivery: Delivery | Received, envelope: Envelope) -> bool:
        self._check_open()
        if delivery.reply_to is None:
            return False
        return await self._send_to_queue(delivery.reply_to, envelope, delivery.correlation_id)

    async def request(self, key: str, envelope: Envelope, *, timeout_seconds: float) -> Envelope:
        correlation_id = uuid7()
        answer: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = answer
        try:
            async with asyncio.timeout(timeout_seconds):
                routed = await self.publish(
                    key,
                    envelope,
                    ttl_seconds=timeout_seconds,
                    reply_to=self._address,
                    correlation_id=correlation_id,
                )
                if not routed:
                    raise NoListener(f"No queue receives messages for {key}.")
                return await answer
        except TimeoutError:
            raise RequestTimeout(f"No reply to {key} came within {timeout_seconds:g} s.") from None
        finally:
            del self._waiting[correlation_id]
            if answer.done() and not answer.cancelled():
                answer.exception()  # mark as retrieved, also when the requester was cancelled
            answer.cancel()

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        return self._hints.on_hint(callback)

    def _check_open(self) -> None:
        if self._closed:
            raise BusClosed("The bus is closed.")

    def _receiver(
        self, spec: QueueSpec, handler: Handler, at_once: int, on_invalid: InvalidCallback | None
    ) -> Receiver:
        """Return the receiver of a new subscription; raise BusClosed or InvalidKey."""
        self._check_open()
        for pattern in spec.keys:
            check_key(pattern, wildcards=True)

        async def refuse(received: Received, problem: InvalidMessage) -> None:
            if on_invalid and received.correlation_id:
                on_invalid(received.correlation_id, problem)
            await self._refuse(received, problem)

        return Receiver(spec.name, handler, at_once=at_once, refuse=refuse)

    async def _stop(self, grace_seconds: float) -> None:
        """Cancel every subscription, release every lock and fail every request."""
        await asyncio.gather(*(each.cancel(grace_seconds=grace_seconds) for each in list(self._subscriptions)))
        await asyncio.gather(*(lock.release() for lock in list(self._locks.values())))
        self._closed = True  # only now: handlers that are finishing may still publish
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(BusClosed("The bus was closed before the reply came."))

    async def _refuse(self, received: Received, problem: InvalidMessage) -> None:
        code = problem.error_code if isinstance(problem, MessageRefused) else "INVALID_ARGUMENT"
        error = ErrorInfo(code=code, message=problem.detail, retryable=False)
        await self.reply(received, Envelope.of(Error(error=error, metrics=NOTHING_USED), source=self._name))

    async def _resolve(self, delivery: Delivery) -> None:
        if answer := self._pending(delivery.correlation_id):
            answer.set_result(delivery.envelope)
        else:
            log.info("reply_too_late", message_id=delivery.envelope.id)

    async def _fail(self, received: Received, problem: InvalidMessage) -> None:
        if answer := self._pending(received.correlation_id):
            answer.set_exception(problem)

    def _pending(self, correlation_id: str | None) -> asyncio.Future[Envelope] | None:
        answer = self._waiting.get(correlation_id or "")
        return None if answer is None or answer.done() else answer
