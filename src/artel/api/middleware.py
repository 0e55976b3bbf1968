"""What happens to every request, written as plain ASGI: nothing here buffers an answer."""

import asyncio
import re
import time

import structlog
from fastapi import HTTPException
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from artel.api.metrics import HttpMetrics
from artel.api.problems import problem_of, problem_of_crash
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger

BODY_SECONDS = 30
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
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
    """Outermost: gives the request an id, logs and counts it, and turns what goes wrong into a problem document."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                headers["x-request-id"] = request_id
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, send_with_headers)
        except ArtelError as error:
            await problem_of(scope, error)(scope, receive, send_with_headers)
        except Exception as crash:  # noqa: BLE001 - the edge: whatever it was, the client gets a problem document
            response = problem_of_crash(scope, crash)
            if not status:
                await response(scope, receive, send_with_headers)
        finally:
            self._note(scope, status, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        self._metrics.observe(scope["method"], _route(scope), status, seconds)
        if scope["path"] not in _QUIET:
            duration = round(seconds * 1000, 1)
            log.info("request", method=scope["method"], path=scope["path"], status=status, duration_ms=duration)


class PathMiddleware:
    """Makes `/my/projects/` the same as `/my/projects`, without a redirect."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and len(scope["path"]) > 1 and scope["path"].endswith("/"):
            scope["path"] = scope["path"][:-1]
            if scope.get("raw_path"):
                scope["raw_path"] = scope["raw_path"].removesuffix(b"/")
        await self._app(scope, receive, send)


class BodyLimitMiddleware:
    """Refuses bodies that are too large, or too slow in coming."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        received, complete = 0, False

        async def limited() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"The body did not arrive within {BODY_SECONDS} seconds.") from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > self._max_bytes:
                # The framework lets only its own exception through while it reads a body.
                raise HTTPException(413, f"The body is larger than {self._max_bytes} bytes.")
            return message

        await self._app(scope, limited, send)


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(text := value.decode("latin-1")):
            return str(text)
    return uuid7()


def _route(scope: Scope) -> str:
    route = scope.get("route")
    return getattr(route, "path", "unknown")
