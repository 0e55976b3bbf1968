"""Rules for every request: problem documents, paths, limits, headers, health, metrics."""

import contextlib
import re
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.conftest import StartServer
from tests.deadlines import eventually
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database

JSON_BODY = {"Content-Type": "application/json"}


def test_unknown_path_returns_a_problem(server: Server) -> None:
    assert_problem(httpx.get(f"{server.url}/nothing/here", timeout=30), 404, "not_found")


def test_unknown_method_returns_a_problem_with_allow_header(person: Person) -> None:
    answer = person.http.put("/my/projects", json={})

    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/auth/me", "/my/projects"]
)
def test_trailing_slash_works_without_redirect(person: Person, path: str) -> None:
    plain, slashed = person.http.get(path), person.http.get(f"{path}/")

    assert plain.status_code == slashed.status_code == 200
    assert person.http.get(f"{path}//").status_code == 404


def test_valid_client_request_id_is_used(server: Server) -> None:
    valid = httpx.get(f"{server.url}/healthz", headers={"X-Request-ID": "my-request-0001"}, timeout=30)
    strange = httpx.get(f"{server.url}/healthz", headers={"X-Request-ID": 'x"},{"event":"forged"'}, timeout=30)

    assert valid.headers["x-request-id"] == "my-request-0001"
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", strange.headers["x-request-id"]
    )


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/my/projects", "/nothing", "/assets/docs.js"])
def test_every_response_has_security_headers(server: Server, path: str) -> None:
    headers = httpx.get(f"{server.url}{path}", timeout=30).headers

    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe-inline" not in headers["content-security-policy"].split("style-src")[0]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert "server" not in headers


@pytest.mark.req("SEC-02.2")
def test_too_long_path_is_refused_and_shortened_in_the_log(server: Server, person: Person) -> None:
    hostile = "/" + "://" * 20_000

    answer = httpx.get(f"{server.url}{hostile}", timeout=30)
    long = httpx.get(f"{server.url}/my/projects/{'x' * 3_000}", headers=person.http.headers, timeout=30)

    problem = assert_problem(answer, 414, "path_too_long")
    assert_problem(long, 422, "invalid_request")
    logged = [answer.headers["x-request-id"], long.headers["x-request-id"]]
    lines = eventually(lambda: _lines_of(server, logged))
    assert problem["request_id"] == logged[0]
    assert [connection["status"] for connection in lines] == [414, 422]
    assert all(len(connection["path"]) < 400 for connection in lines)


@pytest.mark.req("SEC-02.2")
def test_websocket_with_too_long_path_is_refused(server: Server, person: Person) -> None:
    url = f"{server.url.replace('http', 'ws')}/my/projects/{'0' * 5_000}1/connector"

    with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=dict(person.http.headers)):
        pass

    assert refused.value.response.status_code == 414


def _lines_of(server: Server, request_ids: list[str]) -> list[dict[str, Any]]:
    lines = [connection for connection in server.log_lines() if connection.get("request_id") in request_ids]
    return lines if len(lines) == len(request_ids) else []


def test_too_large_body_is_refused_with_and_without_content_length(start_server: StartServer) -> None:
    person = Person.register(start_server(ARTEL_MAX_BODY_BYTES="2000").url)
    body = b'{"name": "x", "settings": {"a": "' + b"x" * 2000 + b'"}}'
    headers = {"Content-Type": "application/json"}

    announced = person.http.post("/my/projects", content=body, headers=headers)
    chunked = person.http.post(
        "/my/projects", content=(body[at : at + 100] for at in range(0, len(body), 100)), headers=headers
    )
    form = person.http.post(
        "/auth/token", content=b"username=" + b"x" * 3000, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )

    for answer in (announced, chunked, form):
        problem = assert_problem(answer, 413, "body_too_large")
        assert "2000" in problem["detail"]
    assert person.http.get("/my/projects").json()["total"] == 0


def test_unauthenticated_bodies_have_a_smaller_limit(server: Server) -> None:
    body = {"email": "a@b.c", "password": "x" * 20_000}

    assert_problem(httpx.post(f"{server.url}/auth/register", json=body, timeout=30), 413, "body_too_large")


@pytest.mark.parametrize("kilobytes", [1, 70, 300, 900])
def test_body_up_to_the_limit_is_accepted(person: Person, kilobytes: int) -> None:
    answer = person.http.post(
        "/my/projects", content=b'{"name": "Large"' + b" " * kilobytes * 1000 + b"}", headers=JSON_BODY
    )

    assert answer.status_code == 201, answer.text


