"""Which tokens are accepted, and for which user."""

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.conftest import JWT_SECRET
from tests.people import Person, assert_problem, client
from tests.running import Server, artel
from tests.tokens import claims_for, signed

pytestmark = pytest.mark.any_database


def unsigned(claims: dict[str, Any], algorithm: str) -> str:
    parts = ({"alg": algorithm, "typ": "JWT"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def test_token_with_valid_claims_is_accepted(server: Server, person: Person) -> None:
    me = client(server.url, signed(claims_for(person.user_id))).get("/auth/me")

    assert me.json()["user_id"] == person.user_id


REFUSED: dict[str, Callable[[int], str]] = {
    "expired": lambda user: signed(claims_for(user, exp=int(time.time()) - 1)),
    "not yet valid": lambda user: signed(claims_for(user, nbf=int(time.time()) + 60)),
    "issued in the future": lambda user: signed(claims_for(user, iat=int(time.time()) + 60)),
    "wrong signature": lambda user: signed(claims_for(user), "another secret that is long enough too"),
    "alg none": lambda user: unsigned(claims_for(user), "none"),
    "alg None": lambda user: unsigned(claims_for(user), "None"),
    "alg HS256 without signature": lambda user: unsigned(claims_for(user), "HS256"),
    "another algorithm": lambda user: signed(claims_for(user), JWT_SECRET + JWT_SECRET, "HS512"),
    "wrong audience": lambda user: signed(claims_for(user, aud="another")),
    "no audience": lambda user: signed(claims_for(user, aud=None)),
    "wrong issuer": lambda user: signed(claims_for(user, iss="another")),
    "no issuer": lambda user: signed(claims_for(user, iss=None)),
    "no expiry": lambda user: signed(claims_for(user, exp=None)),
    "no subject": lambda user: signed(claims_for(user, sub=None)),
    "a subject that is no number": lambda _: signed(claims_for("ada")),
    "a subject beyond all numbers": lambda _: signed(claims_for(2**63)),
    "nobody's number": lambda _: signed(claims_for(2**62)),
    "changed claims": lambda user: signed(claims_for(user)).replace(".", ".e30", 1),
    "two parts": lambda _: "eyJhbGciOiJIUzI1NiJ9.e30",
    "no token at all": lambda _: "token",
    "very long": lambda _: "x" * 10_000,
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_bad_token_is_refused(server: Server, person: Person, why: str) -> None:
    answer = client(server.url, REFUSED[why](person.user_id)).get("/my/projects")

    assert_problem(answer, 401, "invalid_token")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic YTpi", "token"])
def test_a_request_without_a_bearer_token_is_refused(server: Server, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}

    answer = httpx.get(f"{server.url}/my/projects", headers=headers, timeout=30)

    assert_problem(answer, 401, "not_authenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_two_tokens_in_one_request_are_refused(server: Server, person: Person, other: Person) -> None:
    headers = [("Authorization", f"Bearer {person.token}"), ("Authorization", f"Bearer {other.token}")]

    assert_problem(httpx.get(f"{server.url}/auth/me", headers=headers, timeout=30), 401, "not_authenticated")


def test_token_of_deleted_account_is_refused_and_its_data_deleted(server: Server, person: Person) -> None:
    person.project()

    deleted = artel("users", "delete", person.email, "--yes", env=server.env)

    assert deleted.returncode == 0, deleted.stderr
    assert_problem(person.http.get("/my/projects"), 401, "invalid_token")
    again = httpx.post(
        f"{server.url}/auth/register", json={"email": person.email, "password": "a new password"}, timeout=30
    ).json()
    assert again["user_id"] > person.user_id
    assert client(server.url, again["access_token"]).get("/my/projects").json()["total"] == 0
    assert_problem(person.http.get("/my/projects"), 401, "invalid_token")


@pytest.mark.req("WSA-08.1")
def test_new_objects_belong_to_the_token_user(server: Server, person: Person, other: Person) -> None:
    forged = {"X-User-Id": str(other.user_id), "X-Forwarded-User": other.email, "Cookie": f"user_id={other.user_id}"}

    made = person.http.post("/my/projects", params={"user_id": other.user_id}, json={"name": "Mine"}, headers=forged)

    assert made.status_code == 201
    assert [item["id"] for item in person.http.get("/my/projects").json()["items"]] == [made.json()["id"]]
    assert other.http.get("/my/projects").json()["total"] == 0
    refused = person.http.post("/my/projects", json={"name": "Theirs", "user_id": other.user_id})
    assert_problem(refused, 422, "invalid_request")
    assert other.http.get("/my/projects").json()["total"] == 0
    lines = [line for line in server.log_lines() if line.get("request_id") == made.headers["x-request-id"]]
    assert {line.get("user_id") for line in lines} == {person.user_id}
