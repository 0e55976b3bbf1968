"""Registering and logging in, on SQLite and PostgreSQL."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx
import pytest

from tests.conftest import StartServer
from tests.people import PASSWORD, Person, assert_problem, client
from tests.running import Server, artel


def log_in(url: str, email: str, password: str = PASSWORD) -> httpx.Response:
    return httpx.post(f"{url}/auth/token", data={"username": email, "password": password}, timeout=30)


def test_registering_answers_a_token_that_works(server: Server) -> None:
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


def test_logging_in_works_whatever_the_case_of_the_address(server: Server, person: Person) -> None:
    answer = log_in(server.url, f" {person.email.upper()} ")

    assert answer.status_code == 200
    assert client(server.url, answer.json()["access_token"]).get("/auth/me").json()["user_id"] == person.user_id


def test_a_password_may_be_typed_composed_or_decomposed(server: Server) -> None:
    email = f"zoe{time.time_ns()}@example.org"
    httpx.post(f"{server.url}/auth/register", json={"email": email, "password": "Zoë Zoë Zoë"}, timeout=30)

    assert log_in(server.url, email, "Zoe\u0308 Zoe\u0308 Zoe\u0308").status_code == 200


def test_an_address_is_taken_whatever_its_case(server: Server, person: Person) -> None:
    again = {"email": person.email.upper(), "password": "another password"}

    assert_problem(httpx.post(f"{server.url}/auth/register", json=again, timeout=30), 409, "email_taken")

    assert log_in(server.url, person.email).status_code == 200


def test_one_of_many_registrations_at_once_gets_the_address(server: Server) -> None:
    body = {"email": f"race{time.time_ns()}@example.org", "password": PASSWORD}

    with ThreadPoolExecutor(10) as threads:
        answers = list(
            threads.map(
                lambda _: httpx.post(f"{server.url}/auth/register", json=body, timeout=30).status_code, range(10)
            )
        )

    assert sorted(answers) == [201] + [409] * 9


def test_exactly_the_first_account_is_administrator_even_of_many_at_once(start_server: StartServer) -> None:
    url = start_server().url

    with ThreadPoolExecutor(8) as threads:
        people = list(threads.map(lambda _: Person.register(url), range(8)))

    administrators = [person for person in people if person.http.get("/auth/me").json()["is_admin"]]
    assert len(administrators) == 1
    assert not Person.register(url).http.get("/auth/me").json()["is_admin"]


def test_a_wrong_password_and_an_unknown_account_are_answered_alike(server: Server, person: Person) -> None:
    wrong = assert_problem(log_in(server.url, person.email, "not the password"), 401, "invalid_credentials")
    unknown = assert_problem(log_in(server.url, f"nobody{time.time_ns()}@example.org"), 401, "invalid_credentials")

    assert wrong["detail"] == unknown["detail"]


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


def test_registration_can_be_closed_and_the_operator_makes_the_accounts(start_server: StartServer) -> None:
    server = start_server(ARTEL_REGISTRATION_OPEN="false")
    body = {"email": "eve@example.org", "password": PASSWORD}

    assert_problem(httpx.post(f"{server.url}/auth/register", json=body, timeout=30), 403, "registration_closed")
    made = artel("users", "create", "eve@example.org", env=server.env, stdin=PASSWORD + "\n")

    assert made.returncode == 0, made.stderr
    assert log_in(server.url, "eve@example.org").status_code == 200


def test_failed_log_ins_slow_down_the_account_and_nobody_else(start_server: StartServer) -> None:
    url = start_server().url
    victim, bystander = Person.register(url), Person.register(url)
    for _ in range(5):
        assert_problem(log_in(url, victim.email, "guess"), 401, "invalid_credentials")

    refused = log_in(url, victim.email)

    problem = assert_problem(refused, 429, "too_many_logins")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.headers["retry-after"] in problem["detail"]
    assert log_in(url, bystander.email).status_code == 200
    assert victim.http.get("/auth/me").status_code == 200
    deadline = time.monotonic() + 20
    while (answer := log_in(url, victim.email)).status_code == 429 and time.monotonic() < deadline:
        pass
    assert answer.status_code == 200
    assert_problem(log_in(url, victim.email, "guess"), 401, "invalid_credentials")


def test_guesses_at_once_do_not_slip_by(start_server: StartServer) -> None:
    url = start_server().url
    victim = Person.register(url)

    with ThreadPoolExecutor(30) as threads:
        answers = list(threads.map(lambda n: log_in(url, victim.email, f"guess{n}").status_code, range(30)))

    assert set(answers) == {401, 429}
    assert answers.count(401) <= 9  # five are free; as many as are verified at once may come on top


def test_many_accounts_from_one_address_are_slowed_down_too(start_server: StartServer) -> None:
    url = start_server().url

    answers = [log_in(url, f"nobody{number}@example.org", "guess").status_code for number in range(31)]

    assert answers[:30] == [401] * 30
    assert answers[30] == 429


def test_many_right_log_ins_at_once_are_all_let_in(server: Server, person: Person) -> None:
    with ThreadPoolExecutor(15) as threads:
        answers = list(threads.map(lambda _: log_in(server.url, person.email).status_code, range(15)))

    assert answers == [200] * 15
