"""Web servers with scripted answers, and an internet in which public addresses lead to them."""

import asyncio
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """A web server: what it answers by path, and what it was asked."""

    host: str
    pages: dict[str, Reply] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    accepted: int = 0
    port: int = 0
    _open: dict[asyncio.StreamWriter, "asyncio.Task[None]"] = field(default_factory=dict)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection."""
        self.accepted += 1
        self._open[writer] = asyncio.create_task(self._answer(reader, writer))

    async def close(self) -> None:
        """Break all connections."""
        for writer, answering in self._open.items():
            answering.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._open.values(), return_exceptions=True)
        for writer in self._open:
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request and close the connection."""
        with suppress(OSError, EOFError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head)
            reply = self.pages.get(head.split()[1], response(status="404 Not Found"))
            if isinstance(reply, bytes):
                writer.write(reply)
                await writer.drain()
            else:
                await reply(writer)
        writer.close()


@asynccontextmanager
async def web_site(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """Run a site on a free port."""
    site = Site(host)
    server = await asyncio.start_server(site.accept, host, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for _ in range(5):  # what is being accepted gets a task first
            await asyncio.sleep(0)
        await site.close()


def response(body: bytes = b"", status: str = "200 OK", kind: str = "text/plain", **headers: str) -> bytes:
    """Return a response; a header's name is written with underscores, and "" leaves it out."""
    lines = {"Content-Type": kind, "Content-Length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    """Return a redirect."""
    return response(status=status, Location=location)


class Internet:
    """Public addresses that lead to local sites, names for them, and a note of every connection that is tried.

    No connection leaves the machine: what is not the address of a site can't be reached.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dialled: list[str] = []
        self.names: dict[str, list[Sequence[str]]] = {}  # answers one after another; the last one stays
        self._sites: dict[str, Site] = {}
        self._peers: weakref.WeakKeyDictionary[socket.socket, tuple[Any, ...]] = weakref.WeakKeyDictionary()
        self._connect, self._getpeername = socket.socket.connect, socket.socket.getpeername
        internet = self

        def connect(self: socket.socket, address: tuple[Any, ...]) -> None:
            internet.dial(self, address)

        def getpeername(self: socket.socket) -> Any:
            return internet._peers.get(self) or internet._getpeername(self)

        monkeypatch.setattr(socket.socket, "connect", connect)
        monkeypatch.setattr(socket.socket, "getpeername", getpeername)

    def add(self, address: str, site: Site, *names: str, is_honest: bool = True) -> None:
        """Make a site reachable; a connection that is not honest leads to another address."""
        self._sites[address] = site
        self.names |= {name: [[address]] for name in names}
        self._is_honest = is_honest

    def dial(self, dialling: socket.socket, address: tuple[Any, ...]) -> None:
        """Connect a socket with the site at an address."""
        self.dialled.append(address[0])
        site = self._sites.get(address[0])
        if site is None:
            raise ConnectionRefusedError(f"nothing is at {address[0]}")
        self._peers[dialling] = address if self._is_honest else ("203.0.114.77", *address[1:])
        self._connect(dialling, (site.host, site.port))

    async def resolve(self, host: str, _port: int) -> Sequence[str]:
        """Return the next answer for a name."""
        answers = self.names.get(host, [[]])
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    return Internet(monkeypatch)
