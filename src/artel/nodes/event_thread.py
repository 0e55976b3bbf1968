"""Events that a node sends at an interval, whatever its main thread does."""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from artel.bus.bus import (
    DEFAULT_GRACE_SECONDS,
    DEFAULT_TTL_SECONDS,
    Bus,
    BusClosed,
    BusUnavailable,
    Sender,
)
from artel.bus.topology import event_key
from artel.contract.envelope import Envelope, Event
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.nodes.status import NodeStatus
from artel.retry import Backoff, retry

CONNECT_BACKOFF = Backoff(0.2, 5.0)
STOP_SECONDS = 10.0
OTHER_LOOP_SECONDS = 10.0
SHORTEST_TTL_SECONDS = 30.0
TTL_INTERVALS = 3

Connect = Callable[[], Awaitable[Sender]]

log = get_logger(__name__)


class EventThread(ABC):
    """A thread with an event loop and a connection of its own, which it opens again when it is lost.

    A Python loop or a blocking call in the main thread delays it by milliseconds only.
    """

    def __init__(self, kind: str, status: NodeStatus, connect: Connect, interval_seconds: float) -> None:
        self._kind = kind
        self._status = status
        self._connect = connect
        self._interval_seconds = interval_seconds
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._is_failing = False

    @abstractmethod
    def _events(self) -> Iterator[Envelope]:
        """Yield what is to be sent now; it goes on after a message was sent, and is closed when that failed."""

    @property
    def interval_seconds(self) -> float:
        """The time between two rounds."""
        return self._interval_seconds

    @interval_seconds.setter
    def interval_seconds(self, seconds: float) -> None:
        self._interval_seconds = seconds
        self.send_now()

    def start(self) -> None:
        """Start the thread; the first events are sent at once."""
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._serve())
        name = f"{self._kind}-{self._status.file.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def send_now(self) -> None:
        """Send the events now, for example because the state of the node has changed; for any thread."""
        self._call_soon(self._wake.set)

    async def stop(self) -> None:
        """End the thread and close its connection."""
        if self._thread and self._task:
            self._call_soon(self._task.cancel)
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)
            if self._thread.is_alive():
                log.warning("event_thread_does_not_end", kind=self._kind, node=self._status.file.name)

    def _envelope(self, event: Event, subject: str | None = None) -> Envelope:
        status = self._status
        return Envelope.of(event, source=status.file.name, subject=subject, nodeuid=status.uid, nodeepoch=status.epoch)

    def _call_soon(self, callback: Callable[[], object]) -> None:
        if self._loop:
            with suppress(RuntimeError):  # the loop is closed: the thread has ended
                self._loop.call_soon_threadsafe(callback)

    def _run(self) -> None:
        if self._loop is None or self._task is None:
            raise RuntimeError("the thread is started by start()")
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
        except Exception:
            log.exception("event_thread_failed", kind=self._kind, node=self._status.file.name)
        finally:
            if left := asyncio.all_tasks(self._loop):  # of a connection that broke off
                for task in left:
                    task.cancel()
                self._loop.run_until_complete(asyncio.wait(left, timeout=1))
            self._loop.close()

    async def _serve(self) -> None:
        # Any failure is retried: this thread must not die.
        sender = await retry(self._connect, Exception, CONNECT_BACKOFF, self._note_failure)
        try:
            due = time.monotonic()
            while True:
                self._wake.clear()
                await self._send(sender)
                due = max(due + self._interval_seconds, time.monotonic())
                with suppress(TimeoutError):
                    async with asyncio.timeout(due - time.monotonic()):
                        await self._wake.wait()
                due = min(due, time.monotonic())  # woken early: the interval begins now
        finally:
            await sender.close(grace_seconds=0)

    async def _send(self, sender: Sender) -> None:
        ttl_seconds = max(SHORTEST_TTL_SECONDS, TTL_INTERVALS * self._interval_seconds)
        try:
            for envelope in self._events():
                if isinstance(envelope.data, Event):
                    topic, _, event_type = envelope.data.event_type.partition(".")
                    await sender.publish(event_key(topic, event_type), envelope, ttl_seconds=ttl_seconds)
            self._is_failing = False
        except Exception as problem:  # noqa: BLE001 - any failure: this thread must not die
            self._note_failure(problem)

    def _note_failure(self, problem: Exception) -> None:
        """Log the first of several failures, and what is not a failure of the bus always."""
        if not isinstance(problem, ArtelError):
            log.error("event_thread_failed", kind=self._kind, node=self._status.file.name, exc_info=problem)
        elif not self._is_failing:
            log.warning("events_not_sent", kind=self._kind, node=self._status.file.name, problem=problem.detail)
        self._is_failing = True


class OtherLoopSender:
    """Publishes on a bus that lives in the event loop of another thread, for the bus inside one process."""

    def __init__(self, bus: Bus, loop: asyncio.AbstractEventLoop) -> None:
        self._bus = bus
        self._loop = loop

    async def publish(
        self,
        key: str,
        envelope: Envelope,
        *,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        reply_to: str | None = None,
        correlation_id: str | None = None,
    ) -> bool:
        """Publish in the other loop and wait for it; raise BusUnavailable if that loop is blocked for too long."""

        async def publish() -> bool:
            return await self._bus.publish(
                key, envelope, ttl_seconds=ttl_seconds, reply_to=reply_to, correlation_id=correlation_id
            )

        work = publish()
        try:
            routed = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise BusClosed("The event loop of the bus is closed.") from None
        try:
            async with asyncio.timeout(OTHER_LOOP_SECONDS):
                return await asyncio.wrap_future(routed)
        except TimeoutError:
            raise BusUnavailable(f"The event loop of the bus was blocked for {OTHER_LOOP_SECONDS:g} s.") from None

    async def close(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Do nothing: the bus belongs to the other thread."""
