"""Administrators over HTTP: accounts, audit log, usage of all users, state of the server; on both databases."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import sqlalchemy

from tests.conftest import StartServer, Write, with_model
from tests.model_server import ModelServer
from tests.people import PASSWORD, Person, assert_problem, client
from tests.running import Server, artel

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, model: ModelServer) -> Server:
    return start_shared_server(**with_model(model))


@pytest.fixture(scope="module")
def first(server: Server) -> Person:
    """The first account of the server, its administrator."""
    return Person.register(server.url)


@pytest.fixture
def administrator(server: Server, first: Person) -> Person:
    return replace(first, http=client(server.url, first.token))


@pytest.fixture
def user(server: Server, administrator: Person) -> Person:
    assert administrator.user_id
    return Person.register(server.url)


def audit(administrator: Person, **query: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = administrator.get("/admin/audit", limit=100, **query)["items"]
    return items


def log_in(server: Server, email: str, password: str) -> httpx.Response:
    return httpx.post(f"{server.url}/auth/token", data={"username": email, "password": password}, timeout=60)


def sign_in(server: Server, link: str) -> httpx.Client:
    """Return the browser that opened a one-time link."""
    browser = client(server.url)
    browser.headers["Origin"] = server.url
    answer = browser.post("/auth/browser", json={"code": link.removeprefix("/#code=")})
    assert answer.status_code == 200, answer.text
    return browser


@pytest.mark.req("SEC-04.1")
def test_invited_user_signs_in_once_and_chooses_a_password(
    server: Server, administrator: Person, write: Write, mark: str
) -> None:
    email = f"{mark}@example.org"
    made = administrator.http.post("/admin/users", json={"email": email.upper()})

    assert made.status_code == 201, made.text
    account = made.json()
    assert (account["email"], account["is_admin"], account["password_state"]) == (email, False, "missing")
    left = datetime.fromisoformat(account["link_expires_at"]) - datetime.now(UTC)
    assert timedelta(days=2) < left <= timedelta(days=3)
    browser = sign_in(server, account["link"])
    assert_problem(
        browser.post("/auth/browser", json={"code": account["link"].removeprefix("/#code=")}), 403, "code_expired"
    )
    me = browser.get("/auth/me").json()
    assert (me["user_id"], me["password_state"]) == (account["user_id"], "missing")
    [login] = browser.get("/auth/sessions").json()["items"]
    lifetime = datetime.fromisoformat(login["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=6) < lifetime <= timedelta(days=7)

    old_one = {"old_password": "", "new_password": PASSWORD}
    assert_problem(browser.post("/auth/password", json=old_one), 409, "no_password")
    assert browser.post("/auth/password", json={"new_password": PASSWORD}).status_code == 204
    assert browser.get("/auth/me").json()["password_state"] == "set"
    assert_problem(browser.post("/auth/password", json={"new_password": "another one"}), 403, "wrong_password")
    assert log_in(server, email, PASSWORD).status_code == 200

    late = administrator.http.post("/admin/users", json={"email": f"late.{email}"}).json()
    write("UPDATE login_codes SET expires_at = :past", past=datetime.now(UTC) - timedelta(seconds=1))
    code = {"code": late["link"].removeprefix("/#code=")}
    assert_problem(client(server.url).post("/auth/browser", json=code), 403, "code_expired")


@pytest.mark.req("SEC-03.1")
@pytest.mark.parametrize("hidden", ["\u200b", "\u202e"])
def test_address_with_hidden_characters_is_refused(administrator: Person, mark: str, hidden: str) -> None:
    body = {"email": f"{mark}{hidden}@example.org", "password": PASSWORD}

    problem = assert_problem(administrator.http.post("/admin/users", json=body), 422, "invalid_request")

    assert "invisible characters" in str(problem)


def test_administrator_creates_resets_and_deletes_accounts(server: Server, administrator: Person, mark: str) -> None:
    email = f"{mark}@example.org"
    body = {"email": email, "password": PASSWORD}
    account = administrator.http.post("/admin/users", json=body).json()
    assert (account["link"], account["password_state"]) == (None, "set")
    token = log_in(server, email, PASSWORD).json()["access_token"]
    http = client(server.url, token)
    project = http.post("/my/projects", json={"name": "Soon gone"}).json()
    url = f"/admin/users/{account['user_id']}"
    assert_problem(administrator.http.post("/admin/users", json=body), 409, "email_taken")

    changed = administrator.http.post(f"{url}/password", json={"password": "a better password"})
    assert changed.json() == {"link": None, "link_expires_at": None}
    assert http.get("/auth/me").status_code == 401
    assert log_in(server, email, PASSWORD).status_code == 401
    assert log_in(server, email, "a better password").status_code == 200

    link = administrator.http.post(f"{url}/password", json={}).json()["link"]
    assert log_in(server, email, "a better password").status_code == 401
    again = sign_in(server, link)
    assert again.get("/my/projects").json()["total"] == 1

    assert administrator.http.delete(url).status_code == 204
    assert again.get("/auth/me").status_code == 401
    assert_problem(administrator.http.delete(url), 404, "account_not_found")
    assert_problem(administrator.http.post(f"{url}/password", json={}), 404, "account_not_found")
    assert_problem(administrator.http.get(f"/my/projects/{project['id']}"), 404, "project_not_found")
    for method, path in (("DELETE", ""), ("POST", "/password")):
        own = administrator.http.request(method, f"/admin/users/{administrator.user_id}{path}", json={})
        assert_problem(own, 409, "own_account")


@pytest.mark.req("UWS-08.5")
def test_audit_log_names_actor_action_and_target_without_secrets(
    server: Server, administrator: Person, user: Person, mark: str
) -> None:
    secret = f"secret {mark}"
    log_in(server, user.email, secret)
    log_in(server, secret, PASSWORD)
    administrator.http.patch(f"/admin/users/{user.user_id}", json={"monthly_budget_usd": 5, "storage_bytes": None})
    administrator.http.patch(f"/admin/users/{user.user_id}", json={})
    project = user.project()
    administrator.http.post(f"/admin/projects/{project['id']}/space/reset")
    account = administrator.http.post("/admin/users", json={"email": f"{mark}@example.org", "password": secret}).json()
    administrator.http.post(f"/admin/users/{account['user_id']}/password", json={})
    administrator.http.delete(f"/admin/users/{account['user_id']}")
    about = audit(administrator)
    mine = [entry for entry in about if entry["target_user_id"] in (user.user_id, account["user_id"])]

    assert [(entry["actor"], entry["action"], entry["target"], entry["detail"]) for entry in reversed(mine)] == [
        (user.email, "account_created", user.email, "registered from 127.0.0.1"),
        ("unknown", "login_failed", user.email, "from 127.0.0.1"),
        (administrator.email, "limits_changed", user.email, "monthly_micros=5000000, storage_bytes=default"),
        (administrator.email, "space_reset", f"project {project['id']}", ""),
        (administrator.email, "account_created", f"user {account['user_id']}", ""),  # the address is forgotten
        (administrator.email, "password_changed", f"user {account['user_id']}", ""),
        (administrator.email, "account_deleted", f"user {account['user_id']}", ""),
    ]
    failures = audit(administrator, action="login_failed")
    assert {entry["action"] for entry in failures} == {"login_failed"}
    assert "an unknown address" in {entry["target"] for entry in failures}
    logins = [entry for entry in audit(administrator, action="login") if entry["actor_id"] == user.user_id]
    assert [entry["detail"].split(",")[0] for entry in logins] == ["token"]
    assert mark not in str(administrator.get("/admin/audit", limit=100))
    assert [entry["id"] for entry in about] == sorted((entry["id"] for entry in about), reverse=True)
    page = administrator.get("/admin/audit", limit=2, offset=1)
    assert page["items"] == about[1:3]
    assert page["total"] >= len(about)


def test_providers_and_settings_are_in_the_audit_log_without_keys(administrator: Person) -> None:
    body = {"kind": "openai_compatible", "name": "own", "base_url": "http://127.0.0.1:1/v1", "api_key": "sk-hunter2"}
    provider = administrator.http.post("/admin/providers", json=body).json()
    url = f"/admin/providers/{provider['id']}"
    assert administrator.http.patch(url, json={"api_key": "sk-hunter3"}).status_code == 200
    assert administrator.http.delete(url).status_code == 204
    assert administrator.http.patch("/admin/settings", json={"default_model": None}).status_code == 200

    done = [(entry["actor"], entry["action"], entry["target"], entry["detail"]) for entry in audit(administrator)[:4]]

    assert done == [
        (administrator.email, "settings_changed", "", "default_model"),
        (administrator.email, "provider_deleted", "own", ""),
        (administrator.email, "provider_changed", "own", "api_key"),
        (administrator.email, "provider_added", "own", ""),
    ]
    assert "hunter" not in str(audit(administrator))


def test_operator_is_in_the_audit_log(server: Server, administrator: Person, mark: str) -> None:
    email = f"{mark}@example.org"
    made = artel("users", "create", email, env=server.env, stdin=PASSWORD + "\n")
    assert made.returncode == 0, made.stderr
    artel("users", "set-password", email, env=server.env, stdin="a better password\n")
    artel("users", "limit", email, "--storage-mb", "none", env=server.env)

    done = [(entry["action"], entry["detail"]) for entry in audit(administrator) if entry["target"] == email]

    assert done == [("limits_changed", "storage_bytes=none"), ("password_changed", ""), ("account_created", "")]
    assert {entry["actor"] for entry in audit(administrator) if entry["target"] == email} == {"operator"}


ENTRIES = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 51000)
INSERT INTO audit_log (at, is_routine, actor, action, target, detail)
SELECT :at, :is_routine, 'unknown', 'login_failed', '', '' FROM numbers
"""


