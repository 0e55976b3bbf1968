"""Checks of the Host and Origin headers."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from artel.auth.middleware import SAFE_METHODS
from artel.errors import HostNotAllowed, OriginRefused

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^:\[\]/@\s]{1,253})(?::[0-9]{0,5})?")


class OriginMiddleware:
    """Refuses requests for an unknown host (DNS rebinding) and changes from pages of another origin.

    Sets `same_origin` in the request's state: whether the browser states that a page of this server sent it.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None, *, check_probes: bool) -> None:
        """Set the allowed hosts (None: any); `check_probes` applies them to health probes too."""
        self._app = app
        self._hosts = hosts
        self._unchecked = frozenset() if check_probes else PROBES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            names = _values(scope, b"host")
            if self._hosts is not None and scope["path"] not in self._unchecked:
                _require_host(names, self._hosts)
            host = names[0].lower() if len(names) == 1 else None
            is_unsafe = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
            scope.setdefault("state", {})["same_origin"] = _is_same_origin(scope, host, refuse=is_unsafe)
        await self._app(scope, receive, send)


def _require_host(names: list[str], allowed: frozenset[str]) -> None:
    parsed = _HOST.fullmatch(names[0]) if len(names) == 1 else None
    if parsed is None or parsed[1].lower() not in allowed:
        name = parsed[1] if parsed else "this host"
        raise HostNotAllowed(
            f"The host {name} is not allowed. If it is this server's name, its operator adds it to ARTEL_ALLOWED_HOSTS."
        )


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
