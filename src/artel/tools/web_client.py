"""Fetches web pages for agents, from the public internet only, whatever a URL, a redirect or a DNS server says.

A host is resolved once, every address is checked, and the connection is made to a checked address and to nothing else;
each redirect begins anew. There are no cookies, credentials, proxies or shared connections.
"""

import asyncio
import http
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from artel.per_user_locks import PerUserSemaphore
from artel.tools.charset import decoded
from artel.tools.http_response import BodyDecoder, ResponseReader, WebFailed, too_large
from artel.tools.user_threads import UserThreads
from artel.web_address import Address, WebRefused, WebRules, WebTarget, parse_url

FETCHES = 16  # at the same time, of all users; each may hold 10 MB
FETCHES_PER_USER = 4
LOOKUPS = 16  # of names with the system's resolver, at the same time
LOOKUPS_PER_USER = 4
ADDRESSES_TRIED = 3
READ_BYTES = 16_384
USER_AGENT = "Artel/1 (web_fetch)"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/xhtml+xml", "application/javascript"})
_TEXT_ENDINGS = ("+json", "+xml")

T = TypeVar("T")
# Returns the addresses of a host, as texts; [] if it does not exist.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
# Reads a response.
Read = Callable[[WebTarget, asyncio.StreamReader], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class WebLimits:
    """Limits of one fetch, with all its redirects."""

    seconds: float = 15.0
    idle_seconds: float = 8.0  # without a byte
    lookup_seconds: float = 5.0
    connect_seconds: float = 5.0  # for each address tried, and for TLS
    redirects: int = 5
    header_bytes: int = 32_768
    body_bytes: int = 5_000_000  # compressed, and decompressed


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page: the URL that it was found at in the end, its type, the charset that the server names, its content."""

    url: str
    content_type: str
    charset: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class WebResponse:
    """A response of any status; `location` is "" unless it names another address."""

    status: int
    content_type: str
    charset: str | None
    location: str
    body: bytes

    def text(self) -> str:
        """Return the body as text."""
        return decoded(self.body, self.charset)


@dataclass(frozen=True, slots=True)
class _Redirect:
    location: str


class WebClient:
    """Fetches pages within rules and limits."""

    def __init__(
        self,
        rules: WebRules | None = None,
        *,
        limits: WebLimits | None = None,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`resolve` replaces the system's name resolution, `tls` its trusted certificates."""
        self._rules = rules or WebRules()
        self._limits = limits or WebLimits()
        self._lookups = UserThreads("artel-lookup", LOOKUPS, LOOKUPS_PER_USER)
        self._resolve = resolve
        self._tls = tls
        self._slots = asyncio.Semaphore(FETCHES)
        self._user_slots = PerUserSemaphore(FETCHES_PER_USER)

    async def fetch(self, url: str, user_id: int = 0) -> WebPage:
        """Return a page; raise WebRefused if an address is not allowed, WebFailed if it can't be had."""
        target = parse_url(url)
        limits = self._limits
        try:
            async with asyncio.timeout(limits.seconds), self._slot(user_id):
                return await self._follow(target, user_id)
        except TimeoutError:
            raise WebFailed(f"{target.url} was not fetched within {limits.seconds:g} seconds.") from None

    async def send(self, target: WebTarget, request: bytes, user_id: int = 0, *, has_body: bool = True) -> WebResponse:
        """Send a request and return its response, whatever the status is; redirects are not followed.

        Raise WebRefused and WebFailed as `fetch` does. The response to HEAD has no body.
        """

        async def read(target: WebTarget, stream: asyncio.StreamReader) -> WebResponse:
            response = await self._read_head(target, stream)
            content_type, charset = _content_type(response.first_header("content-type"))
            body = await self._read_body(target, stream, response) if has_body else b""
            location = _location(response.first_header("location"))
            return WebResponse(response.status, content_type, charset, location, body)

        try:
            async with asyncio.timeout(self._limits.seconds), self._slot(user_id):
                return await self._ask(target, user_id, request, read)
        except TimeoutError:
            raise WebFailed(f"{target.host} did not answer within {self._limits.seconds:g} seconds.") from None

    async def close(self) -> None:
        """End what is not busy."""
        self._lookups.close()

    @asynccontextmanager
    async def _slot(self, user_id: int) -> AsyncIterator[None]:
        await self._user_slots.acquire(user_id)
        try:
            async with self._slots:
                yield
        finally:
            self._user_slots.release(user_id)

    async def _follow(self, target: WebTarget, user_id: int) -> WebPage:
        first, seen = target, {target.url}
        answer = await self._get(target, user_id)
        while isinstance(answer, _Redirect):
            if len(seen) > self._limits.redirects:
                raise WebFailed(f"{first.url} redirects more than {self._limits.redirects} times.")
            try:
                target = self._redirected(target, answer.location)
                if target.url in seen:
                    raise WebFailed(f"{first.url} redirects in a circle.")
                seen.add(target.url)
                answer = await self._get(target, user_id)
            except WebRefused as refused:
                raise WebRefused(f"{first.url} redirects to another address. {refused}") from None
        return answer

    def _redirected(self, before: WebTarget, location: str) -> WebTarget:
        """Return the target of a redirect; raise WebRefused if a public page redirects to a private host."""
        target = before.redirected(location)
        if self._rules.is_private(target) and not self._rules.is_private(before):
            raise WebRefused(f"Pages of the public internet can't redirect to {target.host}.")
        return target

    async def _get(self, target: WebTarget, user_id: int) -> WebPage | _Redirect:
        return await self._ask(target, user_id, _request(target), self._read)

    async def _ask(self, target: WebTarget, user_id: int, request: bytes, read: Read[T]) -> T:
        """Return what one request answers, after all checks of its target."""
        self._rules.check_target(target)
        addresses = await self._addresses_of(target, user_id)
        self._rules.check_addresses(target, addresses)
        tls = await self._tls_context() if target.scheme == "https" else None
        connected = await self._connect(target, addresses)
        try:
            return await self._exchange(target, connected, tls, request, read)
        except (OSError, EOFError):  # also of TLS
            raise WebFailed(f"The connection to {target.host} broke.") from None

    async def _addresses_of(self, target: WebTarget, user_id: int) -> list[Address]:
        if target.address is not None:
            return [target.address]
        try:
            async with asyncio.timeout(self._limits.lookup_seconds):
                found = await self._look_up(target, user_id)
        except TimeoutError:
            raise WebFailed(f"The name {target.host} could not be looked up in time.") from None
        return [ipaddress.ip_address(address) for address in found]

    async def _look_up(self, target: WebTarget, user_id: int) -> Sequence[str]:
        if self._resolve is not None:
            return await self._resolve(target.host, target.port)
        return await self._lookups.run(user_id, _look_up, target.host, target.port)

    async def _connect(self, target: WebTarget, addresses: Sequence[Address]) -> socket.socket:
        """Return a socket that is connected with one of the addresses."""
        may_be_here = self._rules.is_private(target)
        for address in addresses[:ADDRESSES_TRIED]:
            try:
                async with asyncio.timeout(self._limits.connect_seconds):
                    return await _dial(address, target.port, may_be_here=may_be_here)
            except OSError:  # also TimeoutError
                continue
        raise WebFailed(f"{target.host} can't be reached on port {target.port}.")

    async def _exchange(
        self, target: WebTarget, connected: socket.socket, tls: ssl.SSLContext | None, request: bytes, read: Read[T]
    ) -> T:
        """Send the request over a socket, with TLS for the name in the URL if it is https, and read the answer."""
        try:
            reader, writer = await asyncio.open_connection(
                sock=connected,
                ssl=tls,
                server_hostname=target.host if tls else None,
                ssl_handshake_timeout=self._limits.connect_seconds if tls else None,
            )
        except ssl.SSLCertVerificationError as invalid:
            raise WebFailed(f"The certificate of {target.host} is not valid: {invalid.verify_message}.") from None
        try:
            writer.write(request)
            return await read(target, reader)
        finally:
            writer.transport.abort()

    async def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            # In a thread: the certificates of the system take some 30 ms to load.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls

    async def _read_head(self, target: WebTarget, stream: asyncio.StreamReader) -> ResponseReader:
        response = ResponseReader(self._limits.header_bytes)
        while not response.has_headers:
            data = await self._receive(target, stream)
            if not data:
                raise WebFailed(f"{target.host} closed the connection without an answer.")
            response.feed(data)
        return response

    async def _read(self, target: WebTarget, stream: asyncio.StreamReader) -> WebPage | _Redirect:
        response = await self._read_head(target, stream)
        if response.status in _REDIRECTS and (location := response.first_header("location")):
            return _Redirect(_location(location))
        if not http.HTTPStatus.OK <= response.status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise WebFailed(f"{target.url} answers {_status_text(response.status)}.")
        content_type, charset = _content_type(response.first_header("content-type"))
        _require_text(target, content_type)
        return WebPage(target.url, content_type, charset, await self._read_body(target, stream, response))

    async def _read_body(self, target: WebTarget, stream: asyncio.StreamReader, response: ResponseReader) -> bytes:
        if response.header("transfer-encoding").lower() not in ("", "chunked"):
            raise WebFailed(f"{target.host} sends the page in a way that is not supported.")
        length = response.header("content-length")
        if length.isdecimal() and int(length) > self._limits.body_bytes:
            raise too_large(self._limits.body_bytes)
        body = BodyDecoder(response.header("content-encoding"), self._limits.body_bytes)
        body.add(response.take_body())
        framing = 0  # bytes that are not the body, such as sizes of chunks
        while not response.is_complete:
            data = await self._receive(target, stream)
            if not data:
                if not response.ends_with_connection:
                    raise WebFailed(f"{target.host} closed the connection before the page was complete.")
                break
            response.feed(data)
            piece = response.take_body()
            body.add(piece)
            framing += len(data) - len(piece)
            if framing > self._limits.body_bytes:
                raise WebFailed(f"{target.host} sends too much besides the page.")
        return body.finish()

    async def _receive(self, target: WebTarget, stream: asyncio.StreamReader) -> bytes:
        """Return the next bytes, b"" at the end."""
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                return await stream.read(READ_BYTES)
        except TimeoutError:
            raise WebFailed(f"{target.host} sent nothing for {self._limits.idle_seconds:g} seconds.") from None


def _look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host, [] if it does not exist."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _dial(address: Address, port: int, *, may_be_here: bool) -> socket.socket:
    """Return a socket that is connected with exactly this address; raise OSError.

    A machine connects with its own public address from that address, so this shows in the socket.
    """
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004 - the version of IP
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, (str(address), port))
        if ipaddress.ip_address(connected.getpeername()[0]) != address:
            raise ConnectionError("connected with another address")  # noqa: TRY301 - closed like the others
        if not may_be_here and connected.getsockname()[0] == connected.getpeername()[0]:
            raise ConnectionError("connected with this machine")  # noqa: TRY301 - closed like the others
    except BaseException:
        connected.close()
        raise
    return connected


