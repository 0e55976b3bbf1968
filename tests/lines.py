"""A proxy to a service that can be cut and restored, for tests of outages."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Line:
    """A proxy to a service; `url` is the URL of the service through the proxy."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port
        self._url, self._port = url, parts.port
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._whole = True

    @property
    def url(self) -> str:
        assert self._server
        return self._url.replace(f":{self._port}", f":{self._server.sockets[0].getsockname()[1]}")

    @contextmanager
    def running(self) -> Iterator["Line"]:
        """Run the proxy in a thread."""
        ready = threading.Event()

        async def serve() -> None:
            self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
            ready.set()
            with suppress(asyncio.CancelledError):
                await self._server.serve_forever()

        task = self._loop.create_task(serve())
        thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._until_over(task)), name="line")
        thread.start()
        try:
            assert ready.wait(10)
            yield self
        finally:
            self.cut()
            self._loop.call_soon_threadsafe(task.cancel)
            thread.join(10)
            self._loop.close()

    def cut(self) -> None:
        """Cut all connections and refuse new ones."""
        done = threading.Event()

        def break_all() -> None:
            self._whole = False
            for writer in self._open:
                writer.transport.abort()
            done.set()

        self._loop.call_soon_threadsafe(break_all)
        assert done.wait(10)

    def mend(self) -> None:
        """Accept connections again."""
        self._whole = True

    async def _until_over(self, task: asyncio.Task[None]) -> None:
        await asyncio.wait([task])
        while self._passing:
            await asyncio.wait(list(self._passing))

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._open |= {writer, to_writer}
        ways = [asyncio.create_task(_pass_on(reader, to_writer)), asyncio.create_task(_pass_on(to_reader, writer))]
        self._passing.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, to_writer):
            end.transport.abort()
        await asyncio.wait(ways)
        self._passing.difference_update(ways)
        self._open -= {writer, to_writer}


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
