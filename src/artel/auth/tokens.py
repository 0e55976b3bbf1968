"""Tokens: those that we sign ourselves, and those of an external issuer."""

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

LOCAL_ALGORITHM = "HS256"
EXTERNAL_ALGORITHMS = ("RS256", "ES256")
ISSUER = AUDIENCE = "artel"
MAX_TOKEN_CHARACTERS = 8192
MAX_VERIFIED = 4_096  # tokens whose signature was checked
MAX_SUBJECT_CHARACTERS = 500
MAX_LOGIN_ID_CHARACTERS = 36
# Our own clock signs and checks our own tokens; another issuer's clock may be a little off.
EXTERNAL_LEEWAY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class LocalSubject:
    """A user of ours, named by a token of ours."""

    user_id: int
    issued_at: int
    expires_at: int
    login_id: str | None


@dataclass(frozen=True, slots=True)
class ExternalSubject:
    """Somebody whom the external issuer knows."""

    issuer: str
    subject: str
    email: str | None
    expires_at: int


class Tokens:
    """Issues our tokens; verifies ours and those of the external issuer, if there is one."""

    def __init__(
        self, secret: str, lifetime_seconds: int, keys: KeySet | None = None, issuer: str = "", audience: str = ""
    ) -> None:
        self._secret = secret
        self.lifetime_seconds = lifetime_seconds
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._verified: OrderedDict[str, tuple[LocalSubject, int]] = OrderedDict()

    def issue(self, user_id: int, login_id: str | None = None, expires_at: datetime | None = None) -> str:
        """Return a token that speaks for the user while the login lasts."""
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
        """Return whom the token speaks for, or raise."""
        if (known := self._verified.get(token)) and time.time() < known[1]:
            return known[0]
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
            raise TokenInvalid("The token is not valid yet. Check the clocks.") from None
        except (jwt.InvalidTokenError, ValueError):
            raise TokenInvalid("The token is not valid. Log in again.") from None
        raise TokenInvalid("The token is signed in a way that this server does not accept.")

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
            raise ValueError("no such number")
        login_id = claims.get("sid")
        if login_id is not None and not _is_storable(login_id, MAX_LOGIN_ID_CHARACTERS):
            raise ValueError("no usable login")
        subject = LocalSubject(user_id, int(claims["iat"]), int(claims["exp"]), login_id)
        self._verified[token] = subject, subject.expires_at  # what it says never changes, only when it ends
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
            raise ValueError("no usable subject")
        email = email if _is_storable(email, MAX_EMAIL_CHARACTERS) else None
        return ExternalSubject(self._issuer, subject, email, int(claims["exp"]))


def _is_storable(value: Any, max_characters: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= max_characters and "\x00" not in value
