"""Running a handler for messages, common to all buses."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from artel.bus.bus import DeadLetter, Delivery, Handler, MessageRefused, Requeue
from artel.contract.envelope import Envelope, InvalidMessage
from artel.logs import get_logger

CANCEL_SECONDS = 5.0  # for a cancelled handler to clean up; after that it is abandoned

T = TypeVar("T")
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """A received message whose body is not parsed yet."""

    body: bytes
    key: str
    reply_to: str | None
    correlation_id: str | None
    attempt: int
    ttl_seconds: float | None = None


def problem_of(body: bytes, key: str) -> str:
    """Return why nobody can handle a message that was sent with a key, "" if it is valid."""
    try:
        envelope = Envelope.from_bytes(body)
    except InvalidMessage as problem:
        return problem.detail
    if key.startswith("cmd.") and envelope.type != "ai.team.command":  # see MessageRefused
        return f"The key is one of commands (ai.team.command), and the message is {envelope.type}."
    return ""


def log_dead_letter(letter: DeadLetter) -> None:
    """Log a dead letter with its reason."""
    about = {"problem": letter.problem} if letter.problem else {}
    log.warning("message_dead_lettered", queue=letter.queue, key=letter.key, reason=letter.reason.value, **about)


class Settlement(Enum):
    """How a delivery ends: acknowledged, requeued, or dead-lettered."""

    DONE = auto()
    AGAIN = auto()
    DEAD = auto()


Refuse = Callable[[Received, InvalidMessage], Awaitable[None]]


class Receiver:
    """Runs the handler of one subscription with bounded concurrency."""

    def __init__(self, queue: str, handler: Handler, *, at_once: int, refuse: Refuse) -> None:
        if at_once < 1:
            raise ValueError("at_once must be at least 1")
        self.at_once = at_once
        self._queue = queue
        self._handler = handler
        self._refuse = refuse
        self._slots = asyncio.Semaphore(at_once)
        self._running: set[asyncio.Task[Any]] = set()
        # Handlers run in the subscriber's context: in the local bus the publisher's context would leak into them.
        self._context = copy_context()

    @property
    def is_free(self) -> bool:
        """Whether another message can be handled now."""
        return len(self._running) < self.at_once

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in a task that `finish` waits for."""
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def handle(self, received: Received) -> Settlement:
        """Parse a message and run the handler."""
        async with self._slots:  # after a lost connection the broker redelivers messages that are still being handled
            try:
                envelope = Envelope.from_bytes(received.body)
                delivery = Delivery(
                    envelope,
                    received.key,
                    received.reply_to,
                    received.correlation_id,
                    received.attempt,
                    received.ttl_seconds,
                )
                return await self._run_handler(delivery)
            except InvalidMessage as problem:
                log.warning("message_invalid", queue=self._queue, key=received.key, problem=problem.detail)
                try:
                    await self._refuse(received, problem)
                except Exception:
                    log.warning("refusal_not_sent", queue=self._queue, key=received.key, exc_info=True)
                return Settlement.DEAD

    async def finish(self, grace_seconds: float) -> None:
        """Wait for running handlers and cancel those left after the grace period."""
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

    async def _run_handler(self, delivery: Delivery) -> Settlement:
        try:
            await self._handler(delivery)
        except MessageRefused:
            raise
        except Requeue:
            log.info("message_requeued", queue=self._queue, key=delivery.key, message_id=delivery.envelope.id)
            return Settlement.AGAIN
        except (Exception, asyncio.CancelledError) as failure:
            task = asyncio.current_task()
            if isinstance(failure, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            # Otherwise the handler awaited something that was cancelled: an ordinary failure.
            log.warning(
                "handler_failed",
                queue=self._queue,
                key=delivery.key,
                message_id=delivery.envelope.id,
                attempt=delivery.attempt,
                exc_info=True,
            )
            return Settlement.AGAIN
        return Settlement.DONE
