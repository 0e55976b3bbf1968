"""An incremental parser for server-sent events."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineTooLong(ValueError):
    """A line exceeds the length limit."""


class EventParser:
    """Turns chunks of a byte stream into the data of its events."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._rest = b""
        self._data: list[bytes] = []
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Parse the next chunk and return the data of the events that it completes."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        events: list[bytes] = []
        for line in lines:
            self._take(line.removesuffix(b"\r"), events)
        if len(self._rest) > self._max_line_bytes + 1:  # a carriage return may be the last byte
            raise LineTooLong(f"a line has more than {self._max_line_bytes} bytes")
        return events

    def finish(self) -> list[bytes]:
        """End the stream; return the data of an event that no empty line has closed."""
        events: list[bytes] = []
        self._take(self._rest.removesuffix(b"\r"), events)
        self._take(b"", events)
        self._rest = b""
        return events

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if len(line) > self._max_line_bytes:
            raise LineTooLong(f"a line has more than {self._max_line_bytes} bytes")
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        # Everything else is a comment, or a field (event, id, retry) that is ignored.
