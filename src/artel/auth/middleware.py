"""Puts the principal of the bearer token into the request, or refuses it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import structlog

from artel.auth.principal import Principal
from artel.errors import NotAuthenticated

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class AuthMiddleware:
    """Everything that is not public needs a token."""

    def __init__(
        self, app: ASGIApp, authenticate: Callable[[str], Awaitable[Principal]], is_public: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._is_public = is_public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not self._is_public(scope["path"]):
            principal = await self._authenticate(bearer_token(scope))
            scope.setdefault("state", {})["principal"] = principal
            structlog.contextvars.bind_contextvars(user_id=principal.user_id)
        await self._app(scope, receive, send)


def bearer_token(scope: Scope) -> str:
    """Answer the token that came with a request, or raise."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if not values:
        raise NotAuthenticated("Send a token in the header: Authorization: Bearer …")
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    if len(values) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise NotAuthenticated("Send one token in the header: Authorization: Bearer …")
    return str(token.strip())
