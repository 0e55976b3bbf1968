"""The tool api_call: listed hosts and methods only, no redirects, and secrets that nobody sees."""

import asyncio
import base64
import html
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from artel.contract.agent_file import ApiSecret
from artel.errors import ConfigurationInvalid
from artel.nodes.toolbox import SharedTools, node_toolbox
from artel.tools.api_call import ApiCall, api_client
from artel.tools.tool import ToolResult
from tests.node_files import ANN, agent_file, call, shared_tools

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t/with+signs&more"


class ApiServer:
    """An HTTP server on this machine that answers everything with what the test says."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
        self.requests.append((head + await reader.readexactly(length)).decode())
        writer.write(self.response)
        await writer.drain()
        writer.close()

    def answer(self, body: str, status: str = "200 OK", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain", f"Content-Length: {len(body)}", *headers, "", body]
        self.response = "\r\n".join(lines).encode()


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    api = ApiServer()
    listening = await asyncio.start_server(api.handle, "127.0.0.1", 0)
    api.port = listening.sockets[0].getsockname()[1]
    yield api
    listening.close()
    await listening.wait_closed()


def tools(folder: Path, server: ApiServer, **api_call: Any) -> SharedTools:
    """Return the tools of a node that may call the server."""
    secret = {"header": "Authorization", "variable": "API_TOKEN_OF_TEST", "prefix": "Bearer "}
    host = {"host": f"127.0.0.1:{server.port}", "methods": ["GET", "POST", "HEAD"], "secrets": {"main": secret}}
    return shared_tools(
        folder, agent_file("api_call", security={"api_call": {"enabled": True, "hosts": [host], **api_call}})
    )


async def request(shared: SharedTools, server: ApiServer, method: str = "GET", **arguments: str) -> ToolResult:
    arguments = {"url": f"http://127.0.0.1:{server.port}/v1/items?x=1", **arguments}
    return await call(shared, ANN, "api_call", approved=False, method=method, **arguments)


@pytest.mark.req("AGT-02.1", "AGT-02.4")
async def test_api_call_is_off_unless_the_file_switches_it_on(tmp_path: Path, server: ApiServer) -> None:
    shared = shared_tools(tmp_path, agent_file("api_call", security={"api_call": {"hosts": [{"host": "localhost"}]}}))

    assert node_toolbox(shared, ANN).schemas == ()
    assert not (await request(shared, server)).success
    assert server.requests == []


@pytest.mark.req("AGT-02.1")
async def test_listed_host_is_called_and_its_response_returned(tmp_path: Path, server: ApiServer) -> None:
    shared = tools(tmp_path, server)

    got = await request(shared, server)
    server.answer("created", "201 Created")
    posted = await request(shared, server, "POST", body='{"name": "é"}')
    server.answer("not here", "404 Not Found")
    missing = await request(shared, server)
    server.response = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    head = await request(shared, server, "HEAD")

    assert got.data == {"status": 200, "content_type": "application/json", "body": "{}"}
    assert posted.data == {"status": 201, "content_type": "text/plain", "body": "created"}
    assert server.requests[0].startswith(f"GET /v1/items?x=1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n")
    assert server.requests[1].endswith('Content-Type: application/json; charset=utf-8\r\n\r\n{"name": "é"}')
    assert missing.error == "127.0.0.1 answered 404: not here"
    assert head.success


@pytest.mark.req("AGT-02.1", "AGT-02.4")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"method": "DELETE"}, "DELETE is not allowed for 127.0.0.1:"),
        ({"url": "http://127.0.0.1:1/"}, "127.0.0.1:1 is not a host that you may call"),
        ({"url": "http://localhost:{port}/"}, "is not a host that you may call"),
        ({"url": "http://user:pass@127.0.0.1:{port}/"}, "user name or password"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "is not a host that you may call"),
        ({"url": "http://api.example.com/"}, "Only https:// URLs can be called."),
        ({"url": "https://api.example.com:8443/"}, "is not a host that you may call"),
        ({"url": "https://evil.api.example.com/"}, "is not a host that you may call"),
        ({"url": "https://inside.example.com/"}, "an address that is not of the public internet"),
        ({"method": "GET", "body": "x"}, "GET has no body"),
        ({"secret": "other"}, "There is no secret 'other' for 127.0.0.1"),
        ({"secret": "main"}, "The secret main is not set on the node"),
        ({"url": "http://127.0.0.1:{port}/ HTTP/1.1\r\nX: y"}, "invisible character"),
    ],
)
async def test_everything_else_is_refused_before_a_connection_is_made(
    server: ApiServer, arguments: dict[str, str], problem: str
) -> None:
    loopback = {"host": f"127.0.0.1:{server.port}", "secrets": {"main": {"header": "X-Key", "variable": "UNSET"}}}
    hosts = [loopback, {"host": "api.example.com"}, {"host": "inside.example.com"}]
    security = agent_file(security={"api_call": {"enabled": True, "hosts": hosts}}).tools.security.api_call

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    tool = ApiCall(security, api_client(security, resolve), environment={})
    arguments = {name: value.replace("{port}", str(server.port)) for name, value in arguments.items()}
    result = await tool.call({"method": "GET", "url": f"http://127.0.0.1:{server.port}/", **arguments})

    assert problem in str(result.error)
    assert server.requests == []


@pytest.mark.req("AGT-02.1")
async def test_private_address_needs_to_be_listed_as_such() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async def called(**host: Any) -> ToolResult:
        listed = {"host": "inside.example.com:1", **host}
        security = agent_file(security={"api_call": {"hosts": [listed]}}).tools.security.api_call
        tool = ApiCall(security, api_client(security, resolve), environment={})
        return await tool.call({"method": "GET", "url": "https://inside.example.com:1/"})

    assert "not of the public internet" in str((await called()).error)
    assert (await called(private=True)).error == "inside.example.com can't be reached on port 1."


@pytest.mark.req("AGT-02.1")
@pytest.mark.parametrize("host", ["a..b", "example.com:0", "1.2.3.4.5"])
def test_host_that_can_not_be_one_is_refused_at_start(tmp_path: Path, host: str) -> None:
    security = {"api_call": {"enabled": True, "hosts": [{"host": host, "private": True}]}}
    with pytest.raises(ConfigurationInvalid, match=r"tools.security.api_call.hosts: '.*' is not a host"):
        shared_tools(tmp_path, agent_file("api_call", security=security))


@pytest.mark.req("AGT-02.1")
async def test_redirects_are_not_followed(tmp_path: Path, server: ApiServer) -> None:
    server.answer("", "302 Found", f"Location: http://127.0.0.1:{server.port}/other")

    result = await request(tools(tmp_path, server), server)

    assert isinstance(result.data, dict)
    assert (result.data["status"], result.data["location"]) == (302, f"http://127.0.0.1:{server.port}/other")
    assert len(server.requests) == 1


@pytest.mark.req("AGT-02.1", "AGT-02.8")
async def test_secret_is_sent_by_name_and_never_shown(
    tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("API_TOKEN_OF_TEST", SECRET)
    shared = tools(tmp_path, server)
    forms = [SECRET, quote(SECRET, safe=""), quote(SECRET, safe="").lower(), json.dumps(SECRET).replace("/", "\\/")]
    forms += [html.escape(SECRET), SECRET.replace("&", "\\u0026")]
    echoes = [*forms, *(base64.b64encode(f"{before}{SECRET}.".encode()).decode() for before in ("", "a", "ab"))]
    forms += [base64.b64encode(SECRET.encode()).decode()[4:20]]
    server.answer(f"You sent {' and '.join(echoes)}.", "302 Found", f"Location: /?token={quote(SECRET, safe='')}")
    shown = await request(shared, server, secret="main")
    server.answer(f"Bad token {SECRET}", "401 Unauthorized")
    refused = await request(shared, server, secret="main")
    plain = await request(shared, server)

    assert f"\r\nAuthorization: Bearer {SECRET}\r\n" in server.requests[0]
    assert "Authorization" not in server.requests[2]
    assert shown.success
    assert refused.error == "127.0.0.1 answered 401: Bad token ***"
    description = node_toolbox(shared, ANN).schemas[0].description
    assert "secrets: main" in description
    captured = capsys.readouterr()
    audit = (shared.folder / "tool-calls.jsonl").read_text()
    everything = [str(shown), str(refused), str(plain), description, captured.out, captured.err, audit]
    assert not [text for text in everything for form in forms if form in text]


@pytest.mark.req("AGT-02.1", "AGT-06.1")
@pytest.mark.parametrize("prefix", ["Bearer\r\nX-Role: admin\r\n", "Tök "])
def test_prefix_of_a_secret_can_not_break_the_header(prefix: str) -> None:
    with pytest.raises(ValidationError):
        ApiSecret(header="Authorization", variable="API_TOKEN_OF_TEST", prefix=prefix)


@pytest.mark.req("AGT-02.1")
async def test_secret_is_not_shown_as_letters_of_another_charset(
    tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN_OF_TEST", "s3cr3t-of-16-bit")
    server.answer("s3cr3t-of-16-bit")
    server.response = server.response.replace(b"text/plain", b"text/plain; charset=utf-16")
    result = await request(tools(tmp_path, server), server, secret="main")

    assert isinstance(result.data, dict)
    assert b"s3cr3t" not in str(result.data["body"]).encode("utf-16-le")


@pytest.mark.req("AGT-02.1")
async def test_response_is_bounded(tmp_path: Path, server: ApiServer) -> None:
    shared = tools(tmp_path, server)
    server.answer("x" * 20_000)
    cut = await request(shared, server)
    server.answer("x" * 1_000_001)
    too_large = await request(shared, server)

    assert isinstance(cut.data, dict)
    assert (len(str(cut.data["body"])), cut.data["cut"]) == (12_000, "The first 12000 of 20000 characters.")
    assert not too_large.success


@pytest.mark.req("AGT-02.7")
async def test_body_of_a_request_is_hashed_in_the_audit_log(tmp_path: Path, server: ApiServer) -> None:
    shared = tools(tmp_path, server)
    await request(shared, server, "POST", body="a private letter")

    [line] = (shared.folder / "tool-calls.jsonl").read_text().splitlines()
    assert json.loads(line)["arguments"]["body"]["bytes"] == 16
    assert "a private letter" not in line
