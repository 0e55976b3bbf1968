"""Local tokens are JSON web tokens as PyJWT writes and reads them; nothing else is accepted."""

import json
import time
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest

from artel.auth.tokens import LocalSubject, Tokens
from artel.errors import TokenInvalid

SECRET = "0123456789abcdef" * 4
NOW = int(time.time())
DAY = 86_400  # longer than the tests before these take
CLAIMS: dict[str, Any] = {"sub": "7", "iss": "artel", "aud": "artel", "iat": NOW, "nbf": NOW, "exp": NOW + DAY}

pytestmark = [pytest.mark.anyio, pytest.mark.req("WSA-08.1")]


def make_tokens() -> Tokens:
    return Tokens(SECRET, 600)


def encoded(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


async def test_issued_token_is_read_by_pyjwt_and_by_us() -> None:
    token = make_tokens().issue(7, "login")

    claims = jwt.decode(token, SECRET, ["HS256"], issuer="artel", audience="artel")
    assert (claims["sub"], claims["sid"]) == ("7", "login")
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    assert await make_tokens().verify(token) == LocalSubject(7, claims["iat"], claims["exp"], "login")


async def test_token_of_pyjwt_is_accepted() -> None:
    token = jwt.encode(CLAIMS, SECRET, "HS256")

    assert await make_tokens().verify(token) == LocalSubject(7, NOW, NOW + DAY, None)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"exp": NOW - 1}, "has expired"),
        ({"nbf": NOW + DAY}, "not valid yet"),
        ({"iat": NOW + DAY}, "not valid yet"),
        ({"iss": "other"}, "not valid"),
        ({"aud": "other"}, "not valid"),
        ({"aud": None}, "not valid"),
        ({"sub": None}, "not valid"),
        ({"sub": "x"}, "not valid"),
        ({"sub": "0"}, "not valid"),
        ({"exp": None}, "not valid"),
        ({"iat": None}, "not valid"),
        ({"exp": True}, "not valid"),
        ({"exp": 1e300}, "not valid"),
        ({"sid": 5}, "not valid"),
    ],
)
async def test_signed_token_with_wrong_claims_is_refused(changes: dict[str, Any], problem: str) -> None:
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not None}
    payload = f"{encoded({'alg': 'HS256'})}.{encoded(claims)}"
    token = f"{payload}.{jwt.encode({}, SECRET, 'HS256').rpartition('.')[2]}"

    with pytest.raises(TokenInvalid, match="not valid"):
        await make_tokens().verify(token)  # that signature is of another token
    signed = jwt.api_jws.encode(json.dumps(claims).encode(), SECRET, "HS256")
    with pytest.raises(TokenInvalid, match=problem):
        await make_tokens().verify(signed)


@pytest.mark.parametrize(
    "header",
    [{"alg": "none"}, {"alg": "HS512"}, {"alg": "RS256"}, {"alg": "hs256"}, {"alg": ["HS256"]}, {}, [], "HS256", None],
)
async def test_other_algorithms_are_refused(header: object) -> None:
    signature = jwt.encode(CLAIMS, SECRET, "HS512").rpartition(".")[2]

    for end in ("", signature):
        with pytest.raises(TokenInvalid):
            await make_tokens().verify(f"{encoded(header)}.{encoded(CLAIMS)}.{end}")


async def test_changed_or_malformed_tokens_are_refused() -> None:
    token = make_tokens().issue(7)
    head, claims, signature = token.split(".")
    nested = urlsafe_b64encode(b"[" * 5_000).rstrip(b"=").decode()
    critical = jwt.api_jws.encode(json.dumps(CLAIMS).encode(), SECRET, "HS256", headers={"crit": ["x"], "x": 1})
    changed = [
        "", ".", "..", "a.b.c", head, f"{head}.{claims}", f"{head}.{claims}.", f"{head}.{claims}.{signature}.x",
        f"{head}.{encoded(CLAIMS | {'sub': '1'})}.{signature}", f"{head}.{claims}.{signature[::-1]}",
        f"{head}.{claims}.{signature[:-1]}", f"{head}.{claims}.{signature} ", f"{head}=.{claims}.{signature}",
        f"{nested}.{claims}.{signature}", f"ё.{claims}.{signature}", token * 100, critical,
    ]  # fmt: skip

    for wrong in changed:
        with pytest.raises(TokenInvalid):
            await make_tokens().verify(wrong)
    with pytest.raises(TokenInvalid):
        await Tokens("f" * 64, 600).verify(token)
