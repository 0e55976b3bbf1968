"""Who somebody is, asked without the HTTP client, which takes as long to import as all the rest of a connector."""

import http.client
import json
import os
from contextlib import closing
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 5
MAX_BYTES = 100_000


def quick_user_id(server: str, token: str) -> int | None:
    """Return the user's number; None whenever anything is unusual, for the HTTP client to find out and tell."""
    place = urlsplit(server)
    kind = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}.get(place.scheme)
    if kind is None or any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    try:
        with closing(kind(place.hostname or "", place.port, timeout=TIMEOUT_SECONDS)) as connection:
            connection.request("GET", f"{place.path}/auth/me", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return int(json.loads(answer.read(MAX_BYTES))["user_id"]) if answer.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
