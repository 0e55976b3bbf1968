"""JSON Web Tokens as the server signs them."""

import time
from typing import Any

import jwt

from tests.conftest import JWT_SECRET


def claims_for(user_id: object, **changes: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {"sub": str(user_id), "iss": "artel", "aud": "artel", "iat": now, "nbf": now, "exp": now + 60}
    return {name: value for name, value in (claims | changes).items() if value is not None}


def signed(claims: dict[str, Any], secret: str = JWT_SECRET, algorithm: str = "HS256") -> str:
    return jwt.encode(claims, secret, algorithm)
