"""Runs a handler on messages, the same way for every bus."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from artel.bus.bus import Delivery, Handler
from artel.contract.envelope import Envelope, Error, ErrorInfo, InvalidMessage
from artel.logs import get_logger

CANCEL_SECONDS = 5.0  # for a cancelled handler to clean up; one that doesn't end then is left alone

T = TypeVar("T")
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it came, not read yet."""

    body: bytes
    key: str
    reply_to: str | None
    correlation_id: str | None
    attempt: int


class Outcome(Enum):
    """What becomes of a message: it is done, comes again, or is a dead letter at once."""

    DONE = auto()
    AGAIN = auto()
    DEAD = auto()


Refuse = Callable[[Received, InvalidMessage], Awaitable[None]]


def invalid_argument(source: str, problem: InvalidMessage) -> Envelope:
    """Make the answer to a message that can't be read."""
    error = ErrorInfo(code="INVALID_ARGUMENT", message=problem.detail, retryable=False)
    return Envelope.of(Error(error=error), source=source)


class Receiver:
    """The handler of one subscription, at most so many at once."""

    def __init__(self, queue: str, handler: Handler, *, at_once: int, refuse: Refuse) -> None:
        if at_once < 1:
            raise ValueError("a subscription handles at least one message at once")
        self.at_once = at_once
        self._queue = queue
        self._handler = handler
        self._refuse = refuse
        self._slots = asyncio.Semaphore(at_once)
        self._running: set[asyncio.Task[Any]] = set()
        # A handler sees the context of whoever subscribed: in one process, the publisher's would leak into it.
        self._context = copy_context()

    @property
    def is_free(self) -> bool:
        """Whether another message can be handled now."""
        return len(self._running) < self.at_once

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run the work on one message in a task that `finish` knows of."""
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def handle(self, received: Received) -> Outcome:
        """Read a message and hand it over."""
        async with self._slots:  # after a lost connection the broker sends again what is still being handled
            try:
                envelope = Envelope.from_bytes(received.body)
            except InvalidMessage as problem:
                log.warning("message_invalid", queue=self._queue, key=received.key, problem=problem.detail)
                await self._try_to_refuse(received, problem)
                return Outcome.DEAD
            return await self._hand_over(
                Delivery(envelope, received.key, received.reply_to, received.correlation_id, received.attempt)
            )

    async def finish(self, grace_seconds: float) -> None:
        """Wait for what is running, and cancel what is left after the grace."""
        others = self._running - {asyncio.current_task()}  # a handler may cancel its own subscription
        try:
            if others:
                await asyncio.wait(others, timeout=grace_seconds)
        finally:
            late = {task for task in others if not task.done()}
            for task in late:
                task.cancel()
        if late:
            log.warning("handlers_cancelled", queue=self._queue, count=len(late))
            await asyncio.wait(late, timeout=CANCEL_SECONDS)

    async def _hand_over(self, delivery: Delivery) -> Outcome:
        try:
            await self._handler(delivery)
        except (Exception, asyncio.CancelledError) as failure:
            task = asyncio.current_task()
            if isinstance(failure, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            # Else the handler awaited something that was cancelled: it has failed like any other.
            log.warning(
                "handler_failed",
                queue=self._queue,
                key=delivery.key,
                message_id=delivery.envelope.id,
                attempt=delivery.attempt,
                exc_info=True,
            )
            return Outcome.AGAIN
        return Outcome.DONE

    async def _try_to_refuse(self, received: Received, problem: InvalidMessage) -> None:
        try:
            await self._refuse(received, problem)
        except Exception:
            log.warning("refusal_not_sent", queue=self._queue, key=received.key, exc_info=True)
