"""Authenticates requests by bearer token or cookie."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from artel.auth.login import SignedIn
from artel.errors import ArtelError, Kind, NotAuthenticated, OriginRefused
from artel.logs import log_context

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
DEFAULT_PORT, HTTPS_PORT = "80", "443"
LOGIN_CHECK_SECONDS = 10.0  # maximum time that a stream continues after its login has ended

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class LoginWatch:
    """Watches the logins of open streams; all streams of a token share one check."""

    def __init__(self, authenticate: Callable[[str], Awaitable[object]]) -> None:
        self._authenticate = authenticate
        self._checks: dict[str, asyncio.Task[str]] = {}
        self._streams: Counter[str] = Counter()

    async def ended(self, token: str) -> str:
        """Wait until the login of the token has ended and return the reason."""
        if token not in self._checks:
            self._checks[token] = asyncio.create_task(self._check(token))
        self._streams[token] += 1
        try:
            return await asyncio.shield(self._checks[token])
        finally:
            self._streams[token] -= 1
            if not self._streams[token]:
                del self._streams[token]
                self._checks.pop(token).cancel()

    async def _check(self, token: str) -> str:
        while True:
            await asyncio.sleep(LOGIN_CHECK_SECONDS)
            try:
                await self._authenticate(token)
            except ArtelError as failure:  # other failures (database) say nothing about the login: check again
                if failure.kind is Kind.UNAUTHENTICATED:
                    return failure.detail


class AuthMiddleware:
    """Requires a token or a browser's cookie for every path that is not public.

    Sets in the request's state: `principal`, `signed_in`, `recheck` (raises once the login has ended) and
    `login_ended` (waits for that).
    """

    def __init__(
        self, app: ASGIApp, authenticate: Callable[[str], Awaitable[SignedIn]], is_public: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._is_public = is_public
        self._watch = LoginWatch(authenticate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not self._is_public(scope["path"]):
            token = _token(scope)
            signed_in = await self._authenticate(token)
            state = scope.setdefault("state", {})
            state["principal"] = signed_in.principal
            state["signed_in"] = signed_in
            state["recheck"] = partial(self._authenticate, token)
            state["login_ended"] = partial(self._watch.ended, token)
            log_context.bind_contextvars(user_id=signed_in.principal.user_id)
        await self._app(scope, receive, send)


def cookie_name(scope: Scope) -> str:
    """Return the name of the login cookie, with port and base path: a host's servers share its cookies."""
    path = scope.get("state", {}).get("base_path", "").replace("/", "!")
    port = _port(scope)
    if scope["scheme"] == "https":
        return f"__Host-artel{'' if port in (None, HTTPS_PORT) else f'-{port}'}{path}"
    return f"artel-{port or DEFAULT_PORT}{path}"


def _older_name(scope: Scope) -> str:
    """Return the name that the login cookie had in older versions."""
    return "__Host-artel" if scope["scheme"] == "https" else f"artel-{_port(scope) or DEFAULT_PORT}"


def _port(scope: Scope) -> str | None:
    """Return the port that the browser knows, if its address has one."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    port = host.rpartition(":")[2]
    return port if port.isascii() and port.isdecimal() else None


def login_cookie(scope: Scope) -> tuple[str, str] | None:
    """Return name and token of the login cookie, with its older name if that is the only one.

    None if there are two of one name, because one may be planted.
    """
    found: list[tuple[str, str]] = []
    for header, value in scope["headers"]:
        if header == b"cookie":
            pairs = (pair.strip().partition("=") for pair in value.decode("latin-1").split(";"))
            found += [(name, content) for name, _, content in pairs]
    for expected in (cookie_name(scope), _older_name(scope)):
        if values := [content for name, content in found if name == expected]:
            return (expected, values[0]) if len(values) == 1 and values[0] else None
    return None


def _token(scope: Scope) -> str:
    if values := [value for name, value in scope["headers"] if name == b"authorization"]:
        scheme, _, bearer = values[0].decode("latin-1").partition(" ")
        if len(values) > 1 or scheme.lower() != "bearer" or not bearer.strip():
            raise NotAuthenticated("Send one token in the header: Authorization: Bearer …")
        return str(bearer.strip())
    cookie = login_cookie(scope) if scope["type"] == "http" else None  # WebSockets need a token
    if cookie is None:
        raise NotAuthenticated("Send a token in the header: Authorization: Bearer …")
    if scope["method"] not in SAFE_METHODS and not scope["state"]["same_origin"]:
        raise OriginRefused("Cookies are accepted for changes only from this server's own pages. Send a token instead.")
    return cookie[1]
