"""What is in the server's log, and what never is."""

import httpx
import pytest

from tests.conftest import StartServer
from tests.people import PASSWORD, Person

pytestmark = pytest.mark.any_database


def test_every_line_of_a_request_carries_its_ids(start_server: StartServer) -> None:
    server = start_server()
    person = Person.register(server.url)
    project = person.project()

    answer = person.http.get(f"/my/projects/{project['id']}")
    server.stop()  # the line is written after the answer was sent

    [line] = [line for line in server.log_lines() if line.get("request_id") == answer.headers["x-request-id"]]
    assert line["event"] == "request"
    assert (line["user_id"], line["project_id"]) == (person.user_id, project["id"])
    assert (line["method"], line["path"], line["status"]) == ("GET", f"/my/projects/{project['id']}", 200)
    assert line["duration_ms"] >= 0
    assert all(
        line["request_id"]
        for line in server.log_lines()
        if line["event"] in ("request", "account_created", "login_failed")
    )


def test_no_secret_reaches_the_log(start_server: StartServer) -> None:
    server = start_server(ARTEL_LOG_LEVEL="debug")
    person = Person.register(server.url)
    person.project()
    httpx.get(f"{server.url}/my/projects?token={person.token}", timeout=30)
    httpx.get(f"{server.url}/my/{person.token}", headers={"Authorization": f"Bearer {person.token}"}, timeout=30)
    httpx.post(f"{server.url}/auth/token", data={"username": person.email, "password": "wrong-secret-word"}, timeout=30)
    httpx.post(f"{server.url}/auth/register", json={"email": 1, "password": "typed-secret-word"}, timeout=30)
    server.stop()

    log = server.log.read_text()
    assert len(log.splitlines()) >= 6
    secrets = (person.token, person.token.split(".")[2], PASSWORD, "wrong-secret-word", "typed-secret-word")
    for secret in (*secrets, server.env["ARTEL_JWT_SECRET"]):
        assert secret not in log


def test_the_log_of_a_crash_has_the_request_id_and_the_client_gets_nothing_of_it(start_server: StartServer) -> None:
    import sqlalchemy

    server = start_server()
    person = Person.register(server.url)
    project = person.project()
    url = server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:  # a row that no version of ours writes
        connection.execute(sqlalchemy.text("UPDATE agents SET runtime = 'broken' WHERE name = 'agent_coder'"))
    engine.dispose()

    answer = person.http.get(f"/my/projects/{project['id']}")

    assert answer.status_code == 500
    problem = answer.json()
    assert problem["code"] == "internal_error"
    assert "runtime" not in answer.text
    crash = [line for line in server.log_lines() if line["event"] == "request_crashed"]
    assert [line["request_id"] for line in crash] == [problem["request_id"]]
    assert crash[0]["user_id"] == person.user_id
    assert "broken" in crash[0]["exception"]
