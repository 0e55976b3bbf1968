"""Reads an HTTP/1.1 response of a server that nobody trusts: bounded headers, body and decompression."""

import zlib

MAX_HEADERS = 100
FINAL = 200  # lower status codes announce another response
_ZLIB_METHOD = 8
_ENCODINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class WebFailed(Exception):
    """A page could not be fetched; the message is for the model and says why."""


def too_large(most: int) -> WebFailed:
    """Return the error for a page of more than `most` bytes."""
    return WebFailed(f"The page is larger than {most / 1_000_000:g} MB.")


class ResponseReader:
    """Parses a response as its bytes arrive."""

    def __init__(self, max_header_bytes: int) -> None:
        # Lazy: nodes and servers that fetch nothing don't need the parser.
        import httptools

        self._errors = (httptools.HttpParserError, httptools.HttpParserUpgrade)
        self._parser = httptools.HttpResponseParser(self)
        self._max_header_bytes = max_header_bytes
        self._received = 0
        self._headers: list[tuple[str, str]] = []
        self._pieces: list[bytes] = []
        self.status = 0
        self.has_headers = False
        self.is_complete = False

    def feed(self, data: bytes) -> None:
        """Parse the next bytes; raise WebFailed if they are not HTTP, or if the headers are too long.

        What follows a complete response is ignored.
        """
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except self._errors:
            if not self.is_complete:
                raise WebFailed("The server's answer is not valid HTTP.") from None
        is_long = not self.has_headers and self._received > self._max_header_bytes
        if is_long or len(self._headers) > MAX_HEADERS:
            raise WebFailed("The headers of the server's answer are too long.")

    def take_body(self) -> bytes:
        """Return the part of the body that has arrived since the last call."""
        body = b"".join(self._pieces)
        self._pieces.clear()
        return body

    def header(self, name: str) -> str:
        """Return a header's value, "" if there is none; several headers of one name are joined with commas."""
        return ", ".join(value for key, value in self._headers if key == name)

    def first_header(self, name: str) -> str:
        """Return the value of the first header of a name, "" if there is none."""
        return next((value for key, value in self._headers if key == name), "")

    @property
    def ends_with_connection(self) -> bool:
        """Whether only the end of the connection marks the end of the body."""
        return not self.header("content-length") and not self.header("transfer-encoding")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; called by the parser, also for trailers, which are ignored."""
        if not self.has_headers:
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1").strip()))

    def on_headers_complete(self) -> None:
        """Take the status; called by the parser."""
        if self.is_complete:
            return
        self.status = self._parser.get_status_code()
        if self.status >= FINAL:
            self.has_headers = True
        else:
            self._headers.clear()

    def on_body(self, piece: bytes) -> None:
        """Take a part of the body; called by the parser."""
        if not self.is_complete:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Note the end of a response; called by the parser."""
        self.is_complete = self.has_headers


class BodyDecoder:
    """Collects a body, decompressed if need be, up to a number of bytes before and after decompression."""

    def __init__(self, encoding: str, most: int) -> None:
        """`encoding` is the header Content-Encoding; raise WebFailed unless it is one that can be undone."""
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", *_ENCODINGS):
            raise WebFailed(f"The page is compressed in a way that is not supported: {encoding[:50]!r}.")
        self._is_plain = self._encoding not in _ENCODINGS
        self._most = most
        self._received = 0
        self._start = b""
        self._body = bytearray()
        self._decompressor: zlib._Decompress | None = None

    def add(self, data: bytes) -> None:
        """Add the next bytes as they were sent; raise WebFailed if there are too many or they are damaged."""
        self._received += len(data)
        if self._received > self._most:
            raise too_large(self._most)
        if self._is_plain:
            self._body += data
            return
        if self._decompressor is None:
            self._start += data
            if len(self._start) < 2:  # noqa: PLR2004 - the bytes that tell the formats apart
                return
            data, self._start = self._start, b""
            self._decompressor = zlib.decompressobj(self._window_bits(data))
        try:
            # One byte more than allowed, to see that it is too much: nothing larger is ever in memory.
            self._body += self._decompressor.decompress(data, self._most - len(self._body) + 1)
        except zlib.error:
            raise self._damaged() from None
        if len(self._body) > self._most:
            raise too_large(self._most)
        if self._decompressor.unused_data:
            raise self._damaged()

    def finish(self) -> bytes:
        """Return the whole body; raise WebFailed if its compressed form is not complete."""
        if self._received and not self._is_plain and (self._decompressor is None or not self._decompressor.eof):
            raise self._damaged()
        return bytes(self._body)

    def _window_bits(self, start: bytes) -> int:
        """Return the parameter of zlib; some servers send `deflate` without the header that belongs to it."""
        has_header = start[0] & 0x0F == _ZLIB_METHOD and int.from_bytes(start[:2], "big") % 31 == 0
        return -15 if self._encoding == "deflate" and not has_header else _ENCODINGS[self._encoding]

    @staticmethod
    def _damaged() -> WebFailed:
        return WebFailed("The page is damaged: it can't be decompressed.")
