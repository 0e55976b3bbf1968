"""Checks of the Host and Origin headers."""

import httpx
import pytest

from tests.conftest import StartServer
from tests.people import PASSWORD, Person, assert_problem
from tests.running import Server

ANYWHERE = "0.0.0.0"  # noqa: S104


@pytest.fixture(scope="session", params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """Run on SQLite only: refused requests never reach the database."""
    name: str = request.param
    return name


def registering(url: str, **headers: str) -> httpx.Response:
    body = {"email": "rebound@example.org", "password": PASSWORD}
    return httpx.post(f"{url}/auth/register", json=body, headers=headers, timeout=30)


@pytest.mark.req("SEC-04.4")
@pytest.mark.parametrize(
    "host", ["evil.example:8700", "127.0.0.1.evil.example", "", "user@localhost", "localhost:8700:1"]
)
def test_loopback_server_refuses_foreign_hosts(server: Server, host: str) -> None:
    refused = registering(server.url, Host=host, Origin=f"http://{host}")

    assert_problem(refused, 421, "host_not_allowed")
    for path in ("/", "/healthz", "/metrics", "/my/projects"):
        assert httpx.get(f"{server.url}{path}", headers={"Host": host}, timeout=30).status_code == 421


@pytest.mark.req("SEC-04.4")
@pytest.mark.parametrize("host", ["127.0.0.1", "LocalHost:1", "[::1]:8700"])
def test_loopback_names_are_allowed_with_any_port(server: Server, host: str) -> None:
    assert httpx.get(f"{server.url}/healthz", headers={"Host": host}, timeout=30).status_code == 200


@pytest.mark.req("SEC-04.4")
def test_operator_configures_allowed_hosts(start_server: StartServer) -> None:
    named = start_server(ARTEL_HOST=ANYWHERE, ARTEL_ALLOWED_HOSTS='["artel.example.org"]')
    unnamed = start_server(ARTEL_HOST=ANYWHERE)
    url, other = (server.url.replace(ANYWHERE, "127.0.0.1") for server in (named, unnamed))

    assert httpx.get(f"{url}/docs", headers={"Host": "artel.example.org"}, timeout=30).status_code == 200
    problem = assert_problem(httpx.get(f"{url}/docs", timeout=30), 421, "host_not_allowed")
    assert "ARTEL_ALLOWED_HOSTS" in problem["detail"]
    assert httpx.get(f"{url}/healthz", timeout=30).status_code == 200  # probes use the IP address as host
    assert httpx.get(f"{other}/docs", headers={"Host": "any.example.org"}, timeout=30).status_code == 200


@pytest.mark.req("SEC-04.4")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_foreign_page_cannot_change_anything_even_with_a_token(person: Person, headers: dict[str, str]) -> None:
    refused = person.http.post("/my/projects", json={"name": "Taken over"}, headers=headers)

    assert_problem(refused, 403, "origin_refused")
    assert person.get("/my/projects")["total"] == 0
    assert person.http.get("/my/projects", headers=headers).status_code == 200


@pytest.mark.req("SEC-04.4")
def test_own_page_can_make_changes(person: Person, server: Server) -> None:
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}

    assert person.http.post("/my/projects", json={"name": "Website"}, headers=headers).status_code == 201


@pytest.mark.req("SEC-04.1")
def test_over_https_the_cookie_is_secure(start_server: StartServer) -> None:
    server = start_server(ARTEL_TRUSTED_PROXIES='["127.0.0.1"]')
    person = Person.register(server.url)
    headers = {"X-Forwarded-Proto": "https"}

    answer = httpx.post(f"{server.url}/auth/browser", json={"token": person.token}, headers=headers, timeout=30)

    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"__Host-artel-{server.url.rpartition(':')[2]}=")
    assert "Secure" in cookie
    value = cookie.partition(";")[0]
    me = httpx.get(f"{server.url}/auth/me", headers=headers | {"Cookie": value}, timeout=30)
    assert me.json()["user_id"] == person.user_id
