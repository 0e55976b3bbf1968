"""Sign-in by password, code, token and cookie, and the management of logins."""

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import sqlalchemy
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from artel.contract.connector import CLOSE_LOGIN_OVER, PROTOCOL
from tests.conftest import Rows, StartServer
from tests.connector import connected
from tests.people import PASSWORD, Person, assert_problem, client
from tests.running import Server, artel, clean_environment
from tests.streams import stream
from tests.tokens import claims_for, signed

pytestmark = pytest.mark.any_database


def register(url: str, email: str) -> httpx.Response:
    return httpx.post(f"{url}/auth/register", json={"email": email, "password": PASSWORD}, timeout=30)


def is_open(url: str) -> bool:
    """Return whether the page offers registration."""
    answer: bool = httpx.get(f"{url}/auth/browser", timeout=30).json()["registration_open"]
    return answer


@pytest.mark.req("SEC-04.5")
def test_only_the_first_user_can_register_by_default(upgraded_database: Callable[[], str], tmp_path: Path) -> None:
    env = clean_environment(tmp_path, ARTEL_DATABASE_URL=upgraded_database())
    del env["ARTEL_REGISTRATION_OPEN"]
    server = Server.start(tmp_path, env)

    assert is_open(server.url)
    with ThreadPoolExecutor(5) as threads:
        answers = list(threads.map(lambda n: register(server.url, f"person{n}@example.org"), range(5)))

    assert sorted(answer.status_code for answer in answers) == [201] + [403] * 4
    assert not is_open(server.url)
    problem = assert_problem(register(server.url, "late@example.org"), 403, "registration_closed")
    assert "artel users create" in problem["detail"]
    made = artel("users", "create", "late@example.org", env=env, stdin=f"{PASSWORD}\n")
    assert made.returncode == 0, made.stderr
    assert server.stop() == 0


@pytest.mark.req("SEC-04.5")
@pytest.mark.parametrize(("variables", "status"), [({}, 403), ({"ARTEL_REGISTRATION_OPEN": "true"}, 201)])
def test_registration_is_closed_on_a_personal_server(tmp_path: Path, variables: dict[str, str], status: int) -> None:
    env = clean_environment(tmp_path)
    del env["ARTEL_REGISTRATION_OPEN"]
    server = Server.start(tmp_path, env | variables, "up", "--no-folder")

    assert register(server.url, "eve@example.org").status_code == status
    assert is_open(server.url) == (status == 201)

    assert client(server.url, server.ready["token"]).get("/auth/me").json()["is_admin"]
    assert server.stop() == 0


def sign_in_browser(http: httpx.Client, **proof: object) -> httpx.Response:
    return http.post("/auth/browser", json=proof)


def new_code(person: Person) -> str:
    answer = person.http.post("/auth/codes")
    assert answer.status_code == 201, answer.text
    code: str = answer.json()["code"]
    return code


def log_in(person: Person, password: str = PASSWORD) -> httpx.Client:
    """Log in again and return a client with the new token."""
    form = {"username": person.email, "password": password}
    url = str(person.http.base_url).rstrip("/")
    answer = httpx.post(f"{url}/auth/token", data=form, timeout=30)
    assert answer.status_code == 200, answer.text
    return client(url, answer.json()["access_token"])


@pytest.mark.req("SEC-04.1")
def test_a_code_is_exchanged_once_for_a_cookie(server: Server, person: Person, rows: Rows) -> None:
    made = person.http.post("/auth/codes").json()
    assert made["expires_in"] == 60
    assert made["code"] not in str(rows("SELECT * FROM login_codes"))
    browser = client(server.url)

    answer = sign_in_browser(browser, code=made["code"])

    assert answer.json()["user_id"] == person.user_id
    assert person.token not in answer.text
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie
    assert browser.get("/my/projects").status_code == 200
    problem = assert_problem(sign_in_browser(client(server.url), code=made["code"]), 403, "code_expired")
    assert problem["detail"] == "This link has expired. Run `artel link` to get a new one."