def test_a_body_of_many_unknown_fields_has_one_error(person: Person) -> None:
    body = {f"field{number}": 1 for number in range(50_000)}

    problem = assert_problem(person.http.post("/my/projects", json=body), 422, "invalid_request")

    assert len(problem["errors"]) == 1


@pytest.mark.parametrize("digits", [20, 4000])
def test_too_large_id_is_refused(person: Person, digits: int) -> None:
    assert_problem(person.http.get(f"/my/projects/{'9' * digits}"), 422, "invalid_request")


@pytest.mark.parametrize("path", ["/healthz", "/", "/my/projects", "/assets/docs.js"])
def test_head_is_get_without_the_body(person: Person, path: str) -> None:
    get, head = person.http.get(path), person.http.head(path)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


def test_unchanged_asset_returns_304(server: Server) -> None:
    first = httpx.get(f"{server.url}/assets/docs.js", headers={"Range": "bytes=5-2"}, timeout=30)
    again = httpx.get(f"{server.url}/assets/docs.js", headers={"If-None-Match": first.headers["etag"]}, timeout=30)

    assert first.status_code == 200
    assert first.content
    assert (again.status_code, again.content) == (304, b"")
    assert_problem(httpx.get(f"{server.url}/assets/..%2fapp.py", timeout=30), 404, "not_found")


@pytest.mark.parametrize("head", [b"X-Long: " + b"x" * 100_000, b"X-Many: 1\r\n" * 10_000])
def test_endless_headers_close_the_connection(server: Server, head: bytes) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=30) as connection:
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + head if not _ else head)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1000)[:12] in (b"HTTP/1.1 431", b"")
    assert httpx.get(f"{server.url}/healthz", timeout=30).status_code == 200


def test_client_disconnect_during_body_does_not_affect_others(server: Server, person: Person) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
        connection.sendall(
            f"POST /my/projects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {person.token}\r\n"
            'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name": "half'.encode()
        )

    assert person.http.get("/my/projects").json()["total"] == 0


def test_the_server_is_healthy_and_ready(server: Server) -> None:
    assert httpx.get(f"{server.url}/healthz", timeout=30).json()["status"] == "ok"
    ready = httpx.get(f"{server.url}/readyz", timeout=30)
    assert ready.status_code == 200
    assert ready.json() == {"status": "ready", "parts": [{"name": "database", "ok": True, "detail": None}]}


def test_metrics_count_by_route_without_tenant_data(server: Server, person: Person) -> None:
    project = person.project("A name that nobody else may see")
    person.http.get(f"/my/projects/{project['id']}")
    person.http.request("BREW", "/my/projects/strange-path-of-a-client")

    answer = httpx.get(f"{server.url}/metrics", timeout=30)

    assert answer.headers["content-type"].startswith("text/plain")
    counted = re.search(
        r'artel_http_requests_total\{method="GET",route="/my/projects/\{project_id\}",status="200"\} (\S+)', answer.text
    )
    assert counted
    assert float(counted[1]) >= 1
    assert "process_resident_memory_bytes" in answer.text
    for secret in (project["name"], person.email, "strange-path", "BREW"):
        assert secret not in answer.text


def test_every_operation_is_documented_with_examples_and_its_problems(server: Server) -> None:
    document = httpx.get(f"{server.url}/openapi.json", timeout=30).json()

    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (path, method)
            for status, response in operation["responses"].items():
                content = response.get("content", {})
                if int(status) >= 400 and path != "/readyz":
                    assert list(content) == ["application/problem+json"], (path, method, status)
            if path.startswith("/my"):
                assert operation["security"], (path, method)
                assert "401" in operation["responses"], (path, method)
    for name in ("NewProject", "NewAgent", "Registration", "Problem"):
        assert _has_examples(document["components"]["schemas"][name]), name


def test_examples_of_the_openapi_document_are_accepted(server: Server, person: Person) -> None:
    document = httpx.get(f"{server.url}/openapi.json", timeout=30).json()
    schemas = document["components"]["schemas"]
    project = person.project()

    made = person.http.post("/my/projects", json=example_of(schemas["NewProject"]))
    agent = person.http.post(f"/my/projects/{project['id']}/agents", json=example_of(schemas["NewAgent"]))

    assert made.status_code == 201, made.text
    assert agent.status_code == 201, agent.text


def example_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: field["examples"][0] for name, field in schema["properties"].items() if "examples" in field}


def _has_examples(schema: dict[str, Any]) -> bool:
    return any("examples" in field for field in schema["properties"].values())
