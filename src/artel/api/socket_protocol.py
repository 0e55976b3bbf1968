"""uvicorn's WebSocket protocol with an adjustable size limit for messages."""

from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

from artel.api.connectors import FRAME_LIMIT
from artel.contract.connector import MAX_HELLO_BYTES

MAX_FRAGMENTS = 1_000
MESSAGE_SECONDS = 60.0  # timeout for receiving one message


class BoundedSocket(WebSocketsSansIOProtocol):
    """Closes a connection when a message exceeds the size limit, before all of it is in memory.

    Also closes it when a message stays incomplete for too long, because its fragments take up memory.
    """

    message_seconds = MESSAGE_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._max_bytes = MAX_HELLO_BYTES
        self._incomplete: TimerHandle | None = None
        # A copy, because the dict is shared by all connections.
        self.app_state = {**self.app_state, FRAME_LIMIT: self._limit}

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = len(self.conn.reader.buffer) + sum(map(len, self.frames))
        if (waiting > self._max_bytes or len(self.frames) > MAX_FRAGMENTS) and not self.close_sent:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"over {self._max_bytes} bytes")
        elif not waiting:
            self._stop_timer()
        elif self._incomplete is None:
            self._incomplete = self.loop.call_later(self.message_seconds, self._check_incomplete)

    def send_receive_event_to_app(self) -> None:
        """Pass a complete message on and stop its timer."""
        self._stop_timer()
        super().send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _check_incomplete(self) -> None:
        if self.read_paused:  # the server itself has paused reading
            self._incomplete = self.loop.call_later(self.message_seconds, self._check_incomplete)
        elif not self.close_sent:
            self._fail(CloseCode.POLICY_VIOLATION, f"a message took over {self.message_seconds:g} seconds")

    def _fail(self, code: CloseCode, reason: str) -> None:
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    def _stop_timer(self) -> None:
        if self._incomplete is not None:
            self._incomplete.cancel()
            self._incomplete = None

    def _limit(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
