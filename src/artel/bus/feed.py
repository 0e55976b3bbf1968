"""A consumer of one RabbitMQ queue, on its own channel that is reopened when it is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from artel.bus.link import RECONNECT_BACKOFF, ConnectionLost, Link, translate_connection_errors
from artel.errors import ArtelError
from artel.logs import get_logger

STEP_SECONDS = 10.0  # for one operation on the broker
CLOSING_SECONDS = 3.0  # for one that only cleans up: a silent broker must not delay the shutdown

log = get_logger(__name__)

Declare = Callable[[AbstractChannel], Awaitable[AbstractQueue]]
Receive = Callable[[AbstractIncomingMessage], Awaitable[None]]


class Feed:
    """Declares and consumes a queue on a channel of its own, so that slow work on other queues doesn't block it."""

    def __init__(
        self, link: Link, name: str, declare: Declare, receive: Receive, *, prefetch: int = 0, no_ack: bool = False
    ) -> None:
        self._link = link
        self._name = name
        self._declare = declare
        self._receive = receive
        self._prefetch = prefetch
        self._no_ack = no_ack
        self._channel: AbstractChannel | None = None
        self._tag = ""
        self._queue: AbstractQueue | None = None
        self._restoring: asyncio.Task[None] | None = None
        self._stopped = False

    async def open(self) -> None:
        """Start to consume; on failure close the channel and raise."""
        channel = await self._link.channel()

        def lost(*_: Any) -> None:
            self._lost(channel)

        try:
            async with translate_connection_errors():
                queue = await self._declare(channel)
                await channel.set_qos(prefetch_count=self._prefetch)
                channel.close_callbacks.add(lost)
                underlay = await channel.get_underlay_channel()
                underlay.on_consumer_cancel_callbacks.add(lost)  # the queue was deleted, the channel is still open
                self._tag = await queue.consume(self._receive, no_ack=self._no_ack)
        except BaseException:
            await close_channel(channel)
            raise
        self._channel, self._queue = channel, queue
        if channel.is_closed:
            self._lost(channel)

    async def stop(self) -> None:
        """Stop consuming; messages already received can still be acknowledged."""
        self._stopped = True
        if self._restoring:
            self._restoring.cancel()
            await asyncio.wait([self._restoring])
        if self._channel and self._queue and not self._channel.is_closed:
            with suppress(ConnectionLost, TimeoutError):
                async with translate_connection_errors(), asyncio.timeout(CLOSING_SECONDS):
                    await self._queue.cancel(self._tag)

    async def delete_queue(self, name: str) -> None:
        """Delete a queue if the channel is still open."""
        if self._channel and not self._channel.is_closed:
            with suppress(ConnectionLost, TimeoutError):
                async with translate_connection_errors(), asyncio.timeout(CLOSING_SECONDS):
                    await self._channel.queue_delete(name)

    async def close(self) -> None:
        """Close the channel; unacknowledged messages return to the queue."""
        await self.stop()
        if self._channel:
            await close_channel(self._channel)

    def _lost(self, channel: AbstractChannel) -> None:
        if channel is self._channel and not self._stopped:
            self._channel = None
            self._restoring = asyncio.create_task(self._restore(channel), name=f"bus-{self._name}-restores")

    async def _restore(self, lost: AbstractChannel) -> None:
        await close_channel(lost)
        attempt = 0
        while not await self._try_to_open():
            await asyncio.sleep(RECONNECT_BACKOFF.seconds(attempt))
            attempt += 1
        log.info("bus_queue_restored", queue=self._name, attempts=attempt + 1)

    async def _try_to_open(self) -> bool:
        await self._link.wait_until_up()
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await self.open()
        except (ConnectionLost, TimeoutError, ArtelError) as problem:
            log.warning("bus_queue_not_restored", queue=self._name, problem=repr(problem))
            return False
        except Exception:  # nothing awaits this task, so it must not die
            log.exception("bus_queue_not_restored", queue=self._name)
            return False
        return True


async def close_channel(channel: AbstractChannel) -> None:
    """Close a channel and ignore a lost connection or a timeout."""
    with suppress(ConnectionLost, TimeoutError):
        async with translate_connection_errors(), asyncio.timeout(CLOSING_SECONDS):
            await channel.close()
