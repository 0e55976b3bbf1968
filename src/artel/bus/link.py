"""Connections to RabbitMQ that reconnect by themselves, with consumers and a publisher that resume with them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import aiormq
from aio_pika import Connection, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import CONNECTION_EXCEPTIONS, DeliveryError
from yarl import URL

from artel.bus.bus import BusClosed, BusUnavailable, QueueFull
from artel.bus.declarations import declare_exchanges
from artel.errors import ArtelError, ConfigurationInvalid
from artel.logs import get_logger
from artel.retry import Backoff, retry

PORTS = {"amqp": 5672, "amqps": 5671}
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


class BrokerConnectionLost(Exception):
    """The connection or channel was lost during an operation, which may or may not have taken effect."""


@asynccontextmanager
async def translate_connection_errors() -> AsyncIterator[None]:
    """Turn every error that the client library raises for a lost connection into BrokerConnectionLost."""
    try:
        yield
    except (*CONNECTION_EXCEPTIONS, EOFError) as problem:
        if isinstance(problem, TimeoutError):  # TimeoutError is an OSError, but here it is our own deadline
            raise
        raise BrokerConnectionLost(str(problem) or type(problem).__name__) from problem
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # The library cancels pending calls when it drops a connection; this task itself was not cancelled.
        raise BrokerConnectionLost("the connection was dropped") from None


async def retry_until_deadline(operation: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Run an operation, retry it when the connection is lost, and raise BusUnavailable after the deadline."""

    def note(problem: BrokerConnectionLost) -> None:
        log.info("bus_tries_again", problem=repr(problem))

    try:
        async with asyncio.timeout(seconds):
            return await retry(operation, BrokerConnectionLost, RETRY_BACKOFF, note)
    except TimeoutError:
        raise BusUnavailable(
            f"The message broker didn't answer within {seconds:g} s. Try again in a moment.", retry_after=5
        ) from None


async def ignore_loss(operation: Awaitable[object], seconds: float = CLOSING_SECONDS) -> None:
    """Await an operation that only cleans up, and ignore a lost connection or a timeout."""
    with suppress(BrokerConnectionLost, TimeoutError):
        async with translate_connection_errors(), asyncio.timeout(seconds):
            await operation


