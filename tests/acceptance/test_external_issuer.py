"""Tokens of an external issuer (JWKS), against a real HTTP server that publishes its keys."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.conftest import StartServer
from tests.people import Person, assert_problem, client
from tests.running import Server, artel

pytestmark = pytest.mark.any_database

AUDIENCE = "artel-of-the-tests"


class Issuer:
    """An identity provider with one RSA and one elliptic key."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, Any]] = {
            "rsa": ("RS256", rsa.generate_private_key(65537, 2048)),
            "ec": ("ES256", ec.generate_private_key(ec.SECP256R1())),
        }
        self.requests = 0
        self.works = True
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests += 1
                body = json.dumps(issuer.published()).encode()
                self.send_response(200 if issuer.works else 500)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def published(self) -> dict[str, Any]:
        algorithms: dict[str, Any] = {"RS256": jwt.algorithms.RSAAlgorithm, "ES256": jwt.algorithms.ECAlgorithm}
        return {
            "keys": [
                algorithms[algorithm].to_jwk(key.public_key(), as_dict=True)
                | {"kid": kid, "alg": algorithm, "use": "sig"}
                for kid, (algorithm, key) in self.keys.items()
            ]
        }

    def token(self, subject: str, kid: str = "rsa", **changes: Any) -> str:
        now = int(time.time())
        claims = {"sub": subject, "iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + 60}
        claims = {name: value for name, value in (claims | changes).items() if value is not None}
        algorithm, key = self.keys[kid]
        return jwt.encode(claims, key, algorithm, headers={"kid": kid})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.close()


@pytest.fixture
def trusting(start_server: StartServer, issuer: Issuer) -> Server:
    return start_server(ARTEL_JWKS_URL=f"{issuer.url}/keys", ARTEL_ISSUER=issuer.url, ARTEL_AUDIENCE=AUDIENCE)


def test_an_external_subject_becomes_a_user_on_first_sight_and_stays_that_user(
    trusting: Server, issuer: Issuer
) -> None:
    first = client(trusting.url, issuer.token("ada", email="ada@example.org"))
    made = first.post("/my/projects", json={"name": "Hers"})
    me = first.get("/auth/me").json()

    again = client(trusting.url, issuer.token("ada", kid="ec")).get("/auth/me").json()
    somebody = client(trusting.url, issuer.token("bob")).get("/auth/me").json()

    assert made.status_code == 201
    assert me["email"] == "ada@example.org"
    assert me["is_admin"]
    assert again == me
    assert somebody["user_id"] != me["user_id"]
    assert (somebody["email"], somebody["is_admin"]) == (None, False)
    assert issuer.requests == 1


@pytest.mark.req("SEC-03.1")
@pytest.mark.parametrize("email", ["ada\u200b@example.org", "\u202eada@example.org"])
def test_address_with_hidden_characters_is_not_taken_from_a_token(trusting: Server, issuer: Issuer, email: str) -> None:
    assert client(trusting.url, issuer.token("ada", email=email)).get("/auth/me").json()["email"] is None


def test_local_accounts_work_beside_it_and_are_never_taken_over_by_an_address(trusting: Server, issuer: Issuer) -> None:
    person = Person.register(trusting.url)

    external = client(trusting.url, issuer.token("thief", email=person.email)).get("/auth/me").json()

    assert external["user_id"] != person.user_id
    assert person.http.get("/auth/me").json()["user_id"] == person.user_id


def test_bad_external_tokens_are_refused(trusting: Server, issuer: Issuer) -> None:
    public = issuer.keys["rsa"][1].public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    stranger = rsa.generate_private_key(65537, 2048)
    now = int(time.time())
    claims = {"sub": "ada", "iss": issuer.url, "aud": AUDIENCE, "exp": now + 60}
    bad = {
        "wrong audience": issuer.token("ada", aud="another"),
        "no audience": issuer.token("ada", aud=None),
        "wrong issuer": issuer.token("ada", iss="http://127.0.0.1:1"),
        "expired": issuer.token("ada", exp=now - 60),
        "not yet valid": issuer.token("ada", nbf=now + 60),
        "no expiry": issuer.token("ada", exp=None),
        "no subject": issuer.token("ada", sub=None),
        "empty subject": issuer.token(""),
        "nul in the subject": issuer.token("a\x00b"),
        "another's key": jwt.encode(claims, stranger, "RS256", headers={"kid": "rsa"}),
        "unknown key": jwt.encode(claims, stranger, "RS256", headers={"kid": "strange"}),
        "the public key as our secret": _hs256_with(pem, claims),
        "key of the other algorithm": jwt.encode(claims, issuer.keys["rsa"][1], "RS256", headers={"kid": "ec"}),
    }

    for why, token in bad.items():
        answer = client(trusting.url, token).get("/auth/me")
        assert answer.status_code == 401, (why, answer.text)
        assert_problem(answer, 401, "invalid_token")
    assert issuer.requests == 1  # unknown keys don't make the server run to the issuer every time


def test_many_first_requests_at_once_make_one_user(trusting: Server, issuer: Issuer) -> None:
    from concurrent.futures import ThreadPoolExecutor

    ada = client(trusting.url, issuer.token("ada"))
    with ThreadPoolExecutor(10) as threads:
        users = list(threads.map(lambda _: ada.get("/auth/me").json()["user_id"], range(10)))

    assert len(set(users)) == 1


def test_a_deleted_external_user_stays_out(trusting: Server, issuer: Issuer) -> None:
    ada = client(trusting.url, issuer.token("ada"))
    user_id = ada.get("/auth/me").json()["user_id"]

    deleted = artel("users", "delete", str(user_id), "--yes", env=trusting.env)

    assert deleted.returncode == 0, deleted.stderr
    assert_problem(ada.get("/auth/me"), 401, "invalid_token")
    assert_problem(client(trusting.url, issuer.token("ada")).get("/auth/me"), 401, "invalid_token")


def test_without_keys_the_server_says_that_it_can_not_check(trusting: Server, issuer: Issuer) -> None:
    issuer.works = False

    answer = client(trusting.url, issuer.token("ada")).get("/auth/me")

    assert_problem(answer, 503, "identity_provider_unavailable")
    assert answer.headers["retry-after"]


def test_external_tokens_are_refused_where_no_issuer_is_configured(server: Server, issuer: Issuer) -> None:
    assert_problem(client(server.url, issuer.token("1")).get("/auth/me"), 401, "invalid_token")


def _hs256_with(secret: bytes, claims: dict[str, Any]) -> str:
    """Sign with HMAC under a public key, which jwt.encode itself refuses to do."""
    import base64
    import hashlib
    import hmac

    def part(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    signed = part(json.dumps({"alg": "HS256", "kid": "rsa"}).encode()) + b"." + part(json.dumps(claims).encode())
    return (signed + b"." + part(hmac.digest(secret, signed, hashlib.sha256))).decode()
