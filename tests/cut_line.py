"""A proxy to a server whose connections a test can cut."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CutLine:
    """A proxy to a server that can cut all connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.url = ""

    @contextmanager
    def running(self) -> Iterator["CutLine"]:
        """Run the proxy in a thread."""
        ready, stopped = threading.Event(), asyncio.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            ready.set()
            await stopped.wait()
            server.close()
            open_lines = asyncio.all_tasks() - {asyncio.current_task()}
            for line in open_lines:
                line.cancel()
            await asyncio.gather(*open_lines, return_exceptions=True)
            self._break_all()
            await asyncio.sleep(0)  # in which the transports close

        thread = threading.Thread(target=lambda: self._loop.run_until_complete(serve()), name="cut-line")
        thread.start()
        assert ready.wait(10)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(stopped.set)
            thread.join(10)
            self._loop.close()

    def lead_to(self, port: int) -> None:
        """Pass new connections on to another server."""
        self._port = port

    def cut(self) -> None:
        """Cut every open connection."""
        self._loop.call_soon_threadsafe(self._break_all)

    async def read_head(self, _reader: asyncio.StreamReader) -> bytes:
        """Read the beginning of a connection; return what is passed on instead. Subclasses change it."""
        return b""

    def _break_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        head = await self.read_head(reader)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
        except ConnectionError:  # no server is there
            writer.transport.abort()
            self._writers.discard(writer)
            return
        back.write(head)
        self._writers.add(back)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))
        self._writers -= {writer, back}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
