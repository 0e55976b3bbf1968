"""Local tokens (signed by this server) and tokens of an external issuer."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jwt

from artel.auth.jwks import KeySet
from artel.contract.http import MAX_EMAIL_CHARACTERS, MAX_ID
from artel.errors import TokenInvalid
from artel.ids import uuid7
from artel.text import HIDDEN_PATTERN, is_storable

LOCAL_ALGORITHM = "HS256"
EXTERNAL_ALGORITHMS = ("RS256", "ES256")
ISSUER = AUDIENCE = "artel"
MAX_TOKEN_CHARACTERS = 8192
MAX_VERIFIED = 4_096  # size of the cache of verified tokens
MAX_SUBJECT_CHARACTERS = 500
MAX_LOGIN_ID_CHARACTERS = 36
# Only for external tokens: the issuer's clock may differ a little from ours.
EXTERNAL_LEEWAY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class LocalSubject:
    """The subject of a local token."""

    user_id: int
    issued_at: int
    expires_at: int
    login_id: str | None


@dataclass(frozen=True, slots=True)
class ExternalSubject:
    """The subject of an external issuer's token."""

    issuer: str
    subject: str
    email: str | None
    expires_at: int


class Tokens:
    """Issues local tokens; verifies local and external ones."""

    def __init__(
        self, secret: str, lifetime_seconds: int, keys: KeySet | None = None, issuer: str = "", audience: str = ""
    ) -> None:
        self._secret = secret
        self.lifetime_seconds = lifetime_seconds
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._verified: OrderedDict[str, LocalSubject] = OrderedDict()  # by token

    def issue(self, user_id: int, login_id: str | None = None, expires_at: datetime | None = None) -> str:
        """Return a new token of the user and login."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "sub": str(user_id),
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "nbf": now,
            "exp": int(expires_at.timestamp()) if expires_at else now + self.lifetime_seconds,
            "jti": uuid7(),
        }
        if login_id is not None:
            claims["sid"] = login_id
        return jwt.encode(claims, self._secret, LOCAL_ALGORITHM)

    async def verify(self, token: str) -> LocalSubject | ExternalSubject:
        """Return the token's subject or raise TokenInvalid."""
        if (cached := self._verified.get(token)) and time.time() < cached.expires_at:
            return cached
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise TokenInvalid("The token is too long.")
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm == LOCAL_ALGORITHM:
                return self._local(token)
            if algorithm in EXTERNAL_ALGORITHMS and self._keys:
                return await self._external(token, algorithm, header.get("kid"), self._keys)
        except jwt.ExpiredSignatureError:
            raise TokenInvalid("The token has expired. Log in again.") from None
        except jwt.ImmatureSignatureError:
            raise TokenInvalid("The token is not valid yet. Check the clocks of client and server.") from None
        except (jwt.InvalidTokenError, ValueError):
            raise TokenInvalid("The token is not valid. Log in again.") from None
        raise TokenInvalid("This server does not accept the token's signature algorithm.")

    def _local(self, token: str) -> LocalSubject:
        claims = jwt.decode(
            token,
            self._secret,
            algorithms=[LOCAL_ALGORITHM],
            issuer=ISSUER,
            audience=AUDIENCE,
            options={"require": ["sub", "exp", "iat"]},
        )
        user_id = int(claims["sub"])
        if not 0 < user_id <= MAX_ID:
            raise ValueError("user id out of range")
        login_id = claims.get("sid")
        if login_id is not None and not _is_storable(login_id, MAX_LOGIN_ID_CHARACTERS):
            raise ValueError("invalid login id")
        subject = LocalSubject(user_id, int(claims["iat"]), int(claims["exp"]), login_id)
        self._verified[token] = subject  # its content never changes, so only the expiry is checked
        if len(self._verified) > MAX_VERIFIED:
            self._verified.popitem(last=False)
        return subject

    async def _external(self, token: str, algorithm: str, key_id: Any, keys: KeySet) -> ExternalSubject:
        key = await keys.find(key_id if isinstance(key_id, str) else None, algorithm)
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=self._issuer,
            audience=self._audience,
            leeway=EXTERNAL_LEEWAY_SECONDS,
            options={"require": ["sub", "exp"]},
        )
        subject, email = claims["sub"], claims.get("email")
        if not _is_storable(subject, MAX_SUBJECT_CHARACTERS):
            raise ValueError("invalid subject")
        if not _is_storable(email, MAX_EMAIL_CHARACTERS) or HIDDEN_PATTERN.search(str(email)):
            email = None
        return ExternalSubject(self._issuer, subject, email, int(claims["exp"]))


def _is_storable(value: Any, max_characters: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= max_characters and is_storable(value)
