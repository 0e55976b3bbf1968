"""Size and structure limits on connector messages."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from artel.api.socket_protocol import BoundedSocket
from artel.auth.principal import Principal
from artel.connector_gateway.connection import ConnectorConnection, NotSent
from artel.connector_gateway.frames import LARGE_CHARACTERS, Misbehaved, read_message
from artel.contract.connector import ANSWERS, CALLS, PROTOCOL, CallAnswer, Hello
from artel.per_user_locks import PerUserLock, PerUserSemaphore

pytestmark = pytest.mark.anyio

NOT_UNDERSTOOD = "The connector's answer was not understood"
FILE = {"path": "a.py", "type": "file", "size": 1, "modified": "2026-01-01T00:00:00+00:00"}
MATCH = {"path": "a.py", "line": 1, "text": "x"}
UNDONE = {"path": "a.py", "turn_id": "t", "outcome": "restored"}


class Connector:
    """The other end of a connection."""

    def __init__(
        self,
        user_id: int = 1,
        large_messages: PerUserLock | None = None,
        raised_limits: PerUserSemaphore | None = None,
        kind: type[ConnectorConnection] = ConnectorConnection,
    ) -> None:
        hello = Hello(
            protocol=PROTOCOL, connector_id="connector-of-a-test", user_id=user_id, project_id=1, workspace_name="w"
        )
        self.calls: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.allowed: list[int] = []
        self.changed = asyncio.Event()
        self.connection = kind(
            "connection",
            Principal(user_id),
            hello,
            self._send,
            lambda *_: None,
            large_messages or PerUserLock(8),
            raised_limits or PerUserSemaphore(8),
            self._set_max_characters,
        )

    def _set_max_characters(self, characters: int) -> None:
        if self.allowed[-1:] != [characters]:
            self.allowed.append(characters)
            self.changed.set()

    async def _send(self, text: str) -> None:
        self.calls.put_nowait(json.loads(text))

    def call(self, method: str, seconds: float = 60) -> "asyncio.Task[CallAnswer]":
        """Call the connector."""
        arguments = {"call_id": "c", "user_id": 1, "timeout_ms": 1, "path": "a", "content": "", "old": "a", "new": "b"}
        call = CALLS[method].model_validate({**arguments, "query": "q", "name": "test", "of_turn": "t"})
        return asyncio.ensure_future(
            self.connection.call(method, call, ANSWERS[method], asyncio.get_running_loop().time() + seconds)
        )

    async def answered(self, method: str, result: Any) -> CallAnswer:
        """Call the connector, let it answer with `result`, and return the result of the call."""
        calling = self.call(method)
        await self.calls.get()
        await self.connection.receive(_frame(result))
        return await calling


def _frame(result: Any, call_id: str = "c") -> str:
    return json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result})


@pytest.mark.req("SEC-02.3")
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("workspace/read", {"success": True, "content": "x", "size": 1, "sha256": "ab"}),
        ("workspace/stat", {"success": True, "path": "a", "type": "file", "size": 1}),
        ("workspace/list", {"success": True, "files": [FILE] * 10_000, "is_cut": True}),
        ("workspace/search", {"success": True, "matches": [MATCH] * 1_000}),
        ("workspace/write", {"success": True, "sha256": "ab", "is_new": True}),
        ("workspace/run", {"success": True, "name": "test", "output": "x" * 65_000, "exit_code": 0}),
        ("workspace/undo", {"success": True, "files": [UNDONE] * 10_000}),
        ("workspace/redo", {"success": True, "files": [UNDONE]}),
        ("workspace/compare", {"success": True, "diff": "-x", "sha256": "ab"}),
        ("workspace/delete", {"success": False, "code": "asks", "error": "?", "ask_id": "q", "diff": "-x"}),
    ],
)
async def test_answers_have_only_the_fields_of_their_method(method: str, result: dict[str, Any]) -> None:
    answer = await Connector().answered(method, {**result, "more": {"x": [1]}})

    fields = {"success": answer.success, "error": answer.error, "code": answer.code, **answer.document()}
    assert {name: value for name, value in fields.items() if value is not None} == result


@pytest.mark.req("SEC-02.3")
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("workspace/read", {"success": True}),
        ("workspace/read", {"success": True, "content": 5}),
        ("workspace/read", {"success": True, "content": "x" * 10_000_001}),
        ("workspace/read", {"success": True, "content": "x", "size": 10**30}),
        ("workspace/list", {"success": True, "files": [FILE] * 10_001}),
        ("workspace/list", {"success": True, "files": [{}] * 1_000}),
        ("workspace/list", {"success": True, "files": [{**FILE, "path": "x" * 3_000}]}),
        ("workspace/search", {"success": True, "matches": [MATCH] * 1_001}),
        ("workspace/search", {"success": True, "matches": [{**MATCH, "text": "x" * 3_000}]}),
        ("workspace/run", {"success": True, "output": "x" * 200_000}),
        ("workspace/undo", {"success": True, "files": [{**UNDONE, "outcome": "sold"}]}),
        ("workspace/redo", {"success": True, "files": [{**UNDONE, "outcome": "sold"}]}),
        ("workspace/compare", {"success": True, "sha256": "ab"}),
        ("workspace/stat", {"success": True, "type": ["file"]}),
        ("workspace/write", {"success": False, "code": "asks", "ask_id": "q", "diff": "x" * 250_000}),
        ("workspace/write", {"success": True, "sha256": "x" * 400_000}),
        ("workspace/write", "done"),
        ("workspace/write", None),
    ],
)
async def test_invalid_answers_are_not_understood(method: str, result: Any) -> None:
    answer = await Connector().answered(method, result)

    assert (answer.success, answer.code, answer.document()) == (False, "failed", {})
    assert NOT_UNDERSTOOD in (answer.error or "")


@pytest.mark.req("SEC-02.3")
@pytest.mark.parametrize(
    ("method", "frame"),
    [
        ("workspace/undo", '{"jsonrpc":"2.0","id":"c","result":{"files":[' + "{}," * 500_000 + "{}]}}"),
        ("workspace/read", '{"jsonrpc":"2.0","id":"c","result":{"content":[' + '"",' * 100_000 + '""]}}'),
        ("workspace/read", '{"jsonrpc":"2.0","id":"c","result":{"content":"' + '\\"' * 200_000),
        ("workspace/write", '{"jsonrpc":"2.0","id":"c","result":{"x":"' + "x" * 1_000_000 + '"}}'),
    ],
)
async def test_frame_over_the_limit_of_the_method_is_refused_before_parsing(method: str, frame: str) -> None:
    connector = Connector()
    calling = connector.call(method)
    await connector.calls.get()

    with pytest.raises(Misbehaved):
        await connector.connection.receive(frame)
    calling.cancel()


@pytest.mark.req("SEC-02.3")
def test_brackets_inside_strings_do_not_count_as_structure() -> None:
    content = '{"a": [1, "\\\\"]},' * 100_000

    message = read_message(_frame({"success": True, "content": content}), ANSWERS["workspace/read"].structure)

    assert message["result"]["content"] == content


@pytest.mark.req("SEC-02.3")
async def test_socket_accepts_large_messages_only_while_a_large_answer_is_pending() -> None:
    connector = Connector()
    calling = connector.call("workspace/read")
    await connector.calls.get()
    await connector.connection.receive(_frame({"success": True, "content": "x"}))
    await calling

    assert connector.allowed == [LARGE_CHARACTERS, ANSWERS["workspace/read"].characters, LARGE_CHARACTERS]


@pytest.mark.req("SEC-02.4")
async def test_large_frames_are_parsed_one_at_a_time_per_user_without_blocking_other_users() -> None:
    large = PerUserLock(3)
    first, second = Connector(1, large), Connector(2, large)
    calls = [connector.call("workspace/read") for connector in (first, second)]
    for connector in (first, second):
        await connector.calls.get()
    frame = _frame({"success": True, "content": "x" * 2 * LARGE_CHARACTERS})

    async with large.lock(1):  # another large frame of the first user is being parsed
        waiting = asyncio.ensure_future(first.connection.receive(frame))
        await second.connection.receive(frame)
        assert (await calls[1]).success
        await asyncio.wait({waiting}, timeout=0.5)
        assert not waiting.done()
        assert large.count(1) == 2
    await waiting
    assert (await calls[0]).success
    assert large.count(1) == 0


READ_CHARACTERS = ANSWERS["workspace/read"].characters


async def cancel(calling: "asyncio.Task[CallAnswer]") -> None:
    calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling


class ShortLateTime(ConnectorConnection):
    """A connection that accepts late answers only briefly."""

    late_seconds = 0.2


@pytest.mark.req("SEC-02.3")
async def test_cancelled_call_allows_a_large_message_only_for_a_limited_time() -> None:
    connector = Connector(kind=ShortLateTime)
    calling = connector.call("workspace/read")
    await connector.calls.get()
    await cancel(calling)
    connector.changed.clear()
    assert connector.allowed == [LARGE_CHARACTERS, READ_CHARACTERS]

    async with asyncio.timeout(60):
        await connector.changed.wait()

    assert connector.allowed[2:] == [LARGE_CHARACTERS]
    with pytest.raises(Misbehaved):
        await connector.connection.receive(_frame({"success": True, "content": "x" * 2 * LARGE_CHARACTERS}))


@pytest.mark.req("SEC-02.4")
async def test_number_of_connections_with_raised_limit_is_bounded_per_user() -> None:
    raised = PerUserSemaphore(1)
    first, second, other = (Connector(user_id, raised_limits=raised) for user_id in (1, 1, 2))
    unanswered = first.call("workspace/read")
    await first.calls.get()
    await cancel(unanswered)  # its answer may still come

    with pytest.raises(NotSent):
        await second.call("workspace/read", 0.05)
    assert second.allowed == [LARGE_CHARACTERS]
    assert (await second.answered("workspace/write", {"success": True})).success
    assert (await first.answered("workspace/read", {"success": True, "content": "x"})).success
    assert (await other.answered("workspace/read", {"success": True, "content": "x"})).success
    waiting = second.call("workspace/read")
    first.connection.close()
    async with asyncio.timeout(60):
        await second.calls.get()
    await second.connection.receive(_frame({"success": True, "content": "x"}))
    assert (await waiting).success


class ShortMessageTime(BoundedSocket):
    """A socket with a short timeout for receiving one message."""

    message_seconds = 0.2


async def _accept_all(_scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        await send({"type": "websocket.send", "text": "taken"})


@pytest.mark.req("SEC-02.4")
async def test_socket_with_an_endless_message_is_closed() -> None:
    config = Config(_accept_all)
    server = await asyncio.get_running_loop().create_server(
        lambda: ShortMessageTime(config, ServerState(), {}), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    never = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        yield "x" * 10_000
        await never.wait()

    async with asyncio.timeout(60), connect(f"ws://127.0.0.1:{port}", proxy=None) as socket:
        await socket.send(["whole", " message"])
        assert await socket.recv() == "taken"
        sending = asyncio.ensure_future(socket.send(endless()))
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        sending.cancel()
    server.close()

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