class Link:
    """A connection that reconnects with backoff; no task runs while it is up."""

    def __init__(self, url: str, name: str) -> None:
        try:
            address = URL(url)
        except ValueError:  # whose message may have the password in it
            raise ConfigurationInvalid(
                "The URL of the message broker can't be read. Its port is a number up to 65535, and special characters "
                "in its password are percent-encoded: %2F for a slash."
            ) from None
        if address.scheme not in PORTS or not address.host:
            raise ConfigurationInvalid("The URL of the message broker must begin with amqp:// or amqps:// and a host.")
        self._url = address.update_query({"heartbeat": HEARTBEAT_SECONDS, "name": name, **address.query})
        heartbeat = self._url.query["heartbeat"]
        if not heartbeat.isdecimal():
            raise ConfigurationInvalid("The heartbeat in the URL of the message broker must be a number of seconds.")
        self.heartbeat_seconds = int(heartbeat) or HEARTBEAT_SECONDS
        self._name = name
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self.up = asyncio.Event()  # also set when the link is closed
        self._closed = False
        self._problem = ""

    @property
    def connected(self) -> bool:
        """Whether the connection is up."""
        return self.up.is_set() and not self._closed

    async def open(self, timeout_seconds: float) -> None:
        """Connect for the first time; raise BusUnavailable on timeout."""
        self._connect()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.up.wait()
        except TimeoutError:
            port = self._url.port or PORTS[self._url.scheme]
            raise BusUnavailable(
                f"The message broker at {self._url.host}:{port} can't be reached: "
                f"{self._problem or 'no answer'}. Is it running, and is its URL right?"
            ) from None

    async def channel(self, *, confirms: bool = False) -> AbstractChannel:
        """Open a channel as soon as the connection is up; the caller sets the timeout."""
        await self.up.wait()
        if self._closed or self._connection is None:
            raise BusClosed("The bus is closed.")
        async with translate_connection_errors():
            channel = self._connection.channel(publisher_confirms=confirms)
            await channel.initialize()
            return channel

    async def close(self) -> None:
        """Close the connection, or stop trying to connect."""
        self._closed = True
        self.up.set()  # wake up waiters: no connection will come
        if self._connecting:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        await self._close()

    def _connect(self) -> None:
        self._connecting = asyncio.create_task(self._connect_until_up(), name=f"bus-{self._name}-connects")

    async def _close(self) -> None:
        """Close the connection explicitly, so that its finalizer doesn't try to."""
        if self._connection:
            await ignore_loss(self._connection.close(), CLOSE_SECONDS)

    def _lost(self, lost: Connection, _sender: Any, problem: BaseException | None) -> None:
        if lost is self._connection and not self._closed and self.up.is_set():
            self.up.clear()
            log.warning("bus_connection_lost", connection=self._name, problem=repr(problem))
            self._connect()

    def _described(self, problem: Exception) -> str:
        if isinstance(problem.__cause__, aiormq.exceptions.InvalidFrameError):  # the client lost what the broker said
            host = self._url.path.removeprefix("/") or "/"
            return f"it refuses the virtual host {host!r}, which has to exist and to be open to this user"
        return str(problem).rstrip(".") or "no answer"

    async def _connect_until_up(self) -> None:
        attempts = 0

        async def connect() -> Connection:
            nonlocal attempts
            attempts += 1
            await self._close()  # the lost connection, or the one of the last attempt
            connection = self._connection = Connection(self._url)
            connection.close_callbacks.add(partial(self._lost, connection))
            async with translate_connection_errors(), asyncio.timeout(CONNECT_SECONDS):
                await connection.connect()
            return connection

        def note(problem: Exception) -> None:
            if not isinstance(problem, BrokerConnectionLost | TimeoutError):
                log.error("bus_connecting_failed", connection=self._name, exc_info=problem)
            elif (described := self._described(problem)) != self._problem:  # once, however long it lasts
                self._problem = described
                log.warning("bus_not_reached", connection=self._name, problem=described)

        # Any failure is retried: nothing awaits this task, so it must not die.
        connection = await retry(connect, Exception, RECONNECT_BACKOFF, note)
        self._problem = ""
        self.up.set()
        log.info("bus_connected", connection=self._name, attempts=attempts)
        if connection.transport and connection.transport.connection.is_closed:  # lost before we looked
            self._lost(connection, None, None)


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
            await ignore_loss(channel.close())
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
            await ignore_loss(self._queue.cancel(self._tag))

    async def delete_queue(self, name: str) -> None:
        """Delete a queue if the channel is still open."""
        if self._channel and not self._channel.is_closed:
            await ignore_loss(self._channel.queue_delete(name))

    async def close(self) -> None:
        """Close the channel; unacknowledged messages return to the queue."""
        await self.stop()
        if self._channel:
            await ignore_loss(self._channel.close())

    def _lost(self, channel: AbstractChannel) -> None:
        if channel is self._channel and not self._stopped:
            self._channel = None
            self._restoring = asyncio.create_task(self._restore(channel), name=f"bus-{self._name}-restores")

    async def _restore(self, lost: AbstractChannel) -> None:
        attempts = 0

        async def reopen() -> None:
            nonlocal attempts
            attempts += 1
            await self._link.up.wait()
            async with asyncio.timeout(STEP_SECONDS):
                await self.open()

        def note(problem: Exception) -> None:
            if isinstance(problem, BrokerConnectionLost | TimeoutError | ArtelError):
                log.warning("bus_queue_not_restored", queue=self._name, problem=repr(problem))
            else:
                log.error("bus_queue_not_restored", queue=self._name, exc_info=problem)

        await ignore_loss(lost.close())
        await retry(reopen, Exception, RECONNECT_BACKOFF, note)  # any failure: nothing awaits this task
        log.info("bus_queue_restored", queue=self._name, attempts=attempts)


class Publisher:
    """One channel with confirms, reopened when it is lost; messages are confirmed concurrently."""

    def __init__(self, link: Link, deadline_seconds: float) -> None:
        self._link = link
        self._deadline_seconds = deadline_seconds
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()

    async def send(self, exchange: str, key: str, message: Message) -> bool:
        """Send until the broker confirms, again after a lost connection; return whether a queue received it."""

        async def send_once() -> bool:
            channel = await self.open()
            async with translate_connection_errors():
                target = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
                try:
                    confirmed = await target.publish(message, key, mandatory=True)
                except DeliveryError:
                    raise QueueFull(f"A queue for {key} is full. Try again in a moment.", retry_after=1) from None
            return isinstance(confirmed, aiormq.spec.Basic.Ack)  # else it is the returned, unroutable message

        return await retry_until_deadline(send_once, self._deadline_seconds)

    async def open(self) -> AbstractChannel:
        """Return the channel; open it and declare the exchanges if it is missing or lost."""
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                await self.close()
                channel = await self._link.channel(confirms=True)
                try:
                    async with translate_connection_errors():
                        await declare_exchanges(channel)
                except BaseException:
                    await ignore_loss(channel.close())
                    raise
                self._channel = channel
            return self._channel

    async def close(self) -> None:
        """Close the channel."""
        if self._channel:
            await ignore_loss(self._channel.close())
