"""uvicorn's WebSocket protocol with a limit on messages that changes: small at first, large for large answers."""

from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

from artel.api.connectors import FRAME_LIMIT
from artel.contract.connector import MAX_HELLO_BYTES

MAX_FRAGMENTS = 1_000
MESSAGE_SECONDS = 60.0  # for which a message may be on its way


class BoundedSocket(WebSocketsSansIOProtocol):
    """Closes a connection as soon as more of a message has come than it may have, before all of it is in memory.

    It does so too when a message does not come to its end: what has come of it takes up memory.
    """

    message_seconds = MESSAGE_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most_bytes = MAX_HELLO_BYTES
        self._incomplete: TimerHandle | None = None
        self.app_state = {**self.app_state, FRAME_LIMIT: self._limit}  # the given one belongs to all connections

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = len(self.conn.reader.buffer) + sum(map(len, self.frames))
        if (waiting > self._most_bytes or len(self.frames) > MAX_FRAGMENTS) and not self.close_sent:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"over {self._most_bytes} bytes")
        elif not waiting:
            self._stop_timer()
        elif self._incomplete is None:
            self._incomplete = self.loop.call_later(self.message_seconds, self._check_incomplete)

    def send_receive_event_to_app(self) -> None:
        """Pass a whole message on; the next one has its own time."""
        self._stop_timer()
        super().send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _check_incomplete(self) -> None:
        if self.read_paused:  # it is the server that does not read on
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

    def _limit(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
