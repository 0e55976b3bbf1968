"""Registration and login, on SQLite and PostgreSQL."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx
import jwt
import pytest

from tests.conftest import StartServer
from tests.people import PASSWORD, Person, assert_problem, client
from tests.running import Server, artel

pytestmark = pytest.mark.any_database


def log_in(url: str, email: str, password: str = PASSWORD) -> httpx.Response:
    return httpx.post(f"{url}/auth/token", data={"username": email, "password": password}, timeout=30)


def test_registration_returns_a_working_token(server: Server) -> None:
    answer = httpx.post(
        f"{server.url}/auth/register/", json={"email": "Ada.Registers@Example.org", "password": PASSWORD}, timeout=30
    )

    assert answer.status_code == 201
    registered = answer.json()
    assert set(registered) == {"user_id", "access_token", "token_type", "expires_in"}
    assert (registered["token_type"], registered["expires_in"]) == ("bearer", 604_800)
    me = client(server.url, registered["access_token"]).get("/auth/me/").json()
    assert me["user_id"] == registered["user_id"]
    assert me["email"] == "ada.registers@example.org"
    assert datetime.fromisoformat(me["created_at"]).tzinfo


def test_login_ignores_the_case_of_the_address(server: Server, person: Person) -> None:
    answer = log_in(server.url, f" {person.email.upper()} ")

    assert answer.status_code == 200
    assert client(server.url, answer.json()["access_token"]).get("/auth/me").json()["user_id"] == person.user_id


def test_composed_and_decomposed_passwords_are_equal(server: Server) -> None:
    email = f"zoe{time.time_ns()}@example.org"
    httpx.post(f"{server.url}/auth/register", json={"email": email, "password": "Zoë Zoë Zoë"}, timeout=30)

    assert log_in(server.url, email, "Zoe\u0308 Zoe\u0308 Zoe\u0308").status_code == 200


def test_address_is_unique_regardless_of_case(server: Server, person: Person) -> None:
    again = {"email": person.email.upper(), "password": "another password"}

    assert_problem(httpx.post(f"{server.url}/auth/register", json=again, timeout=30), 409, "email_taken")

    assert log_in(server.url, person.email).status_code == 200


def test_one_of_many_concurrent_registrations_gets_the_address(server: Server) -> None:
    body = {"email": f"race{time.time_ns()}@example.org", "password": PASSWORD}

    with ThreadPoolExecutor(10) as threads:
        answers = list(
            threads.map(
                lambda _: httpx.post(f"{server.url}/auth/register", json=body, timeout=30).status_code, range(10)
            )
        )

    assert sorted(answers) == [201] + [409] * 9


def test_only_first_account_is_administrator_under_concurrency(start_server: StartServer) -> None:
    url = start_server().url

    with ThreadPoolExecutor(8) as threads:
        people = list(threads.map(lambda _: Person.register(url), range(8)))

    administrators = [person for person in people if person.http.get("/auth/me").json()["is_admin"]]
    assert len(administrators) == 1
    assert not Person.register(url).http.get("/auth/me").json()["is_admin"]


def test_wrong_password_and_unknown_account_get_the_same_response(server: Server, person: Person) -> None:
    wrong = assert_problem(log_in(server.url, person.email, "not the password"), 401, "invalid_credentials")
    unknown = assert_problem(log_in(server.url, f"nobody{time.time_ns()}@example.org"), 401, "invalid_credentials")

    assert wrong["detail"] == unknown["detail"]


@pytest.mark.req("SEC-03.1")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"email": "ada@example.org"},
        {"email": "ada", "password": PASSWORD},
        {"email": "ada@", "password": PASSWORD},
        {"email": "a b@example.org", "password": PASSWORD},
        {"email": "ada\x00@example.org", "password": PASSWORD},
        {"email": f"{'a' * 250}@example.org", "password": PASSWORD},
        {"email": "ada\u200b@example.org", "password": PASSWORD},
        {"email": "ada@\u202eexample.org", "password": PASSWORD},
        {"email": "ada\x9d@example.org", "password": PASSWORD},
        {"email": "ada@example.org", "password": "seven77"},
        {"email": "ada@example.org", "password": "x" * 257},
        {"email": "ada@example.org", "password": PASSWORD, "is_admin": True},
    ],
)
def test_a_bad_registration_is_refused_without_repeating_the_password(server: Server, body: dict[str, object]) -> None:
    answer = httpx.post(f"{server.url}/auth/register", json=body, timeout=30)

    assert_problem(answer, 422, "invalid_request")
    assert str(body.get("password", "no password was sent")) not in answer.text


@pytest.mark.parametrize("form", [{}, {"username": "ada"}, {"username": "a", "password": "b", "grant_type": "magic"}])
def test_an_incomplete_log_in_form_is_refused(server: Server, form: dict[str, str]) -> None:
    assert_problem(httpx.post(f"{server.url}/auth/token", data=form, timeout=30), 422, "invalid_request")


@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("ada@example.org", "a" + "\u0301\u0323" * 500),  # very slow to normalize
        ("ada@example.org", "x" * 257),
        ("a\x00b@example.org", PASSWORD),
        ("ada@example.org", "nul\x00nul\x00"),
        ("x" * 300, PASSWORD),
    ],
)
def test_impossible_credentials_are_wrong_credentials(server: Server, username: str, password: str) -> None:
    assert_problem(log_in(server.url, username, password), 401, "invalid_credentials")


@pytest.mark.parametrize("field", ["username", "password"])
def test_form_with_invalid_encoding_is_wrong_credentials(server: Server, field: str) -> None:
    fields = {"username": "ada@example.org", "password": PASSWORD} | {field: r"\ud800 \ud800 \ud800"}
    parts = "".join(
        f'--cut\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    headers = {"Content-Type": "multipart/form-data; boundary=cut; charset=unicode_escape"}

    answer = httpx.post(f"{server.url}/auth/token", content=f"{parts}--cut--\r\n", headers=headers, timeout=30)

    assert answer.status_code in (400, 401, 422), answer.text


def test_lower_cased_address_is_limited_in_length(server: Server) -> None:
    body = {"email": "\u0130" * 200 + "@x.org", "password": PASSWORD}

    problem = assert_problem(httpx.post(f"{server.url}/auth/register", json=body, timeout=30), 422, "invalid_request")

    assert "254" in problem["detail"]


def test_password_with_invalid_unicode_is_refused(server: Server) -> None:
    raw = rb'{"email": "surrogate@example.org", "password": "\ud800 \ud800 \ud800"}'
    headers = {"Content-Type": "application/json"}

    assert_problem(
        httpx.post(f"{server.url}/auth/register", content=raw, headers=headers, timeout=30), 422, "invalid_request"
    )


def test_new_password_revokes_older_tokens(server: Server, person: Person) -> None:
    while int(time.time()) == jwt.decode(person.token, options={"verify_signature": False})["iat"]:
        pass  # tokens have whole seconds: wait for the next one

    changed = artel("users", "set-password", person.email, env=server.env, stdin="a better password\n")

    assert changed.returncode == 0, changed.stderr
    assert_problem(person.http.get("/auth/me"), 401, "invalid_token")
    fresh = log_in(server.url, person.email, "a better password").json()["access_token"]
    assert client(server.url, fresh).get("/auth/me").status_code == 200


def test_many_registrations_do_not_block_logins(server: Server, person: Person) -> None:
    with ThreadPoolExecutor(40) as threads:
        registering = [threads.submit(Person.register, server.url) for _ in range(30)]
        answers = [log_in(server.url, person.email).status_code for _ in range(5)]
        for future in registering:
            future.result()

    assert answers == [200] * 5


def test_operator_creates_accounts_when_registration_is_closed(start_server: StartServer) -> None:
    server = start_server(ARTEL_REGISTRATION_OPEN="false")
    body = {"email": "eve@example.org", "password": PASSWORD}

    assert_problem(httpx.post(f"{server.url}/auth/register", json=body, timeout=30), 403, "registration_closed")
    made = artel("users", "create", "eve@example.org", env=server.env, stdin=PASSWORD + "\n")

    assert made.returncode == 0, made.stderr
    assert log_in(server.url, "eve@example.org").status_code == 200


def test_failed_logins_throttle_only_that_account(start_server: StartServer) -> None:
    url = start_server().url
    victim, bystander = Person.register(url), Person.register(url)
    for _ in range(5):
        assert_problem(log_in(url, victim.email, "guess"), 401, "invalid_credentials")

    refused = log_in(url, victim.email)

    problem = assert_problem(refused, 429, "too_many_logins")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.headers["retry-after"] in problem["detail"]
    assert "attempts" in problem["detail"]
    assert log_in(url, bystander.email).status_code == 200
    assert victim.http.get("/auth/me").status_code == 200
    deadline = time.monotonic() + 30
    while (answer := log_in(url, victim.email)).status_code == 429 and time.monotonic() < deadline:
        pass
    assert answer.status_code == 200
    assert_problem(log_in(url, victim.email, "guess"), 401, "invalid_credentials")


def test_concurrent_guesses_are_all_counted(start_server: StartServer) -> None:
    url = start_server().url
    victim = Person.register(url)

    with ThreadPoolExecutor(30) as threads:
        answers = list(threads.map(lambda n: log_in(url, victim.email, f"guess{n}").status_code, range(30)))

    assert set(answers) == {401, 429}
    assert answers.count(401) <= 9  # five are free, plus those that are verified concurrently


def test_registrations_from_one_address_are_throttled(start_server: StartServer) -> None:
    url = start_server().url

    answers = [log_in(url, f"nobody{number}@example.org", "guess").status_code for number in range(31)]

    assert answers[:30] == [401] * 30
    assert answers[30] == 429


def test_many_concurrent_correct_logins_succeed(server: Server, person: Person) -> None:
    with ThreadPoolExecutor(15) as threads:
        answers = list(threads.map(lambda _: log_in(server.url, person.email).status_code, range(15)))

    assert answers == [200] * 15
