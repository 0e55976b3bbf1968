"""uvicorn's HTTP protocol with limits: size and timeout of request line and headers, and a send timeout."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from artel.logs import get_logger

MAX_HEAD_BYTES = 65_536
HEAD_SECONDS = 20
SEND_SECONDS = 30  # a client that reads nothing for so long is disconnected
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

log = get_logger(__name__)


class BoundedHttp(HttpToolsProtocol):
    """Closes a connection whose request line and headers are too large or don't arrive in time.

    Aborts a connection whose client does not read what is sent, because the unsent data is in memory.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._completed = False
        self._head_bytes = 0
        self._head_deadline: asyncio.TimerHandle | None = None
        self._send_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_send_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head and self._head_deadline is None:  # first bytes of the next request on a kept-alive connection
            self._start_timer()
        self._completed = False
        super().data_received(data)
        if self._in_head and not self._completed:  # the head is still incomplete
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head = self._completed = True
        self._head_bytes = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        self._stop_send_timer()
        self._send_deadline = self.loop.call_later(SEND_SECONDS, self._disconnect_reader)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stop_send_timer()
        super().resume_writing()

    def _disconnect_reader(self) -> None:
        log.info("reader_cut_off", reason="the send timeout expired")
        self.transport.abort()

    def _stop_send_timer(self) -> None:
        if self._send_deadline is not None:
            self._send_deadline.cancel()
            self._send_deadline = None

    def _start_timer(self) -> None:
        self._stop_timer()
        self._head_deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None
