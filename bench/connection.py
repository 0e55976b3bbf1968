"""HTTP/1.1 over a raw socket: a client with little overhead, so that the server dominates the measurement."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any


class Connection:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._token = token

    @classmethod
    async def open(cls, port: int, token: str = "") -> "Connection":
        """Connect to a server on this machine."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        return cls(reader, writer, token)

    def send(self, method: str, path: str, body: Any = None, headers: str = "") -> None:
        """Send a request."""
        self._writer.write(request(method, path, self._token, body, headers))

    async def call(self, method: str, path: str, body: Any = None, headers: str = "") -> tuple[int, bytes]:
        """Send a request and return the status and the whole body."""
        self.send(method, path, body, headers)
        status, head = await self._head()
        if b"transfer-encoding: chunked" in head:
            return status, b"".join([piece async for piece in self._chunks()])
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        return status, await self._reader.readexactly(length)

    async def stream(self, method: str, path: str, body: Any = None) -> AsyncIterator[bytes]:
        """Yield the chunks of an event stream as they arrive."""
        self.send(method, path, body, "Accept: text/event-stream\r\n")
        status, head = await self._head()
        assert status == 200, (status, head)
        assert b"transfer-encoding: chunked" in head, head
        async for piece in self._chunks():
            yield piece

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()

    async def _head(self) -> tuple[int, bytes]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        return int(head[9:12]), head

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)


def request(method: str, path: str, token: str = "", body: Any = None, headers: str = "") -> bytes:
    """Return the bytes of a request; a body of bytes is a form, any other is sent as JSON."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n{headers}"
    if content:
        kind = "x-www-form-urlencoded" if isinstance(body, bytes) else "json"
        lines += f"Content-Type: application/{kind}\r\n"
    if token:
        lines += f"Authorization: Bearer {token}\r\n"
    return lines.encode() + b"\r\n" + content
