"""A small HTTP client that costs little, so that what is measured is the server."""

import asyncio
import statistics
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    """How fast a server answered."""

    per_second: float
    p50_ms: float
    p95_ms: float


async def _connection(port: int, request: bytes, count: int, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        started = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 2"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - started)
    writer.close()
    await writer.wait_closed()


def load(port: int, request: bytes, *, connections: int, count: int) -> Figures:
    """Send a request many times over some connections at once."""

    async def run() -> Figures:
        times: list[float] = []
        started = time.perf_counter()
        async with asyncio.timeout(300):
            await asyncio.gather(*(_connection(port, request, count // connections, times) for _ in range(connections)))
        elapsed = time.perf_counter() - started
        percentiles = statistics.quantiles(times, n=100)
        return Figures(len(times) / elapsed, percentiles[49] * 1000, percentiles[94] * 1000)

    return asyncio.run(run())


def request(method: str, path: str, token: str = "", body: bytes = b"") -> bytes:
    """Answer the bytes of a request."""
    headers = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n"
    if body:
        headers += "Content-Type: application/json\r\n"
    if token:
        headers += f"Authorization: Bearer {token}\r\n"
    return headers.encode() + b"\r\n" + body
