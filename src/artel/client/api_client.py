"""The client of the HTTP API."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Self

import httpx

from artel import __version__
from artel.errors import ArtelError, Kind

TIMEOUT = httpx.Timeout(30, connect=5)
STREAM_TIMEOUT = httpx.Timeout(40, connect=5)  # the server sends a keepalive every 15 seconds
MAX_PAGE = 100

_KINDS = {
    401: Kind.UNAUTHENTICATED,
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    409: Kind.CONFLICT,
    413: Kind.TOO_LARGE,
    414: Kind.TOO_LONG,
    429: Kind.TOO_MANY,
    503: Kind.UNAVAILABLE,
}


class ServerUnreachable(ArtelError, kind=Kind.UNAVAILABLE, code="server_unreachable"):
    """The connection to the server can't be made."""


class ResponseLost(ServerUnreachable):
    """The connection broke or timed out after a request was sent, which the server may have processed."""


class ServerRefused(ArtelError):
    """The server returned an error."""

    def __init__(self, status: int, code: str, detail: str, retry_after: int | None = None) -> None:
        super().__init__(detail, retry_after=retry_after)
        self.kind = _KINDS.get(status, Kind.INVALID if status < HTTPStatus.INTERNAL_SERVER_ERROR else Kind.UNAVAILABLE)
        self.code = code


class ApiClient:
    """A client for one server and one user."""

    def __init__(self, server: str, token: str | None = None) -> None:
        headers = {"User-Agent": f"artel/{__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.server = server
        try:
            needs_tls = not server.startswith("http:")  # the certificates of all authorities take 30 ms to load
            self._http = httpx.Client(base_url=server, headers=headers, timeout=TIMEOUT, verify=needs_tls)
        except (httpx.InvalidURL, ValueError) as invalid:
            detail = f"{server} is not a valid server address. Example: http://127.0.0.1:8700"
            raise ServerUnreachable(detail) from invalid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_details: object) -> None:
        self._http.close()

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Return the body of the response; raise ServerRefused for an error status."""
        with self._translated():
            response = self._http.request(method, path, **options)
        if response.is_success:
            return response.json() if response.content else None
        raise _refused(response)

    @contextmanager
    def stream(self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any) -> Iterator[Any]:
        """Open an `httpx.Response` to stream; raise ServerRefused for an error status."""
        options |= {"headers": {"Accept": "text/event-stream"} | (headers or {}), "timeout": STREAM_TIMEOUT}
        with self._translated(), self._http.stream(method, path, **options) as response:
            if not response.is_success:
                response.read()
                raise _refused(response)
            yield response

    def all_items(self, path: str, **filters: Any) -> list[Any]:
        """Return all items of a list, fetched page by page."""
        items: list[Any] = []
        while True:
            page = self.call("GET", path, params={**filters, "limit": MAX_PAGE, "offset": len(items)})
            items += page["items"]
            if not page["items"] or len(items) >= page["total"]:
                return items

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate errors of httpx to ours."""
        try:
            yield
        except httpx.LocalProtocolError as failure:  # its text contains the headers, and so the token
            raise ServerUnreachable(f"The request to {self.server} is invalid and was not sent.") from failure
        except (httpx.TransportError, httpx.InvalidURL) as failure:
            connected = not isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout | httpx.InvalidURL)
            raise (ResponseLost if connected else ServerUnreachable)(
                f"No answer from {self.server} ({failure}). Is it running? `artel up` starts one here."
            ) from failure


def _refused(response: httpx.Response) -> ServerRefused:
    try:
        problem = response.json()
        seconds = response.headers.get("retry-after", "")
        retry_after = int(seconds) if seconds.isdecimal() else None
        return ServerRefused(response.status_code, str(problem["code"]), str(problem["detail"]), retry_after)
    except (ValueError, KeyError, TypeError):
        return ServerRefused(
            response.status_code, "no_artel", f"{response.url} answered {response.status_code}; is it an Artel server?"
        )
