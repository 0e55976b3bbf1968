"""Cached public keys (JWKS) of an external issuer."""

import asyncio
import json
import time
from typing import TYPE_CHECKING

from artel.errors import IdentityProviderUnavailable, TokenInvalid
from artel.logs import get_logger

if TYPE_CHECKING:
    import jwt

FRESH_SECONDS = 600
# Minimum time between two fetches that tokens with an unknown key cause.
RETRY_SECONDS = 10
TIMEOUT_SECONDS = 5
MAX_BYTES = 262_144

log = get_logger(__name__)


class KeySet:
    """The issuer's keys by key id."""

    def __init__(self, url: str, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._url = url
        self._retry_seconds = retry_seconds
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = -float("inf")
        self._lock = asyncio.Lock()
        self._refresh_task: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None, algorithm: str) -> "jwt.PyJWK":
        """Return the key for a token; raise IdentityProviderUnavailable or TokenInvalid if there is none."""
        key = self._lookup(key_id)
        if key is None:
            await self._refresh()
            key = self._lookup(key_id)
        elif time.monotonic() - self._fetched_at > FRESH_SECONDS and self._refresh_task is None:
            # A stale key is still used: refresh in the background.
            self._refresh_task = asyncio.create_task(self._refresh())
            self._refresh_task.add_done_callback(self._refreshed)
        if key is None or key.algorithm_name != algorithm:
            if not self._keys:
                raise IdentityProviderUnavailable(
                    "The identity provider's keys can't be fetched. Try again in a moment.", retry_after=10
                )
            raise TokenInvalid("The token is signed with a key that the issuer does not publish.")
        return key

    async def fetch(self) -> int:
        """Fetch the keys now and return their number; for startup checks."""
        self._keys = await self._download()
        return len(self._keys)

    def _lookup(self, key_id: str | None) -> "jwt.PyJWK | None":
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _refreshed(self, _task: asyncio.Task[None]) -> None:
        self._refresh_task = None

    async def _refresh(self) -> None:
        import httpx
        import jwt

        async with self._lock:
            if time.monotonic() - self._tried_at < self._retry_seconds:
                return
            self._tried_at = time.monotonic()
            try:
                self._keys = await self._download()
                self._fetched_at = time.monotonic()
            except (httpx.HTTPError, TimeoutError, ValueError, TypeError, jwt.PyJWTError) as failure:
                log.warning("jwks_fetch_failed", error=repr(failure))

    async def _download(self) -> dict[str | None, "jwt.PyJWK"]:
        # Lazy imports: most servers have no external issuer and start faster without an HTTP client and PyJWT.
        import httpx
        import jwt

        body = b""
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            httpx.AsyncClient() as client,
            client.stream("GET", self._url) as response,
        ):
            response.raise_for_status()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ValueError(f"the key set is larger than {MAX_BYTES} bytes")
        published = json.loads(body)
        if not isinstance(published, dict):
            raise TypeError("the key set is not a JSON object")
        keys = jwt.PyJWKSet.from_dict(published).keys
        return {key.key_id: key for key in keys if key.public_key_use in (None, "sig")}