@pytest.mark.req("SEC-04.1")
def test_expired_or_superseded_code_is_refused(server: Server, person: Person, other: Person) -> None:
    first, late = new_code(person), new_code(other)
    second = new_code(person)
    engine = sqlalchemy.create_engine(server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        statement = sqlalchemy.text("UPDATE login_codes SET expires_at = :past WHERE user_id = :user_id")
        connection.execute(statement, {"past": "2026-01-01 00:00:00.000000", "user_id": other.user_id})
    engine.dispose()

    for code in (first, late, "never-made"):
        assert_problem(sign_in_browser(client(server.url), code=code), 403, "code_expired")
    assert sign_in_browser(client(server.url), code=second).status_code == 200


@pytest.mark.req("SEC-04.1")
def test_link_prints_a_link_that_signs_in(server: Server, person: Person, tmp_path: Path) -> None:
    env = clean_environment(tmp_path, ARTEL_SERVER=server.url, ARTEL_TOKEN=person.token)

    printed = artel("link", env=env)

    assert printed.returncode == 0, printed.stderr
    address, _, code = printed.stdout.strip().partition("/#code=")
    assert address == server.url
    assert sign_in_browser(client(server.url), code=code).json()["email"] == person.email


@pytest.mark.req("SEC-04.2")
def test_other_account_is_signed_out_only_with_replace(server: Server, person: Person, other: Person) -> None:
    browser = client(server.url)
    assert sign_in_browser(browser, email=person.email, password=PASSWORD).status_code == 200
    code = new_code(other)

    for proof in ({"code": code}, {"token": other.token}):
        problem = assert_problem(sign_in_browser(browser, **proof), 409, "other_account")
        assert problem["detail"] == f"Sign in as {other.email}? You are signed in as {person.email}."
        assert browser.get("/auth/me").json()["user_id"] == person.user_id

    assert sign_in_browser(browser, code=code, replace=True).status_code == 200
    assert browser.get("/auth/browser").json()["account"]["user_id"] == other.user_id
    assert sign_in_browser(browser, token=other.token).status_code == 200


@pytest.mark.req("SEC-04.3")
def test_cookie_is_accepted_for_changes_only_from_own_pages(server: Server, person: Person) -> None:
    browser = client(server.url)
    sign_in_browser(browser, token=person.token)

    assert_problem(browser.post("/my/projects", json={"name": "Forged"}), 403, "origin_refused")
    for headers in ({"Sec-Fetch-Site": "none"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
        refused = browser.post("/my/projects", json={"name": "Forged"}, headers=headers)
        assert_problem(refused, 403, "origin_refused")
    assert browser.get("/my/projects").json()["total"] == 0
    for headers in ({"Origin": server.url}, {"Sec-Fetch-Site": "same-origin"}):
        assert browser.post("/my/projects", json={"name": "Website"}, headers=headers).status_code == 201
    assert person.http.post("/my/projects", json={"name": "By a program"}).status_code == 201


@pytest.mark.req("SEC-04.3")
def test_websocket_refuses_cookies_and_duplicate_cookies_are_ignored(server: Server, person: Person) -> None:
    project_id = person.project()["id"]
    browser = client(server.url)
    sign_in_browser(browser, token=person.token)
    [(name, value)] = browser.cookies.items()
    headers = {"Cookie": f"{name}={value}", "Origin": server.url}
    url = f"{server.url.replace('http', 'ws', 1)}/my/projects/{project_id}/connector"

    with pytest.raises(InvalidStatus) as refused:
        connect(url, additional_headers=headers, subprotocols=[Subprotocol(PROTOCOL)])

    assert refused.value.response.status_code == 401
    planted = {"Cookie": f"{name}={value}; {name}={person.token}"}
    assert httpx.get(f"{server.url}/auth/me", headers=planted, timeout=30).status_code == 401


@pytest.mark.req("SEC-04.6")
def test_a_user_lists_and_ends_logins(server: Server, person: Person, other: Person) -> None:
    second, browser = log_in(person), client(server.url)
    sign_in_browser(browser, token=person.token)

    page = person.get("/auth/sessions")

    assert (page["total"], page["limit"], page["offset"]) == (3, 50, 0)
    assert sorted(item["kind"] for item in page["items"]) == ["browser", "token", "token"]
    [current] = [item["id"] for item in page["items"] if item["is_current"]]
    [browsing] = [item["id"] for item in page["items"] if item["kind"] == "browser"]
    assert len(person.get("/auth/sessions", limit=1, offset=1)["items"]) == 1
    assert_problem(other.http.delete(f"/auth/sessions/{browsing}"), 404, "login_not_found")
    assert browser.get("/auth/me").status_code == 200
    assert person.http.delete(f"/auth/sessions/{browsing}").status_code == 204
    assert_problem(browser.get("/auth/me"), 401, "invalid_token")
    assert browser.get("/auth/browser").json() == {"account": None, "registration_open": True}
    assert_problem(person.http.delete(f"/auth/sessions/{browsing}"), 404, "login_not_found")

    assert second.post("/auth/logout").status_code == 204
    assert_problem(second.get("/auth/me"), 401, "invalid_token")
    assert [item["id"] for item in person.get("/auth/sessions")["items"]] == [current]


@pytest.mark.req("SEC-04.6")
def test_api_key_is_a_login_of_its_own(server: Server, person: Person, rows: Rows) -> None:
    maker = client(server.url)
    sign_in_browser(maker, email=person.email, password=PASSWORD)
    maker.headers["Origin"] = server.url
    most = person.get("/auth/me")["login_seconds"]
    made = maker.post("/auth/sessions", json={"name": "Nightly report", "expires_in": 3600})
    assert made.status_code == 201
    key = made.json()
    left = datetime.fromisoformat(key["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=50) < left <= timedelta(hours=1)
    audit = "SELECT detail FROM audit_log WHERE actor_id = :user_id AND action = 'login' ORDER BY id DESC LIMIT 1"
    assert rows(audit, user_id=person.user_id) == [("token, Nightly report",)]
    program = client(server.url)
    program.headers["Authorization"] = f"Bearer {key['access_token']}"
    assert program.get("/auth/me").json()["user_id"] == person.user_id

    assert maker.post("/auth/logout").status_code == 204
    assert program.get("/auth/me").status_code == 200  # it does not end with the login that made it
    [listed] = [item for item in person.get("/auth/sessions")["items"] if item["id"] == key["id"]]
    assert (listed["kind"], listed["label"]) == ("token", "Nightly report")
    assert person.http.delete(f"/auth/sessions/{key['id']}").status_code == 204
    assert_problem(program.get("/auth/me"), 401, "invalid_token")

    too_long = person.http.post("/auth/sessions", json={"name": "For ever", "expires_in": most + 1})
    assert_problem(too_long, 422, "lifetime_too_long")
    for wrong in ({"name": " "}, {"name": "x", "expires_in": 1}, {"name": "x\ny"}):
        assert person.http.post("/auth/sessions", json=wrong).status_code == 422


@pytest.mark.req("SEC-04.6")
@pytest.mark.parametrize("through_browser", [False, True])
def test_key_made_with_a_key_ends_with_it(server: Server, person: Person, through_browser: bool) -> None:
    maker = client(server.url)
    sign_in_browser(maker, email=person.email, password=PASSWORD)
    maker.headers["Origin"] = server.url
    first = maker.post("/auth/sessions", json={"name": "First", "expires_in": 60}).json()
    program = client(server.url, first["access_token"])
    if through_browser:
        program = client(server.url)
        sign_in_browser(program, token=first["access_token"])
        program.headers["Origin"] = server.url

    second = program.post("/auth/sessions", json={"name": "Second"}).json()

    assert datetime.fromisoformat(second["expires_at"]) <= datetime.fromisoformat(first["expires_at"])
    with_second = client(server.url, second["access_token"])
    assert with_second.get("/auth/me").status_code == 200
    assert maker.delete(f"/auth/sessions/{first['id']}").status_code == 204
    assert_problem(with_second.get("/auth/me"), 401, "invalid_token")


@pytest.mark.req("SEC-04.6")
def test_key_made_with_a_token_without_a_login_expires_with_it(server: Server, person: Person) -> None:
    end = int(time.time()) + 600
    program = client(server.url, signed(claims_for(person.user_id, exp=end)))

    key = program.post("/auth/sessions", json={"name": "Longer"}).json()

    assert datetime.fromisoformat(key["expires_at"]).timestamp() <= end


@pytest.mark.req("SEC-04.6")
def test_logout_removes_the_cookie(server: Server, person: Person) -> None:
    browser = client(server.url)
    sign_in_browser(browser, token=person.token)
    [(name, value)] = browser.cookies.items()

    assert browser.post("/auth/logout", headers={"Origin": server.url}).status_code == 204

    assert not browser.cookies
    old = httpx.get(f"{server.url}/auth/me", headers={"Cookie": f"{name}={value}"}, timeout=30)
    assert_problem(old, 401, "invalid_token")
    assert person.http.get("/auth/me").status_code == 200


@pytest.mark.req("SEC-04.6")
def test_a_new_password_ends_every_other_login(server: Server, person: Person, rows: Rows) -> None:
    second, third, code = log_in(person), log_in(person), new_code(person)
    now = int(time.time())
    old_style = client(server.url, signed(claims_for(person.user_id, iat=now, exp=now + 600)))
    assert old_style.get("/auth/me").status_code == 200
    change = {"old_password": PASSWORD, "new_password": "seven green bottles"}

    wrong = second.post("/auth/password", json=change | {"old_password": "not my password"})
    assert_problem(wrong, 403, "wrong_password")
    assert third.get("/auth/me").status_code == 200
    assert second.post("/auth/password", json=change).status_code == 204

    assert second.get("/auth/me").status_code == 200
    for ended in (person.http, third, old_style):
        assert_problem(ended.get("/auth/me"), 401, "invalid_token")
    [(changed_at,)] = rows("SELECT tokens_since FROM users WHERE id = :user_id", user_id=person.user_id)
    moment = datetime.fromisoformat(str(changed_at))
    second_of_change = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    same_second = signed(claims_for(person.user_id, iat=second_of_change, nbf=second_of_change))
    assert_problem(client(server.url, same_second).get("/auth/me"), 401, "invalid_token")
    assert_problem(sign_in_browser(client(server.url), code=code), 403, "code_expired")
    assert log_in(person, "seven green bottles").get("/auth/me").status_code == 200


@pytest.mark.req("SEC-04.6")
def test_changing_a_missing_password_is_refused(tmp_path: Path) -> None:
    server = Server.start(tmp_path, clean_environment(tmp_path), "up", "--no-folder")
    change = {"old_password": "", "new_password": "seven green bottles"}

    refused = client(server.url, server.ready["token"]).post("/auth/password", json=change)

    assert_problem(refused, 409, "no_password")
    assert server.stop() == 0


@pytest.mark.req("SEC-04.6")
def test_streams_and_sockets_end_with_their_login(server: Server, person: Person) -> None:
    project_id, session_id = person.project()["id"], person.session()
    second = Person(person.email, person.user_id, "", log_in(person))
    second.token = second.http.headers["authorization"].removeprefix("Bearer ")
    browser = client(server.url)
    sign_in_browser(browser, token=person.token)

    with (
        second.follow(session_id) as by_token,
        stream(browser, "GET", f"/my/projects/{project_id}/events") as by_cookie,
        connected(second, project_id) as connector,
    ):
        for item in person.get("/auth/sessions")["items"]:
            if not item["is_current"]:
                assert person.http.delete(f"/auth/sessions/{item['id']}").status_code == 204

        assert list(by_token) == []
        assert {event.type for event in by_cookie} <= {"connector_online"}
        assert connector.close_code()[0] == CLOSE_LOGIN_OVER


@pytest.mark.req("SEC-04.6")
def test_logins_from_the_command_line(server: Server, person: Person, tmp_path: Path) -> None:
    env = clean_environment(tmp_path, ARTEL_SERVER=server.url)

    def run(*arguments: str, stdin: str = "") -> str:
        done = artel(*arguments, env=env, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("login", "--email", person.email, stdin=f"{PASSWORD}\n")
    token = run("token").strip()
    listed = json.loads(run("sessions", "list", "--json"))
    assert {(item["kind"], item["is_current"]) for item in listed} == {("cli", True), ("token", False)}
    [elsewhere] = [item["id"] for item in listed if not item["is_current"]]
    own, other = run("sessions", "list").splitlines()[1:]
    assert re.fullmatch(r"\*  [0-9a-f]{8}  cli +just now +\S.*", own)
    assert re.match(rf"   {elsewhere[-8:]}  token +just now", other)
    assert elsewhere in run("sessions", "revoke", elsewhere[-8:])
    assert person.http.get("/auth/me").status_code == 401
    assert "changed" in run("password", stdin=f"{PASSWORD}\nseven green bottles\n")
    assert client(server.url, token).get("/auth/me").status_code == 200
    run("logout")
    assert client(server.url, token).get("/auth/me").status_code == 401


@pytest.mark.req("SEC-04.7")
def test_failures_from_other_networks_do_not_block_a_known_network(start_server: StartServer) -> None:
    url = start_server(ARTEL_TRUSTED_PROXIES='["127.0.0.1"]').url
    victim = Person.register(url)  # from 127.0.0.1

    def attempt(address: str, password: str) -> int:
        form, headers = {"username": victim.email, "password": password}, {"X-Forwarded-For": address}
        return httpx.post(f"{url}/auth/token", data=form, headers=headers, timeout=30).status_code

    with ThreadPoolExecutor(4) as threads:
        guesses = list(threads.map(lambda n: attempt(f"192.0.2.{n // 4}", "guess"), range(110)))

    assert set(guesses) == {401, 429}
    assert guesses.count(401) >= 100  # four from each network, which is within its limit
    assert attempt("198.51.100.1", PASSWORD) == 429  # the account's limit over all networks is exceeded
    assert attempt("127.0.0.1", PASSWORD) == 200
    assert [attempt("127.0.0.1", "mistyped") for _ in range(5)] == [401] * 5
    assert attempt("127.0.0.1", PASSWORD) == 429  # failures of the same network count


@pytest.mark.req("SEC-04.8")
def test_secret_readable_by_others_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "data" / "jwt_secret"
    secret.parent.mkdir(mode=0o700)
    secret.write_text("x" * 40)
    secret.chmod(0o640)

    refused = artel("serve", "--port", "0", env=clean_environment(tmp_path))

    assert refused.returncode == 2, refused.stderr
    assert f"chmod 600 {secret}" in refused.stderr


@pytest.mark.req("SEC-04.8")
@pytest.mark.parametrize("url", ["http://issuer.example.org/keys", "http://127.0.0.1.example.org/keys"])
def test_keys_of_a_remote_issuer_need_https(tmp_path: Path, url: str) -> None:
    env = clean_environment(tmp_path, ARTEL_JWKS_URL=url, ARTEL_ISSUER="https://issuer", ARTEL_AUDIENCE="artel")

    refused = artel("serve", "--port", "0", env=env)

    assert refused.returncode == 2
    assert "ARTEL_JWKS_URL" in refused.stderr
    assert "https://" in refused.stderr


@pytest.mark.req("SEC-04.1", "SEC-04.6")
def test_servers_of_one_host_do_not_share_a_login(start_server: StartServer, server: Server, person: Person) -> None:
    """With another port, another base path, or both over HTTPS."""
    below = start_server(ARTEL_BASE_PATH="/tools/artel", ARTEL_TRUSTED_PROXIES='["127.0.0.1"]')
    user = Person.register(below.url)
    port = below.url.rpartition(":")[2]
    https = {"Host": "localhost", "X-Forwarded-Proto": "https"}
    for headers, name in (({}, f"artel-{port}!tools!artel"), (https, "__Host-artel!tools!artel")):
        answer = httpx.post(f"{below.url}/auth/browser", json={"token": user.token}, headers=headers, timeout=30)
        assert answer.headers["set-cookie"].partition("=")[0] == name

    with httpx.Client(timeout=30) as browser:
        for running, token in ((server, person.token), (below, user.token)):
            signed = browser.post(f"{running.url}/auth/browser", json={"token": token}, headers={"Origin": running.url})
            assert signed.status_code == 200, signed.text
        for running, account in ((server, person), (below, user)):
            assert browser.get(f"{running.url}/auth/me").json()["user_id"] == account.user_id
        assert browser.post(f"{below.url}/auth/logout", headers={"Origin": below.url}).status_code == 204
        assert browser.get(f"{below.url}/auth/me").status_code == 401
        assert browser.get(f"{server.url}/auth/me").status_code == 200


@pytest.mark.req("SEC-04.1", "SEC-04.6")
def test_cookie_of_an_older_version_is_accepted_until_its_login_ends(start_server: StartServer) -> None:
    below = start_server(ARTEL_BASE_PATH="/artel")
    user, own = Person.register(below.url), {"Origin": below.url}
    signed = httpx.post(f"{below.url}/auth/browser", json={"token": user.token}, headers=own, timeout=30)
    value = signed.headers["set-cookie"]
    port, token = below.url.rpartition(":")[2], value.partition("=")[2].partition(";")[0]
    older = {"Cookie": f"artel-{port}={token}"}

    assert httpx.get(f"{below.url}/auth/me", headers=older, timeout=30).json()["user_id"] == user.user_id
    again = httpx.post(f"{below.url}/auth/browser", json={"token": user.token}, headers=older | own, timeout=30)
    set_now = [cookie.split("; ") for cookie in again.headers.get_list("set-cookie")]
    assert [cookie[0].partition("=")[0] for cookie in set_now] == [f"artel-{port}!artel", f"artel-{port}"]
    assert ("Max-Age=0" in set_now[0], "Max-Age=0" in set_now[1]) == (False, True)
    foreign = {"Cookie": f"artel-{port}=of-another-server"}
    kept = httpx.post(f"{below.url}/auth/browser", json={"token": user.token}, headers=foreign | own, timeout=30)
    assert len(kept.headers.get_list("set-cookie")) == 1