@pytest.mark.req("UWS-08.5")
def test_audit_log_is_bounded_and_failed_logins_push_out_no_other_entry(start_server: StartServer) -> None:
    server = start_server()
    administrator, user = Person.register(server.url), Person.register(server.url)
    engine = sqlalchemy.create_engine(server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:"))
    administrator.http.patch(f"/admin/users/{user.user_id}", json={"storage_bytes": 1})
    now = datetime.now(UTC)
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text("UPDATE audit_log SET at = :old WHERE action = 'login'"), {"old": now - timedelta(days=366)}
        )
        connection.execute(sqlalchemy.text(ENTRIES), {"at": now, "is_routine": True})
    engine.dispose()
    total = administrator.get("/admin/audit", limit=1)["total"]
    assert total > 51_000

    for number in range(500):  # until the next clean-up
        if number % 50 == 0 and administrator.get("/admin/audit", limit=1)["total"] < total:
            break
        administrator.http.patch(f"/admin/users/{user.user_id}", json={"storage_bytes": 2})

    assert 50_000 <= administrator.get("/admin/audit", limit=1)["total"] <= 50_600
    assert administrator.get("/admin/audit", action="login", limit=1)["total"] == 0
    assert administrator.get("/admin/audit", action="limits_changed", limit=1)["total"] >= 2


