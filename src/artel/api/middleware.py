"""Middleware for every request, as plain ASGI so that responses are not buffered."""

import asyncio
import re
import time
from collections.abc import Callable

from fastapi import HTTPException
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from artel.api.metrics import HttpMetrics
from artel.api.problems import problem_of
from artel.attachments.file_types import MAX_BYTES
from artel.auth.middleware import SAFE_METHODS
from artel.errors import ArtelError, HostNotAllowed, OriginRefused, PathTooLong
from artel.ids import uuid7
from artel.logs import get_logger, log_context
from artel.text import shorten

BODY_SECONDS = 30
UPLOAD_SECONDS = 300  # of an attached file
UPLOAD_PIECE_BYTES = 65_536
UPLOAD_PIECE_SECONDS = 10  # for each such piece of an attached file
TRY_LATER = 1013  # standard WebSocket close code
MAX_REASON = 100  # characters; a close reason may have 123 bytes
MAX_PATH_BYTES = 4_096
MAX_LOGGED_CHARACTERS = 300
PIECE_BYTES = 65_536  # of a response: a client has the send timeout for each piece
MAX_LOGIN_BYTES = 16_384  # stricter, because the client is not authenticated yet
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_UPLOAD = re.compile(r"/my/chat/[0-9a-zA-Z-]{1,64}/attachments")
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^:\[\]/@\s]{1,253})(?::[0-9]{0,5})?")
_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

log = get_logger("artel.http")


class RequestMiddleware:
    """Outermost middleware: sets the request id, logs and counts requests, turns errors into problem documents."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = _bind_request_id(scope)
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        # uvicorn omits the body of a HEAD request.
        scope = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        started, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                headers.update({name: value for name, value in _HEADERS.items() if name not in headers})
                headers["x-request-id"] = request_id
            await _send_in_pieces(send, message)

        try:
            _refuse_long_path(scope)
            await self._app(scope, receive, send_with_headers)
        except (Exception, asyncio.CancelledError) as error:
            response = problem_of(scope, error)
            if not status:
                await response(scope, receive, send_with_headers)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            seconds = time.perf_counter() - started
            self._metrics.observe(scope["method"], getattr(scope.get("route"), "path", "unknown"), status, seconds)
            if scope["path"] not in _PROBES:
                path, duration = _logged_path(scope), round(seconds * 1000, 1)
                log.info("request", method=scope["method"], path=path, status=status, duration_ms=duration)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a WebSocket; refuse it with a problem document before it is accepted, or close it afterwards."""
        is_open = False

        async def watched_send(message: Message) -> None:
            nonlocal is_open
            is_open = is_open or message["type"] == "websocket.accept"
            await send(message)

        try:
            _refuse_long_path(scope)
            await self._app(scope, receive, watched_send)
        except ArtelError as refused:
            log.info("socket_refused", path=_logged_path(scope), code=refused.code, reason=refused.detail)
            if is_open:
                await send({"type": "websocket.close", "code": TRY_LATER, "reason": refused.detail[:MAX_REASON]})
            else:
                await receive()
                await WebSocket(scope, receive, send).send_denial_response(problem_of(scope, refused))


async def _send_in_pieces(send: Send, message: Message) -> None:
    """Send a message, a large body in pieces, so that only one piece waits in the connection's buffer."""
    body, sent = message.get("body", b""), 0
    while len(body) - sent > PIECE_BYTES:
        await send({**message, "body": body[sent : sent + PIECE_BYTES], "more_body": True})
        sent += PIECE_BYTES
    await send({**message, "body": body[sent:]} if sent else message)


class PathMiddleware:
    """Removes the path prefix of a proxy, and makes `/my/projects/` the same as `/my/projects`, without a redirect.

    The prefix is `base_path` in the request's state.
    """

    def __init__(self, app: ASGIApp, base_path: str = "") -> None:
        self._app = app
        self._base_path = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        base, path = self._base_path, scope["path"]
        scope.setdefault("state", {})["base_path"] = base
        if base and (path == base or path.startswith(f"{base}/")):
            _set_path(scope, path.removeprefix(base) or "/", lambda raw: raw.removeprefix(base.encode()) or b"/")
        if len(scope["path"]) > 1 and scope["path"].endswith("/"):
            _set_path(scope, scope["path"][:-1], lambda raw: raw.removesuffix(b"/"))
        await self._app(scope, receive, send)


def _set_path(scope: Scope, path: str, change_raw: Callable[[bytes], bytes]) -> None:
    scope["path"] = path
    if scope.get("raw_path"):
        scope["raw_path"] = change_raw(scope["raw_path"])


