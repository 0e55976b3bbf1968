"""Runs the application with uvicorn."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from artel.api.app import create_app
from artel.api.http_protocol import BoundedHttp
from artel.api.listener import listen, url_of
from artel.container import Container
from artel.contract.connector import DEAD_SECONDS, MAX_FRAME_BYTES, PING_SECONDS
from artel.memory_tuning import freeze_startup_objects

GRACE_SECONDS = 6
KEEP_ALIVE_SECONDS = 75  # longer than clients and proxies keep an idle connection: they would reuse a closed one


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._stopping = stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn re-raises the signal after shutdown, which would end the process before the database is closed.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _stop(self, number: int) -> None:
        self._stopping()
        self.handle_exit(number, None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


async def serve(container: Container, ready: Callable[[str], None], inherited: socket.socket | None = None) -> None:
    """Serve until a signal arrives; call `ready` with the URL once the server accepts requests.

    A worker inherits the socket that it listens on.
    """
    settings = container.settings
    listener = inherited or listen(settings.host, settings.port)
    url = url_of(settings.host, listener)

    def announce() -> None:
        freeze_startup_objects()
        container.folder.announce(url)
        ready(url)

    config = uvicorn.Config(
        create_app(container),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        lifespan="off",
        ws=_websocket,  # type: ignore[arg-type]
        ws_max_size=MAX_FRAME_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=DEAD_SECONDS - PING_SECONDS,
        ws_per_message_deflate=False,  # a small compressed message could be huge in memory
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        http=BoundedHttp,
    )
    with listener:
        await _Server(config, announce, container.begin_shutdown).serve([listener])


def _websocket(**options: Any) -> asyncio.Protocol:
    """Return the WebSocket protocol; imported with the first connection, because the import takes 0.15 s."""
    from artel.api.socket_protocol import BoundedSocket

    return BoundedSocket(**options)
