"""Local tokens (signed by this server) and tokens of an external issuer.

Local tokens are signed and verified here. PyJWT is imported only for an external issuer: with `cryptography`, which it
imports, it takes 11 MB.
"""

import hmac
import json
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = {"alg": LOCAL_ALGORITHM, "typ": "JWT"}
_EXPIRED = "The token has expired. Log in again."
_NOT_YET_VALID = "The token is not valid yet. Check the clocks of client and server."
_INVALID = "The token is not valid. Log in again."


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
        signed = f"{_encoded(_json(_HEADER))}.{_encoded(_json(claims))}"
        return f"{signed}.{_encoded(self._signature(signed))}"

    async def verify(self, token: str) -> LocalSubject | ExternalSubject:
        """Return the token's subject or raise TokenInvalid."""
        if (cached := self._verified.get(token)) and time.time() < cached.expires_at:
            return cached
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise TokenInvalid("The token is too long.")
        try:
            header = _object(token.partition(".")[0])
            algorithm = header.get("alg")
            if algorithm == LOCAL_ALGORITHM:
                return self._local(token, header)
            if algorithm in EXTERNAL_ALGORITHMS and self._keys:
                return await self._external(token, algorithm, header.get("kid"), self._keys)
        except (ValueError, RecursionError):
            raise TokenInvalid(_INVALID) from None
        raise TokenInvalid("This server does not accept the token's signature algorithm.")

    def _local(self, token: str, header: dict[str, Any]) -> LocalSubject:
        claims = self._claims(token, header)
        issued_at, expires_at = _moment(claims, "iat"), _moment(claims, "exp")
        now = time.time()
        if max(issued_at, _moment(claims, "nbf", issued_at)) > now:
            raise TokenInvalid(_NOT_YET_VALID)
        if expires_at <= now:
            raise TokenInvalid(_EXPIRED)
        user_id = int(claims["sub"])
        if not 0 < user_id <= MAX_ID:
            raise ValueError("user id out of range")
        login_id = claims.get("sid")
        if login_id is not None and not _is_storable(login_id, MAX_LOGIN_ID_CHARACTERS):
            raise ValueError("invalid login id")
        subject = LocalSubject(user_id, issued_at, expires_at, login_id)
        self._verified[token] = subject  # its content never changes, so only the expiry is checked
        if len(self._verified) > MAX_VERIFIED:
            self._verified.popitem(last=False)
        return subject

    def _claims(self, token: str, header: dict[str, Any]) -> dict[str, Any]:
        """Return the claims of a token that this server has signed; raise ValueError for any other."""
        signed, _, signature = token.rpartition(".")
        if "crit" in header or not hmac.compare_digest(_decoded(signature), self._signature(signed)):
            raise ValueError("not signed by this server")
        claims = _object(signed.partition(".")[2])
        if claims.get("iss") != ISSUER or claims.get("aud") != AUDIENCE or not isinstance(claims.get("sub"), str):
            raise ValueError("not issued by this server")
        return claims

    def _signature(self, signed: str) -> bytes:
        return hmac.digest(self._secret.encode(), signed.encode(), "sha256")

    async def _external(self, token: str, algorithm: str, key_id: Any, keys: KeySet) -> ExternalSubject:
        key = await keys.find(key_id if isinstance(key_id, str) else None, algorithm)
        import jwt

        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=EXTERNAL_LEEWAY_SECONDS,
                options={"require": ["sub", "exp"]},
            )
        except jwt.ExpiredSignatureError:
            raise TokenInvalid(_EXPIRED) from None
        except jwt.ImmatureSignatureError:
            raise TokenInvalid(_NOT_YET_VALID) from None
        except jwt.InvalidTokenError:
            raise TokenInvalid(_INVALID) from None
        subject, email = claims["sub"], claims.get("email")
        if not _is_storable(subject, MAX_SUBJECT_CHARACTERS):
            raise ValueError("invalid subject")
        if not _is_storable(email, MAX_EMAIL_CHARACTERS) or HIDDEN_PATTERN.search(str(email)):
            email = None
        return ExternalSubject(self._issuer, subject, email, int(claims["exp"]))


def _is_storable(value: Any, max_characters: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= max_characters and is_storable(value)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """Return the bytes of base64url without padding; raise ValueError for anything else."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object in a part of a token; raise ValueError for anything else."""
    value = json.loads(_decoded(text))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004
    return value


def _moment(claims: dict[str, Any], name: str, default: int | None = None) -> int:
    """Return a time in seconds since 1970; raise ValueError if there is none."""
    value = claims.get(name, default)
    if type(value) is not int:
        raise ValueError(f"{name} is not a whole number")
    return value
