"""Who may sign in, by which proof, and from where."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.people import PASSWORD, assert_problem, client
from tests.running import Server, artel, clean_environment


def register(url: str, email: str) -> httpx.Response:
    return httpx.post(f"{url}/auth/register", json={"email": email, "password": PASSWORD}, timeout=30)


@pytest.mark.req("SEC-04.5")
def test_only_the_first_of_many_registers_by_default(upgraded_database: Callable[[], str], tmp_path: Path) -> None:
    env = clean_environment(tmp_path, ARTEL_DATABASE_URL=upgraded_database())
    del env["ARTEL_REGISTRATION_OPEN"]
    server = Server.start(tmp_path, env)

    with ThreadPoolExecutor(5) as threads:
        answers = list(threads.map(lambda n: register(server.url, f"person{n}@example.org"), range(5)))

    assert sorted(answer.status_code for answer in answers) == [201] + [403] * 4
    problem = assert_problem(register(server.url, "late@example.org"), 403, "registration_closed")
    assert "artel users create" in problem["detail"]
    made = artel("users", "create", "late@example.org", env=env, stdin=f"{PASSWORD}\n")
    assert made.returncode == 0, made.stderr
    assert server.stop() == 0


@pytest.mark.req("SEC-04.5")
@pytest.mark.parametrize(("variables", "status"), [({}, 403), ({"ARTEL_REGISTRATION_OPEN": "true"}, 201)])
def test_nobody_registers_at_a_personal_server(tmp_path: Path, variables: dict[str, str], status: int) -> None:
    env = clean_environment(tmp_path)
    del env["ARTEL_REGISTRATION_OPEN"]
    server = Server.start(tmp_path, env | variables, "up", "--no-folder")

    assert register(server.url, "eve@example.org").status_code == status

    assert client(server.url, server.ready["token"]).get("/auth/me").json()["is_admin"]
    assert server.stop() == 0