class OriginMiddleware:
    """Refuses requests for an unknown host (DNS rebinding) and changes from pages of another origin.

    Sets `same_origin` in the request's state: whether the browser states that a page of this server sent it.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None, *, check_probes: bool) -> None:
        """Set the allowed hosts (None: any); `check_probes` applies them to health probes too."""
        self._app = app
        self._hosts = hosts
        self._unchecked = frozenset() if check_probes else _PROBES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = _values(scope, b"host")
        host = names[0].lower() if len(names) == 1 else None
        if self._hosts is not None and scope["path"] not in self._unchecked:
            parsed = _HOST.fullmatch(names[0]) if host is not None else None
            if parsed is None or parsed[1].lower() not in self._hosts:
                raise HostNotAllowed(
                    f"The host {parsed[1] if parsed else 'this host'} is not allowed. "
                    "If it is this server's name, its operator adds it to ARTEL_ALLOWED_HOSTS."
                )
        is_unsafe = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        scope["state"]["same_origin"] = _is_same_origin(scope, host, refuse=is_unsafe)
        await self._app(scope, receive, send)


class _ArrivingBody:
    """Counts the bytes of a body, and knows until when more must arrive."""

    def __init__(self, seconds: float, piece_seconds: float) -> None:
        self._now = asyncio.get_running_loop().time
        self._end = self._now() + seconds
        self._piece_seconds = piece_seconds
        self.received = 0
        self._begin_piece()

    def add(self, size: int) -> None:
        self.received += size
        if self.received >= self._piece_end:
            self._begin_piece()

    def _begin_piece(self) -> None:
        self._piece_end = self.received + UPLOAD_PIECE_BYTES
        self.deadline = min(self._end, self._now() + self._piece_seconds)


class BodyLimitMiddleware:
    """Refuses bodies that are too large or arrive too slowly."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        if scope["type"] != "http" or not has_body:
            await self._app(scope, receive, send)
            return
        max_bytes, seconds, piece_seconds = self._max_bytes, BODY_SECONDS, BODY_SECONDS
        if scope["path"].startswith("/auth/"):
            max_bytes = min(max_bytes, MAX_LOGIN_BYTES)
        elif scope["method"] == "POST" and _UPLOAD.fullmatch(scope["path"]):
            max_bytes, seconds, piece_seconds = MAX_BYTES, UPLOAD_SECONDS, UPLOAD_PIECE_SECONDS
        body, complete = _ArrivingBody(seconds, piece_seconds), False

        async def limited_receive() -> Message:
            nonlocal complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(body.deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408,
                    f"The body did not arrive within {seconds} seconds, or {UPLOAD_PIECE_BYTES:,} bytes of it did not "
                    f"arrive within {piece_seconds}.",
                ) from None
            body.add(len(message.get("body", b"")))
            complete = not message.get("more_body", False)
            if body.received > max_bytes:
                # FastAPI passes only its own exception through while it reads a body.
                raise HTTPException(413, f"The body is larger than {max_bytes} bytes.")
            return message

        await self._app(scope, limited_receive, send)


def _refuse_long_path(scope: Scope) -> None:
    if len(scope.get("raw_path") or scope["path"].encode()) > MAX_PATH_BYTES:
        raise PathTooLong(f"The path is longer than {MAX_PATH_BYTES} bytes. GET /openapi.json lists all paths.")


def _logged_path(scope: Scope) -> str:
    return shorten(scope["path"], MAX_LOGGED_CHARACTERS + 1)


def _bind_request_id(scope: Scope) -> str:
    """Return the id of a request, the client's if it is valid, after binding it to the request's state and log."""
    given = (value for value in _values(scope, b"x-request-id") if _REQUEST_ID.fullmatch(value))
    request_id = next(given, None) or uuid7()
    scope.setdefault("state", {})["request_id"] = request_id
    log_context.clear_contextvars()
    log_context.bind_contextvars(request_id=request_id)
    return request_id


def _is_same_origin(scope: Scope, host: str | None, *, refuse: bool) -> bool:
    """Return whether a page of this server sent the request; with `refuse` raise if another page did."""
    origins, sites = _values(scope, b"origin"), _values(scope, b"sec-fetch-site")
    scheme, separator, address = origins[0].lower().partition("://") if origins else ("", "", "")
    is_foreign = bool(origins) and not (
        len(origins) == 1 and scheme in ("http", "https") and bool(separator) and address == host
    )
    is_foreign = is_foreign or any(site not in ("same-origin", "none") for site in sites)
    if is_foreign and refuse:
        raise OriginRefused(
            "Pages of another origin may not change anything on this server. "
            "If it is behind a reverse proxy, the proxy must pass on the Host header."
        )
    return not is_foreign and (bool(origins) or sites == ["same-origin"])


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key == name]
