"""The connection between a connector and its server: handshake, reconnect, take-over, invalid frames, shutdown."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artel.cli.connector_process import ConnectorLogin, ConnectorTarget, OwnConnector
from artel.client.credentials import Credentials
from artel.connector.service import acquire
from artel.connector.state_folder import StateFolder
from artel.contract.connector import CALLS, MAX_FRAME_BYTES, PROTOCOL
from tests import running
from tests.connecting import Connecting
from tests.connector_server import USER, ConnectorServer
from tests.deadlines import eventually
from tests.depth import by_depth
from tests.services.launch import free_ports
from tests.terminal import Terminal


def test_connector_identifies_itself_and_keeps_its_id(connect: Connecting) -> None:
    connection = connect.connection("--yes", "--run", "test=pytest -q")
    hello = connection.hello
    handshake = next(request for request in connect.server.requests if request.path.endswith("/connector"))
    assert handshake.headers["Authorization"] == "Bearer a-token"
    assert (hello["protocol"], hello["user_id"], hello["project_id"]) == (PROTOCOL, USER, 5)
    assert (hello["workspace_name"], hello["mode"], hello["read_only"]) == ("work", "yes", False)
    assert (hello["commands"], hello["take_over"]) == ({"test": "pytest -q"}, False)
    assert str(connect.work) not in json.dumps(hello)

    connection.cut()
    assert connect.server.connection().hello["connector_id"] == hello["connector_id"]
    assert connect.stop() == 0
    assert connect.connection("--yes").hello["connector_id"] == hello["connector_id"]


def test_project_is_found_by_name_or_as_the_only_one(connect: Connecting) -> None:
    for options in (("--project", "Website"), ()):
        connect.project = options
        assert connect.connection("--yes").hello["project_id"] == 5
        connect.stop()


@pytest.mark.parametrize(
    ("status", "code", "words"), [(401, 4, "artel login"), (403, 4, "does not allow"), (404, 3, "no project 5")]
)
def test_permanent_refusal_ends_the_connector(connect: Connecting, status: int, code: int, words: str) -> None:
    connect.server.status = status
    connect.start("--yes")

    ended, printed = connect.ended()

    assert (ended, words in printed) == (code, True), printed
    assert len([request for request in connect.server.requests if request.path.endswith("/connector")]) == 1


def test_token_is_not_sent_to_a_redirect_target(connect: Connecting) -> None:
    with ConnectorServer().running() as elsewhere:
        connect.server.status = 307
        connect.server.location = f"{elsewhere.url}/my/projects/5/connector".replace("http", "ws", 1)
        connect.start("--yes")

        code, printed = connect.ended()

        assert (code, "redirects connectors" in printed) == (4, True)
        assert elsewhere.requests == []


def test_closed_standard_output_is_ignored(connect: Connecting) -> None:
    assert running.nursery is not None
    read, write = os.pipe()
    with Path(os.devnull).open() as nothing, connect.out.open("a") as out:
        files = nothing.fileno(), write, out.fileno()
        command = [running.ARTEL, *connect.arguments(["--yes"])]
        connect.processes.append(running.nursery.fork(command, connect.env, files))
    os.close(write)
    connection = connect.server.connection()
    os.close(read)

    assert connection.ok("write", path="a.txt", content="x")
    assert connection.ok("read", path="a.txt")["content"] == "x"
    connect.stop()
    assert "Traceback" not in connect.printed()


def test_connector_stops_at_once_during_a_slow_call(connect: Connecting) -> None:
    (connect.work / "slow.txt").write_text("a" * 60 + "!\n")
    connection = connect.connection("--yes")
    slow = connection.send("search", query="(a+)+$", regex=True, timeout_ms=60_000)
    assert connection.ok("list", recursive=True)["files"]

    assert connect.stop() == 0

    with pytest.raises(TimeoutError):
        connection.wait(slow, 0.1)
    assert "Traceback" not in connect.printed()


def test_wrong_token_ends_the_connector(connect: Connecting) -> None:
    connect.start("--yes", ARTEL_TOKEN="wrong")

    assert connect.ended()[0] == 4


@pytest.mark.parametrize(
    ("close_code", "code", "words"),
    [
        (4409, 5, "Another connector serves project 5. To replace it use --take-over."),
        (4410, 5, "Another connector has taken over project 5."),
        (4400, 4, "refused the connector"),
    ],
)
def test_close_codes_of_the_server_end_the_connector(
    connect: Connecting, close_code: int, code: int, words: str
) -> None:
    connect.server.close_code = close_code
    connect.start("--yes")

    ended, printed = connect.ended()

    assert (ended, words in printed) == (code, True), printed


def test_refused_hello_or_other_protocol_ends_the_connector(connect: Connecting) -> None:
    connect.server.welcome = '{"jsonrpc": "2.0", "id": "hello", "error": {"code": -32000, "message": "not today"}}'
    connect.start("--yes")
    code, printed = connect.ended()
    assert (code, "not today" in printed) == (4, True)

    connect.server.protocol = None
    connect.start("--yes")
    code, printed = connect.ended()
    assert (code, "does not speak artel.connector.v1" in printed) == (4, True)


@pytest.mark.parametrize("welcome", ["nonsense", "[]", "{}", '{"id": "hello", "result": {"ping_seconds": "often"}}'])
def test_invalid_welcome_is_retried(connect: Connecting, welcome: str) -> None:
    connect.server.welcome = welcome
    connect.start("--yes")
    connect.until("the server did not send a valid welcome")
    connect.server.welcome = None

    connect.until("Connected to")


def test_taken_over_connector_ends(connect: Connecting) -> None:
    connect.connection("--yes").close(4410)

    ended, printed = connect.ended()

    assert (ended, "has taken over" in printed) == (5, True)


def test_take_over_is_requested_only_for_the_first_connection(connect: Connecting) -> None:
    """A connector that was replaced meanwhile must not take over again when it reconnects."""
    connection = connect.connection("--yes", "--take-over")
    assert connection.hello["take_over"] is True

    connection.cut()

    assert connect.server.connection().hello["take_over"] is False


def test_connector_reconnects_and_prints_it(connect: Connecting) -> None:
    connection = connect.connection("--yes")
    (connect.work / "file.txt").write_text("x")

    connection.cut()
    connection = connect.server.connection()
    assert connection.ok("read", path="file.txt")["content"] == "x"
    connection.close()
    connection = connect.server.connection()
    assert connection.ok("read", path="file.txt")["content"] == "x"
    connect.server.status = 503
    connection.cut()
    connect.until("the server answered 503")
    connect.server.status = None

    assert connect.server.connection().ok("read", path="file.txt")
    assert connect.printed().count("is down") >= 3
    assert "Trying again in" in connect.printed()


def test_silent_server_is_disconnected(connect: Connecting) -> None:
    connect.server.ping_seconds = 1
    connection = connect.connection("--yes")

    connection.fall_silent()

    assert connect.server.connection().hello
    assert "no answer for" in connect.printed()


@pytest.mark.parametrize("seconds", [0, -1, 0.01, 61, 1e300, float("nan"), float("inf")])
def test_invalid_ping_interval_is_replaced_by_the_default(connect: Connecting, seconds: float) -> None:
    connect.server.ping_seconds = seconds
    connection = connect.connection("--yes")

    assert all(connection.ok("list")["files"] == [] for _ in range(20))
    assert "is down" not in connect.printed()


def test_connection_stays_open_while_the_server_answers_pings(connect: Connecting) -> None:
    connect.server.ping_seconds = 1
    connection = connect.connection("--yes")

    later = time.monotonic() + 3.5  # an unanswered ping would have ended the connection before

    eventually(lambda: connection.ok("list")["files"] == [] and time.monotonic() > later)
    assert "is down" not in connect.printed()


def test_connector_reconnects_with_the_current_login_after_its_token_expired(connect: Connecting) -> None:
    del connect.env["ARTEL_TOKEN"]
    credentials = Credentials.load(Path(connect.env["ARTEL_CONFIG_DIR"]))
    credentials.remember(connect.server.url, connect.server.token)
    connection = connect.connection("--yes")
    credentials.remember(connect.server.url, "the next")
    connect.server.token = "the next"

    connection.close(4401, "The token has expired. Log in again.")

    again = connect.server.connection()
    assert again.ok("list")["files"] == []
    assert "The token has expired" in connect.printed()

    connect.server.token = "that nobody has"
    again.close(4401, "The token has expired. Log in again.")
    code, printed = connect.ended()
    assert (code, "does not accept the login. Run: artel login" in printed) == (4, True)


@pytest.mark.anyio
async def test_connector_of_artel_up_gets_a_new_token_when_its_token_has_expired(
    connect: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in connect.env.items():
        monkeypatch.setenv(name, value)
    tokens = iter([connect.server.token, "the next"])
    ended: list[str] = []

    @asynccontextmanager
    async def login() -> AsyncIterator[ConnectorLogin]:
        token = next(tokens)
        yield ConnectorLogin(token, datetime.now(UTC))
        ended.append(token)

    async def is_free() -> bool:
        return True

    own = OwnConnector(connect.work, quiet=True)
    own.start(ConnectorTarget(connect.server.url, 5, login, is_free))
    try:
        connection = await asyncio.to_thread(connect.server.connection)
        connect.server.token = "the next"
        await asyncio.to_thread(connection.close, 4401, "The token has expired. Log in again.")
        again = await asyncio.to_thread(connect.server.connection)
        listed = await asyncio.to_thread(again.ok, "list")
        assert (listed["success"], listed["files"]) == (True, [])
    finally:
        await own.stop()
    assert ended == ["a-token", "the next"]


def test_deleted_project_ends_the_connector(connect: Connecting) -> None:
    connect.connection("--yes").close(4400, "The project was deleted.")

    code, printed = connect.ended()

    assert (code, "The project was deleted." in printed) == (4, True)


def test_long_commands_are_cut_in_the_hello(connect: Connecting) -> None:
    connection = connect.connection("--yes", "--run", f"long=echo {'x' * 5_000}")

    assert len(connection.hello["commands"]["long"]) == 1_000


def call(**changes: Any) -> dict[str, Any]:
    params = {"call_id": "x", "user_id": USER, "timeout_ms": 1000, "path": "."}
    return {"jsonrpc": "2.0", "id": "x", "method": "workspace/list", "params": params} | changes


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", -32700),
        ("{", -32700),
        ("nonsense", -32700),
        ("[" * 100_000, -32700),
        ('{"a": ' * 50_000 + "1" + "}" * 50_000, -32700),
        (b"\x00\xff", -32600),
        (json.dumps(call()).encode(), -32600),
        ("[]", -32600),
        ("[1]", -32600),
        ("null", -32600),
        ("1" * 5000, -32700),
        ('"hello"', -32600),
        ("{}", -32600),
        (call(jsonrpc="1.0"), -32600),
        (call(id=None), -32600),
        (call(id=["x"]), -32600),
        (call(method=7), -32600),
        (call(method="workspace/format"), -32601),
        (call(method="hello"), -32601),
        (call(method="x" * 1_000_000), -32601),
        (call(params=None), -32602),
        (call(params=[]), -32602),
        (call(params={}), -32602),
        (call(params=call()["params"] | {"timeout_ms": 0}), -32602),
        (call(params=call()["params"] | {"timeout_ms": "soon"}), -32602),
        (call(params=call()["params"] | {"path": None}), -32602),
        (call(params=call()["params"] | {"path": {"a": 1}}), -32602),
        (call(params=call()["params"] | {"call_id": "y"}), -32602),
        (call(params=call()["params"] | {"approval": {"holds": "for ever"}}), -32602),
        ("x" * (MAX_FRAME_BYTES + 1), -32600),
    ],
    ids=range(30),
)
def test_invalid_frames_are_answered_with_an_error(connect: Connecting, frame: Any, code: int) -> None:
    connection = connect.connection("--yes")

    connection.raw(frame)

    answer = eventually(lambda: connection.wait("x") if code in (-32601, -32602) else connection.other())
    assert answer["error"]["code"] == code, answer
    assert len(json.dumps(answer)) < 1000
    assert connection.ok("list")["files"] == []
    assert "is down" not in connect.printed()


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["..", "/", "a", "*"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FIELDS = ("call_id", "user_id", "epoch", "timeout_ms", "path", "content", "old", "new", "query", "regex", "pattern")
MORE_FIELDS = (
    "most",
    "first_line",
    "lines",
    "if_match",
    "name",
    "of_turn",
    "create_dirs",
    "recursive",
    "approval",
    "turn_id",
)


@given(
    method=st.sampled_from(sorted(CALLS)),
    fields=st.dictionaries(st.sampled_from(FIELDS + MORE_FIELDS), ANYTHING, max_size=6),
    others=st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params"]), ANYTHING, max_size=1),
)
@settings(max_examples=by_depth(100, 500), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_next_call_is_answered_after_any_call(
    connect: Connecting, method: str, fields: dict[str, Any], others: dict[str, Any]
) -> None:
    connection = getattr(connect, "fuzzed", None) or connect.connection("--read-only", "--run", "true=true")
    connect.fuzzed = connection  # type: ignore[attr-defined]

    params = {"call_id": "x", "user_id": USER, "timeout_ms": 2000, "path": "."} | fields
    connection.raw({"jsonrpc": "2.0", "id": "x", "method": method, "params": params} | others)

    assert connection.ok("list", epoch=1 << 70)["files"] == []
    assert "is down" not in connect.printed()
    assert "Traceback" not in connect.printed()


@pytest.mark.parametrize(
    "frame",
    [
        {"jsonrpc": "2.0", "id": "nobody-asked", "result": {}},
        {"jsonrpc": "2.0", "id": "hello", "error": {"code": 1, "message": "late"}},
        {"jsonrpc": "2.0", "method": "workspace/delete", "params": {"path": "file.txt"}},
        {"jsonrpc": "2.0", "method": "nothing"},
    ],
    ids=range(4),
)
def test_notifications_and_responses_get_no_answer(connect: Connecting, frame: Any) -> None:
    (connect.work / "file.txt").write_text("x")
    connection = connect.connection("--yes")

    connection.raw(frame)

    assert connection.ok("read", path="file.txt")
    assert connection._others.empty()


def test_frame_far_over_the_limit_only_ends_the_connection(connect: Connecting) -> None:
    connection = connect.connection("--yes")

    connection.raw("x" * (2 * MAX_FRAME_BYTES + 1))

    assert connect.server.connection().ok("list")


def test_answer_too_large_for_a_frame_is_replaced_by_an_error(connect: Connecting) -> None:
    (connect.work / "controls").write_bytes(b"\x01" * 9_000_000)
    connection = connect.connection("--yes")

    assert "too large" in connection.refused("read", "read_failed", path="controls")
    assert len(connection.ok("read", path="controls", first_line=1, lines=0)["content"]) == 0


def test_calls_over_the_queue_limit_are_refused(connect: Connecting) -> None:
    (connect.work / "file.txt").write_text("x")
    (connect.work / "slow.txt").write_text("a" * 60 + "!\n")
    connection = connect.connection("--yes")
    slow = [connection.send("search", query="(a+)+$", regex=True, timeout_ms=3000) for _ in range(8)]

    flood = [connection.send("read", path="file.txt") for _ in range(200)]
    answers = [connection.wait(call_id) for call_id in flood]

    refused = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert refused == [-32000] * 136
    assert [answer["result"]["content"] for answer in answers if "result" in answer] == ["x"] * 64
    assert all(connection.wait(call_id)["result"]["cut_by"] == "time" for call_id in slow)
    assert connection.ok("read", path="file.txt")


def test_second_connector_of_a_folder_is_refused(connect: Connecting) -> None:
    connect.connection("--yes")
    connect.start("--yes")

    code, printed = connect.ended()

    assert (code, "is connected to project 5 already" in printed) == (5, True)
    assert f"by `artel connect` (process {connect.processes[0].pid}). End it there, or take over" in printed


@pytest.mark.req("CLI-01.9")
def test_take_over_works_for_the_same_folder(connect: Connecting) -> None:
    connect.connection("--yes")
    first = connect.processes[0]

    second = connect.connection("--yes", "--take-over")

    assert first.wait(15) == 5
    assert "Another `artel connect` has taken over this folder." in connect.printed()
    assert second.ok("list")["files"] == []


@pytest.fixture
def state(connect: Connecting, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    """The state of a killed connector, whose process id is still in the lock file."""
    connect.connection("--yes")
    connect.kill()
    monkeypatch.setenv("ARTEL_CONFIG_DIR", connect.env["ARTEL_CONFIG_DIR"])
    (found,) = StateFolder.all()
    return found


@pytest.mark.req("CLI-01.9")
def test_take_over_never_signals_a_process_that_reuses_the_id_of_a_killed_connector(state: StateFolder) -> None:
    lock = state.path / "connect.lock"
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            lock.write_text(json.dumps(json.loads(lock.read_text()) | {"pid": stranger.pid}))

            assert state.holder() is None
            assert not state.signal_holder_to_leave()
            assert stranger.poll() is None
        finally:
            stranger.kill()


@pytest.mark.req("CLI-01.9")
def test_lock_file_has_the_process_id_while_the_lock_is_held(state: StateFolder) -> None:
    lock = state.path / "connect.lock"

    with state.connector_lock():
        assert json.loads(lock.read_text())["pid"] == os.getpid()
        assert state.holder() is not None

    assert (lock.read_bytes(), state.holder()) == (b"", None)


@pytest.mark.req("CLI-01.9")
@pytest.mark.anyio
async def test_take_over_waits_for_a_holder_that_has_not_written_its_process_id_yet(state: StateFolder) -> None:
    with ExitStack() as ours:
        with state.connector_lock():
            (state.path / "connect.lock").write_bytes(b"")
            taking = asyncio.create_task(acquire(state, ours, take_over=True))
            await asyncio.sleep(0)  # it has tried once

            assert not taking.done()
        await taking

        assert state.holder() is not None


@asynccontextmanager
async def _login(connect: Connecting) -> AsyncIterator[ConnectorLogin]:
    yield ConnectorLogin(connect.server.token, datetime.now(UTC) + timedelta(hours=1))


@pytest.mark.req("SEC-04.6")
@pytest.mark.anyio
async def test_login_that_begins_while_artel_up_stops_is_ended(connect: Connecting) -> None:
    begins, may_begin, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def login() -> AsyncIterator[ConnectorLogin]:
        begins.set()
        await may_begin.wait()
        yield ConnectorLogin(connect.server.token, datetime.now(UTC) + timedelta(hours=1))
        ended.set()

    async def is_free() -> bool:
        return True

    own = OwnConnector(connect.work, quiet=True)
    own.start(ConnectorTarget(connect.server.url, 5, login, is_free))
    await begins.wait()
    stopping = asyncio.create_task(own.stop())
    await asyncio.sleep(0)
    may_begin.set()
    await stopping

    assert ended.is_set()
    assert connect.server.requests == []


@pytest.mark.req("SEC-04.6")
@pytest.mark.anyio
async def test_folder_stays_disconnected_when_the_user_ends_the_login_of_its_connector(
    connect: Connecting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in connect.env.items():
        monkeypatch.setenv(name, value)
    logins = 0

    @asynccontextmanager
    async def login() -> AsyncIterator[ConnectorLogin]:
        nonlocal logins
        logins += 1
        yield ConnectorLogin(connect.server.token, datetime.now(UTC) + timedelta(hours=1))

    async def is_free() -> bool:
        return True

    own = OwnConnector(connect.work, quiet=True)
    own.start(ConnectorTarget(connect.server.url, 5, login, is_free))
    try:
        connection = await asyncio.to_thread(connect.server.connection)
        connect.server.token = "that nobody has"
        await asyncio.to_thread(connection.close, 4401, "This login was ended. Log in again.")
        assert own._task is not None
        await asyncio.wait_for(own._task, 60)
    finally:
        await own.stop()

    assert logins == 1
    assert "The login of the connected folder was ended." in capsys.readouterr().err


@pytest.mark.req("CLI-01.9")
@pytest.mark.anyio
async def test_connector_of_artel_up_comes_back_when_the_other_leaves(
    connect: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in connect.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("artel.cli.connector_process.CHECK_SECONDS", 0.05)
    is_taken = True

    async def is_free() -> bool:
        return not is_taken

    own = OwnConnector(connect.work, quiet=True)
    own.start(ConnectorTarget(connect.server.url, 5, partial(_login, connect), is_free))
    try:
        await asyncio.to_thread(connect.server.connection)
        refused = await asyncio.to_thread(running.artel, *connect.arguments(["--yes"]), env=connect.env)
        assert f"by `artel up` (process {os.getpid()}). End it there, or take over: --take-over" in refused.stderr

        other = await asyncio.to_thread(connect.connection, "--yes", "--take-over")
        assert other.hello["mode"] == "yes"
        await asyncio.to_thread(connect.stop)
        is_taken = False
        back = await asyncio.to_thread(connect.server.connection)

        assert (back.hello["mode"], back.hello["take_over"]) == ("browser", False)
    finally:
        await own.stop()


@pytest.mark.req("CLI-01.9")
@pytest.mark.anyio
async def test_connector_of_artel_up_waits_until_the_current_connector_ends(
    connect: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in connect.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("artel.cli.connector_process.CHECK_SECONDS", 0.05)

    async def is_free() -> bool:
        return True

    await asyncio.to_thread(connect.connection, "--yes")
    own = OwnConnector(connect.work, quiet=True)
    holder = own.start(ConnectorTarget(connect.server.url, 5, partial(_login, connect), is_free))
    try:
        assert holder == f"`artel connect` (process {connect.processes[0].pid})"
        await asyncio.to_thread(connect.stop)
        back = await asyncio.to_thread(connect.server.connection)
        assert (back.hello["mode"], back.hello["take_over"]) == ("browser", False)
    finally:
        await own.stop()


@pytest.mark.req("CLI-01.9")
def test_artel_up_prints_which_connector_it_waits_for(connect: Connecting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTEL_CONFIG_DIR", connect.env["ARTEL_CONFIG_DIR"])
    [port] = free_ports(1)
    state = StateFolder.of(f"http://127.0.0.1:{port}", 1, connect.work)

    up = ("up", "--port", str(port), "--folder", str(connect.work))
    with state.connector_lock(), Terminal(*up, env=connect.env) as terminal:
        shown = terminal.until("Ctrl-C stops Artel.")

    assert f"waits until `artel connect` (process {os.getpid()}) ends" in shown
    assert "--take-over" not in shown
    assert "ask before they write" not in shown


def test_folders_with_own_files_of_artel_are_refused(connect: Connecting, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "config", tmp_path / "config" / "inner"):
        folder.mkdir(exist_ok=True)
        done = running.artel("connect", str(folder), "--project", "5", "--yes", env=connect.env)
        assert (done.returncode, "Artel's own files" in done.stderr) == (2, True)
    missing = running.artel("connect", str(tmp_path / "none"), "--project", "5", "--yes", env=connect.env)
    assert missing.returncode == 2


def test_state_files_are_private_to_the_owner(connect: Connecting) -> None:
    connection = connect.connection("--yes")
    connection.ok("write", path="file.txt", content="x", turn_id="t")
    connection.ok("write", path="file.txt", content="y", turn_id="u")

    private = [path for path in connect.state().rglob("*") if path.is_file()]

    assert {path.name for path in private} >= {"connector.json", "journal.jsonl", "audit.jsonl", "changes.jsonl"}
    assert [path for path in private if path.stat().st_mode & 0o077] == []
    assert connect.work not in [path.parent for path in private]


def test_audit_log_has_every_call_and_no_content(connect: Connecting) -> None:
    connection = connect.connection("--yes")
    connection.ok("write", path="file.txt", content="TREASURE", turn_id="t1")
    connection.call("read", path="../x")
    connection.raw("nonsense")
    connection.other()

    entries = connect.audit()

    assert [entry["outcome"] for entry in entries] == ["ok", "path_traversal_blocked", "bad_frame"]
    assert {"at", "call_id", "method", "name", "agent", "turn_id", "user_id", "outcome", "milliseconds"} <= {
        *entries[0]
    }
    assert "TREASURE" not in json.dumps(entries)
    assert "a-token" not in json.dumps(entries)


@pytest.mark.usefixtures("started_for_real")
def test_connector_imports_neither_server_packages_nor_httpx(connect: Connecting) -> None:
    server = "fastapi", "sqlalchemy", "structlog", "argon2", "jwt", "pydantic_settings", "uvicorn", "langgraph"
    blocked = (*server, "litellm", "httpx")
    script = (
        f"import sys\nfor name in {blocked}:\n    sys.modules[name] = None\nfrom artel.cli.main import main\nmain()\n"
    )
    (connect.work / ".artelignore").write_text("x\n")
    (connect.work / "file.txt").write_text("hello")
    with subprocess.Popen(
        [sys.executable, "-c", script, *connect.arguments(["--yes"])],
        env=connect.env,
        stdout=subprocess.DEVNULL,
        cwd="/",
    ) as process:
        try:
            connection = connect.server.connection()
            assert connection.ok("search", query="h.llo", regex=True)["matches"]
            assert connection.ok("write", path="made.txt", content="x")
        finally:
            process.terminate()
            assert process.wait(10) == 0
