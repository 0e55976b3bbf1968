"""One connection to RabbitMQ that comes back by itself."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from aio_pika import Connection
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from yarl import URL

from artel.bus.bus import BusClosed, BusUnavailable
from artel.errors import ConfigurationInvalid
from artel.logs import get_logger

HEARTBEAT_SECONDS = 10
CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
AGAIN_SECONDS = 0.05

T = TypeVar("T")
log = get_logger(__name__)


class Lost(Exception):
    """The connection or the channel ended under our hands; what was asked may or may not have been done."""


@asynccontextmanager
async def losing() -> AsyncIterator[None]:
    """Raise Lost for everything that the client library says when a connection ends."""
    try:
        yield
    except (*CONNECTION_EXCEPTIONS, EOFError) as problem:
        if isinstance(problem, TimeoutError):  # an OSError, but a deadline of ours
            raise
        raise Lost(str(problem) or type(problem).__name__) from problem
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # The library ends waiting calls with this when it gives up a connection; nobody has cancelled us.
        raise Lost("the connection was given up") from None


async def persistently(step: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Take a step, again whenever the connection is lost under it; raise BusUnavailable after the deadline."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await step()
                except Lost as problem:
                    log.info("bus_tries_again", problem=repr(problem))
                    await asyncio.sleep(AGAIN_SECONDS)
    except TimeoutError:
        raise BusUnavailable(
            f"The message broker didn't answer within {seconds:g} s. Try again in a moment.", retry_after=5
        ) from None


def pause(attempt: int) -> float:
    """Return how long to wait before the next attempt: longer each time, and not all at the same moment."""
    longest: float = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(attempt, 10))
    return longest * random.uniform(0.5, 1)  # noqa: S311 - jitter, no secret


class Link:
    """A connection, made again whenever it is lost; nothing runs while it stands."""

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
        """Whether the connection stands."""
        return self._up.is_set() and not self._closed

    async def open(self, timeout_seconds: float) -> None:
        """Connect for the first time; raise BusUnavailable when that doesn't succeed in time."""
        self._connect()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._up.wait()
        except TimeoutError:
            raise BusUnavailable(f"The message broker can't be reached: {self._problem or 'no answer'}") from None

    async def wait_until_up(self) -> None:
        """Wait for the connection, or for its end; the caller knows how long."""
        await self._up.wait()

    async def channel(self, *, confirms: bool = False) -> AbstractChannel:
        """Open a channel as soon as the connection stands; the caller knows how long to wait."""
        await self.wait_until_up()
        if self._closed or self._connection is None:
            raise BusClosed("The bus is closed.")
        async with losing():
            channel = self._connection.channel(publisher_confirms=confirms)
            await channel.initialize()
            return channel

    async def close(self) -> None:
        """End the connection, or the attempts to get one."""
        self._closed = True
        self._up.set()  # whoever waits for a connection shall see that none will come
        if self._connecting:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        await _end(self._connection)

    def _connect(self) -> None:
        self._connecting = asyncio.create_task(self._connect_until_up(), name=f"bus-{self._name}-connects")

    def _lost(self, lost: Connection, problem: BaseException | None) -> None:
        if lost is self._connection and not self._closed and self._up.is_set():
            self._up.clear()
            log.warning("bus_connection_lost", connection=self._name, problem=repr(problem))
            self._connect()

    async def _connect_until_up(self) -> None:
        await _end(self._connection)
        attempt = 0
        while not await self._try_to_connect():
            await asyncio.sleep(pause(attempt))
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
            async with losing(), asyncio.timeout(CONNECT_SECONDS):
                await connection.connect()
        except (Lost, TimeoutError) as problem:
            described = str(problem) or "no answer"
            if described != self._problem:  # once for each problem, however long it lasts
                self._problem = described
                log.warning("bus_not_reached", connection=self._name, problem=self._problem)
            await _end(connection)
            return False
        except Exception:  # nobody waits for this task: it must not end by surprise
            log.exception("bus_connecting_failed", connection=self._name)
            await _end(connection)
            return False
        except asyncio.CancelledError:
            await _end(connection)
            raise
        self._connection = connection
        self._problem = ""
        return True


async def _end(connection: Connection | None) -> None:
    """Close a connection, so that it doesn't try to do so itself when it is collected as garbage."""
    if connection:
        with suppress(Lost, TimeoutError):
            async with losing(), asyncio.timeout(CLOSE_SECONDS):
                await connection.close()