def _request(target: WebTarget) -> bytes:
    lines = (
        f"GET {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        f"User-Agent: {USER_AGENT}",
        "Accept: text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.8, */*;q=0.1",
        "Accept-Encoding: gzip, deflate",
        "Connection: close",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii")


def _location(value: str) -> str:
    """Return the header Location as text: some servers send UTF-8 and spaces instead of percent-encoding them."""
    return value.encode("latin-1").decode(errors="replace").replace(" ", "%20")


def _status_text(status: int) -> str:
    try:
        return f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _content_type(header: str) -> tuple[str, str | None]:
    """Return the type in lower case, and the charset if there is one."""
    content_type, _, parameters = header.partition(";")
    charset = None
    for parameter in parameters.split(";")[:10]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'")[:50] or None
    return content_type.strip().lower()[:100], charset


def _require_text(target: WebTarget, content_type: str) -> None:
    if content_type.startswith("text/") or content_type in _TEXT_TYPES or content_type.endswith(_TEXT_ENDINGS):
        return
    if content_type == "application/pdf":
        raise WebFailed(f"{target.url} is a PDF document. Only pages and texts can be read: look for an HTML version.")
    what = f"of the type {content_type!r}" if content_type else "without a type"
    raise WebFailed(f"{target.url} is {what}. Only HTML pages, texts, JSON and XML can be read.")
