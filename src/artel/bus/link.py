"""Connections to RabbitMQ that reconnect by themselves, and consumers that resume with them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from aio_pika import Connection
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from yarl import URL

from artel.bus.bus import BusClosed, BusUnavailable
from artel.errors import ArtelError, ConfigurationInvalid
from artel.logs import get_logger
from artel.retry import Backoff, retry

HEARTBEAT_SECONDS = 10
CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 5.0
RECONNECT_BACKOFF = Backoff(0.1, 5.0)
RETRY_BACKOFF = Backoff(0.05, 0.05)
STEP_SECONDS = 10.0  # for one operation on the broker
CLOSING_SECONDS = 3.0  # for one that only cleans up: a silent broker must not delay the shutdown

T = TypeVar("T")
Declare = Callable[[AbstractChannel], Awaitable[AbstractQueue]]
Receive = Callable[[AbstractIncomingMessage], Awaitable[None]]

log = get_logger(__name__)


class ConnectionLost(Exception):
    """The connection or channel was lost during an operation, which may or may not have taken effect."""


@asynccontextmanager
async def translate_connection_errors() -> AsyncIterator[None]:
    """Turn every error that the client library raises for a lost connection into ConnectionLost."""
    try:
        yield
    except (*CONNECTION_EXCEPTIONS, EOFError) as problem:
        if isinstance(problem, TimeoutError):  # TimeoutError is an OSError, but here it is our own deadline
            raise
        raise ConnectionLost(str(problem) or type(problem).__name__) from problem
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # The library cancels pending calls when it drops a connection; this task itself was not cancelled.
        raise ConnectionLost("the connection was dropped") from None


async def retry_until_deadline(operation: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Run an operation, retry it when the connection is lost, and raise BusUnavailable after the deadline."""
    try:
        async with asyncio.timeout(seconds):
            return await retry(operation, ConnectionLost, RETRY_BACKOFF, _note_retry)
    except TimeoutError:
        raise BusUnavailable(
            f"The message broker didn't answer within {seconds:g} s. Try again in a moment.", retry_after=5
        ) from None


def _note_retry(problem: ConnectionLost) -> None:
    log.info("bus_tries_again", problem=repr(problem))


class Link:
    """A connection that reconnects with backoff; no task runs while it is up."""

    def __init__(self, url: str, name: str) -> None:
        address = URL(url)
        if address.scheme not in {"amqp", "amqps"} or not address.host:
            raise ConfigurationInvalid("The URL of the message broker must begin with amqp:// or amqps:// and a host.")
        self._url = address.update_query({"heartbeat": HEARTBEAT_SECONDS, "name": name, **address.query})
        self._name = name
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self._closed = False
        self._problem = ""

    @property
    def connected(self) -> bool:
        """Whether the connection is up."""
        return self._up.is_set() and not self._closed

    async def open(self, timeout_seconds: float) -> None:
        """Connect for the first time; raise BusUnavailable on timeout."""
        self._connect()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._up.wait()
        except TimeoutError:
            raise BusUnavailable(f"The message broker can't be reached: {self._problem or 'no answer'}") from None

    async def wait_until_up(self) -> None:
        """Wait until the connection is up or closed; the caller sets the timeout."""
        await self._up.wait()

    async def channel(self, *, confirms: bool = False) -> AbstractChannel:
        """Open a channel as soon as the connection is up; the caller sets the timeout."""
        await self.wait_until_up()
        if self._closed or self._connection is None:
            raise BusClosed("The bus is closed.")
        async with translate_connection_errors():
            channel = self._connection.channel(publisher_confirms=confirms)
            await channel.initialize()
            return channel

    async def close(self) -> None:
        """Close the connection, or stop trying to connect."""
        self._closed = True
        self._up.set()  # wake up waiters: no connection will come
        if self._connecting:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        await _close(self._connection)

    def _connect(self) -> None:
        self._connecting = asyncio.create_task(self._connect_until_up(), name=f"bus-{self._name}-connects")

    def _lost(self, lost: Connection, problem: BaseException | None) -> None:
        if lost is self._connection and not self._closed and self._up.is_set():
            self._up.clear()
            log.warning("bus_connection_lost", connection=self._name, problem=repr(problem))
            self._connect()

    async def _connect_until_up(self) -> None:
        await _close(self._connection)
        attempt = 0
        while not await self._try_to_connect():
            await asyncio.sleep(RECONNECT_BACKOFF.seconds(attempt))
            attempt += 1
        self._up.set()
        log.info("bus_connected", connection=self._name, attempts=attempt + 1)
        if self._connection and self._connection.transport and self._connection.transport.connection.is_closed:
            self._lost(self._connection, None)  # lost before we looked

    async def _try_to_connect(self) -> bool:
        connection = Connection(self._url)

        def lost(_sender: Any, problem: BaseException | None) -> None:
            self._lost(connection, problem)

        connection.close_callbacks.add(lost)
        try:
            async with translate_connection_errors(), asyncio.timeout(CONNECT_SECONDS):
                await connection.connect()
        except (ConnectionLost, TimeoutError) as problem:
            described = str(problem) or "no answer"
            if described != self._problem:  # log each problem once, however long it lasts
                self._problem = described
                log.warning("bus_not_reached", connection=self._name, problem=self._problem)
            await _close(connection)
            return False
        except Exception:  # nothing awaits this task, so it must not die
            log.exception("bus_connecting_failed", connection=self._name)
            await _close(connection)
            return False
        except asyncio.CancelledError:
            await _close(connection)
            raise
        self._connection = connection
        self._problem = ""
        return True


async def _close(connection: Connection | None) -> None:
    """Close a connection explicitly, so that its finalizer doesn't try to."""
    if connection:
        with suppress(ConnectionLost, TimeoutError):
            async with translate_connection_errors(), asyncio.timeout(CLOSE_SECONDS):
                await connection.close()


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