def test_usage_of_all_users_by_day_user_and_model(
    administrator: Person, user: Person, server: Server, mark: str
) -> None:
    other = Person.register(server.url)
    before = administrator.get("/admin/usage")
    for person, count in ((user, 2), (other, 1)):
        project = person.project()
        person.agent(project["id"], name="thrifty", model="gpt-4o", memory=False)
        for _ in range(count):
            person.say(person.session(project["id"]), mark, "thrifty")
    spent = {person.user_id: person.get("/my/usage")["sum"] for person in (user, other)}

    report = administrator.get("/admin/usage", days=1)

    of_user = {item.pop("user_id"): item for item in report["by_user"]}
    for person in (user, other):
        assert of_user[person.user_id].pop("email") == person.email
        assert of_user[person.user_id] == pytest.approx(spent[person.user_id])
    [today] = report["by_day"]
    assert today.pop("day") == report["first_day"] == report["last_day"] == datetime.now(UTC).date().isoformat()
    assert today == report["sum"]
    assert report["sum"]["calls"] == before["sum"]["calls"] + 3 == sum(item["calls"] for item in report["by_model"])
    assert "gpt-4o" in {item["model"] for item in report["by_model"]}
    assert report["users"] == len(report["by_user"])
    costs = [item["cost_usd"] for item in report["by_user"]]
    assert costs == sorted(costs, reverse=True)
    for days in (0, 367):
        assert_problem(administrator.http.get("/admin/usage", params={"days": days}), 422, "invalid_request")


def test_state_of_the_server(administrator: Person, server: Server, backend: str) -> None:
    state = administrator.get("/admin/system")

    parts = {part["part"]: part for part in state["parts"]}
    assert parts["database"]["verdict"] == parts["data folder"]["verdict"] == parts["memory index"]["verdict"] == "ok"
    assert parts["models"]["verdict"] == "ok"
    assert state["schema_revision"] == state["schema_needed"]
    assert state["database"] == ("sqlite" if backend == "sqlite" else "postgresql")
    assert state["accounts"] == administrator.get("/admin/users")["total"]
    assert state["data_folder"]["path"] == server.env["ARTEL_DATA_DIR"]
    assert state["data_folder"]["is_complete"]
    assert state["data_folder"]["files"] > 0
    assert [host["is_alive"] for host in state["processes"]] == ([] if backend == "sqlite" else [True])
    assert server.env["ARTEL_JWT_SECRET"] not in str(state)


def test_state_names_a_service_that_is_down_without_its_password(start_server: StartServer) -> None:
    server = start_server(ARTEL_QDRANT_URL="http://ada:hunter2@127.0.0.1:1")
    administrator = Person.register(server.url)

    state = administrator.get("/admin/system")

    [vectors] = [part for part in state["parts"] if part["part"] == "vectors"]
    assert vectors["verdict"] == "failed"
    assert "ARTEL_QDRANT_URL" in vectors["advice"]
    assert "hunter2" not in str(state)


def test_only_administrators_see_and_change_the_server(user: Person, administrator: Person) -> None:
    for path in ("/admin/audit", "/admin/usage", "/admin/system"):
        assert_problem(user.http.get(path), 403, "administrator_only")
    assert_problem(user.http.post("/admin/users", json={"email": "x@example.org"}), 403, "administrator_only")
    own = f"/admin/users/{user.user_id}"
    assert_problem(user.http.delete(own), 403, "administrator_only")
    assert_problem(user.http.post(f"{own}/password", json={}), 403, "administrator_only")
    assert user.user_id in {account["user_id"] for account in administrator.get("/admin/users", limit=100)["items"]}
