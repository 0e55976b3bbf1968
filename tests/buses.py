"""Brokers and buses for tests, a proxy that cuts their connections, and what receives messages."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import aio_pika
from yarl import URL

from artel.bus import topology
from artel.bus.bus import Bus, DeadLetter, Delivery, Hint
from artel.bus.local import LocalBroker, LocalBus
from artel.bus.rabbit import RabbitBus
from artel.bus.receiver import Received
from artel.contract.envelope import Command, Envelope, Result

T = TypeVar("T")
SOON = 60.0  # timeout that only a broken test reaches


class World(Protocol):
    """One broker, and the buses on it."""

    async def bus(self) -> Bus:
        """Return a new bus, as another process would have."""
        ...

    async def send_raw(self, key: str, body: bytes, reply_to: str | None = None) -> None:
        """Send a body that is not an envelope."""
        ...


class LocalWorld:
    """Buses that share an in-process broker."""

    def __init__(self) -> None:
        self.broker = LocalBroker()
        self.buses: list[Bus] = []

    async def bus(self) -> Bus:
        self.buses.append(LocalBus(self.broker))
        return self.buses[-1]

    async def send_raw(self, key: str, body: bytes, reply_to: str | None = None) -> None:
        self.broker.publish(Received(body, key, reply_to, "raw", attempt=1), 60)


class RabbitWorld:
    """Buses on a real broker."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.buses: list[Bus] = []

    async def bus(self) -> Bus:
        self.buses.append(await RabbitBus.connect(self.url, name="tests"))
        return self.buses[-1]

    async def send_raw(self, key: str, body: bytes, reply_to: str | None = None) -> None:
        async with await aio_pika.connect(self.url) as connection, connection.channel() as channel:
            exchange = await channel.get_exchange(topology.MAIN_EXCHANGE)
            await exchange.publish(aio_pika.Message(body, reply_to=reply_to, correlation_id="raw"), key)


class Wire:
    """A TCP proxy to the broker whose connections can be cut."""

    def __init__(self, url: str) -> None:
        self._broker = URL(url)
        self._port = 0
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()
        self.clients: set[asyncio.StreamWriter] = set()  # the connections that are forwarded
        self._frozen: list[asyncio.Event] = []
        self._flows = asyncio.Event()  # of the connections from now on
        self._flows.set()

    async def up(self) -> str:
        """Start to forward connections and return the URL to use."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return str(self._broker.with_port(self._port))

    def cut(self) -> None:
        """Abort every connection; new ones are forwarded."""
        for end in self._ends:
            end.transport.abort()

    def freeze(self, *, new_too: bool = True) -> None:
        """Let nothing more pass, not even the end of a connection; `new_too` holds also for new connections."""
        self._flows.clear()
        self._frozen.append(self._flows)
        if not new_too:
            self._flows = asyncio.Event()
            self._flows.set()

    def thaw(self) -> None:
        """Let everything pass again."""
        for flows in self._frozen:
            flows.set()

    def cut_clients(self) -> None:
        """Abort the connections of the clients; if they are frozen, the broker does not notice."""
        for end in self.clients:
            end.transport.abort()

    def cut_broker(self) -> None:
        """Abort the connections of the broker; if they are frozen, the clients do not notice."""
        for end in self._ends - self.clients:
            end.transport.abort()

    async def down(self) -> None:
        """Abort every connection and refuse new ones."""
        self.thaw()
        if self._server:
            self._server.close()
        self.cut()
        if self._pipes:
            await asyncio.wait(self._pipes, timeout=SOON)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(self._broker.host, self._broker.port)
        except OSError:
            writer.transport.abort()
            return
        self._ends |= {writer, broker_writer}
        self.clients.add(writer)
        for source, target in ((reader, broker_writer), (broker_reader, writer)):
            pipe = asyncio.create_task(self._pump(source, target, self._flows))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        with suppress(OSError):
            while chunk := await source.read(65536):
                await flows.wait()
                target.write(chunk)
                await target.drain()
        await flows.wait()
        target.transport.abort()
        self._ends.discard(target)
        self.clients.discard(target)


class Inbox:
    """A handler that records deliveries; it can block until `go_on` is set, or fail the first attempts."""

    def __init__(self, *, held: bool = False, fails: int = 0) -> None:
        self.deliveries: list[Delivery] = []
        self.finished = 0
        self.running = 0
        self.most = 0
        self.go_on = asyncio.Event()
        self._fails = fails
        self._changed = asyncio.Condition()
        if not held:
            self.go_on.set()

    async def __call__(self, delivery: Delivery) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await self._keep(delivery)
        try:
            await self.go_on.wait()
            if delivery.attempt <= self._fails:
                raise RuntimeError("as the test wants it")
            self.finished += 1
        finally:
            self.running -= 1
            async with self._changed:
                self._changed.notify_all()

    async def _keep(self, delivery: Delivery) -> None:
        async with self._changed:
            self.deliveries.append(delivery)
            self._changed.notify_all()

    async def until(self, condition: Callable[["Inbox"], bool]) -> None:
        """Wait until the condition is true."""
        async with asyncio.timeout(SOON), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def holds(self, count: int) -> list[str]:
        """Wait for that many deliveries and return their actions."""
        await self.until(lambda inbox: len(inbox.deliveries) >= count)
        return self.actions

    async def has_finished(self, count: int) -> None:
        """Wait until that many deliveries are handled."""
        await self.until(lambda inbox: inbox.finished >= count)

    @property
    def actions(self) -> list[str]:
        """The actions of all deliveries, in order."""
        return [delivery.envelope.data.action for delivery in self.deliveries]  # type: ignore[union-attr]


def command(action: str = "write") -> Envelope:
    return Envelope.of(Command(action=action), source="tests")


def result(output: Any = None) -> Envelope:
    return Envelope.of(Result(output=output), source="tests")


async def eventually(ask: Callable[[], Awaitable[T]]) -> T:
    """Poll until the result is true and return it."""
    async with asyncio.timeout(SOON):
        while True:
            if answer := await ask():
                return answer
            await asyncio.sleep(0.02)


async def wait_for_dead_letters(bus: Bus, queue: str, count: int = 1) -> list[DeadLetter]:
    """Wait until a queue has that many dead letters and return them."""

    async def ask() -> list[DeadLetter]:
        found = [letter for letter in await bus.dead_letters(10_000) if letter.queue == queue]
        return found if len(found) >= count else []

    return await eventually(ask)


def running() -> set[asyncio.Task[Any]]:
    """Return every task except those of the test runner."""
    return {task for task in asyncio.all_tasks() if "TestRunner" not in str(task.get_coro())}


async def assert_no_new_tasks(before: set[asyncio.Task[Any]]) -> None:
    """Assert that all tasks started since `before` end within a second."""
    left = running() - before
    if left:
        _, left = await asyncio.wait(left, timeout=1)
    assert not left


class Hints:
    """A callback that records the hints of a bus."""

    def __init__(self, bus: Bus) -> None:
        self.seen: list[Hint] = []
        self._came = asyncio.Event()
        self.stop = bus.on_hint(self)

    def __call__(self, hint: Hint) -> None:
        self.seen.append(hint)
        self._came.set()

    async def until(self, hint: Hint) -> None:
        """Wait for a hint."""
        async with asyncio.timeout(SOON):
            while hint not in self.seen:
                self._came.clear()
                await self._came.wait()
