"""uvicorn's WebSocket protocol with a limit on messages that changes: small at first, large for large answers."""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

from artel.api.connectors import FRAME_LIMIT
from artel.contract.connector import MAX_HELLO_BYTES

MAX_FRAGMENTS = 1_000


class BoundedSocket(WebSocketsSansIOProtocol):
    """Closes a connection as soon as more of a message has come than it may have, before all of it is in memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most_bytes = MAX_HELLO_BYTES
        self.app_state = {**self.app_state, FRAME_LIMIT: self._limit}  # the given one belongs to all connections

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = len(self.conn.reader.buffer) + sum(map(len, self.frames))
        if (waiting > self._most_bytes or len(self.frames) > MAX_FRAGMENTS) and not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"over {self._most_bytes} bytes")
            self.handle_parser_exception()

    def _limit(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
