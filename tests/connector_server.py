"""A test server for connectors: sends calls and invalid messages, stops reading, and closes connections."""

import asyncio
import json
import queue
import threading
import uuid
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from artel.contract.connector import PROTOCOL

T = TypeVar("T")
WAIT_SECONDS = 60.0
USER = 7


class Connection:
    """The connection of one connector that has said hello."""

    def __init__(self, server: "ConnectorServer", socket: ServerConnection, hello: dict[str, Any]) -> None:
        self._server = server
        self._socket = socket
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._others: queue.Queue[dict[str, Any]] = queue.Queue()
        self.hello = hello

    def call(self, method: str, *, call_id: str | None = None, **params: Any) -> dict[str, Any]:
        """Call the connector and return the result."""
        message = self.send(method, call_id=call_id, **params)
        answer = self.wait(message)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def ok(self, method: str, **params: Any) -> dict[str, Any]:
        """Call the connector, assert success, and return the result."""
        result = self.call(method, **params)
        assert result["success"], result
        return result

    def refused(self, method: str, code: str, **params: Any) -> str:
        """Call the connector, assert a refusal with this code, and return its error message."""
        result = self.call(method, **params)
        assert (result["success"], result.get("code")) == (False, code), result
        return str(result["error"])

    def send(self, method: str, *, call_id: str | None = None, **params: Any) -> str:
        """Send a call without waiting; return its id."""
        call_id = call_id or uuid.uuid4().hex
        self._answers.pop(call_id, None)
        self.raw(self.frame(method, call_id, **params))
        return call_id

    def frame(self, method: str, call_id: str, **params: Any) -> dict[str, Any]:
        """Return a call as a JSON-RPC message."""
        common = {"call_id": call_id, "user_id": USER, "epoch": 0, "timeout_ms": 15_000, "agent": "agent_coder"}
        return {"jsonrpc": "2.0", "id": call_id, "method": f"workspace/{method}", "params": common | params}

    def wait(self, call_id: str, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Wait for the answer to a call."""

        async def waiting() -> dict[str, Any]:
            return await asyncio.wait_for(self._answer(call_id), seconds)

        return self._server.do(waiting())

    def raw(self, message: Any) -> None:
        """Send any message."""
        frame = message if isinstance(message, str | bytes) else json.dumps(message)
        self._server.do(self._socket.send(frame))

    def other(self) -> dict[str, Any]:
        """Wait for the next message that is not the first answer to a call."""
        return self._others.get(timeout=WAIT_SECONDS)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection."""
        self._server.do(self._socket.close(code, reason))

    def cut(self) -> None:
        """Abort the connection, as after a network failure."""
        self._server.do(_soon(self._socket.transport.abort))

    def fall_silent(self) -> None:
        """Stop reading, so that pings are not answered."""
        self._server.do(_soon(self._socket.transport.pause_reading))

    def wait_closed(self) -> None:
        """Wait until the connector has closed the connection."""
        self._server.do(asyncio.wait_for(self._socket.wait_closed(), WAIT_SECONDS))

    async def read(self) -> None:
        """Sort incoming messages into answers and others, in the server's loop."""
        try:
            async for frame in self._socket:
                message = json.loads(frame)
                is_answer = isinstance(message.get("id"), str) and "method" not in message
                if is_answer and not self._answer(message["id"]).done():
                    self._answer(message["id"]).set_result(message)
                else:
                    self._others.put(message)
        except ConnectionClosed:
            return

    def _answer(self, call_id: str) -> "asyncio.Future[dict[str, Any]]":
        return self._answers.setdefault(call_id, self._server.loop.create_future())


class ConnectorServer:
    """Accepts connectors of user 7; `status` refuses the handshake, `close_code` every hello."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.url = ""
        self.token = "a-token"
        self.ping_seconds = 10.0
        self.status: int | None = None
        self.location = ""
        self.close_code: int | None = None
        self.welcome: str | None = None  # sent instead of the usual answer to a hello
        self.protocol: str | None = PROTOCOL
        self.requests: list[Request] = []
        self._connections: queue.Queue[Connection] = queue.Queue()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_SECONDS)

    def connection(self) -> Connection:
        """Wait for the next connector that says hello."""
        return self._connections.get(timeout=WAIT_SECONDS)

    @contextmanager
    def running(self) -> Iterator["ConnectorServer"]:
        """Run the server in a thread."""
        ready, stopped = threading.Event(), asyncio.Event()

        async def run() -> None:
            async with serve(
                self._take,
                "127.0.0.1",
                0,
                process_request=self._process,
                select_subprotocol=lambda *_: Subprotocol(self.protocol) if self.protocol else None,
                subprotocols=[Subprotocol(PROTOCOL)],
                max_size=None,
                ping_interval=None,
                close_timeout=1,
            ) as server:
                self.url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
                ready.set()
                await stopped.wait()

        thread = threading.Thread(target=lambda: self.loop.run_until_complete(run()), name="connector-server")
        thread.start()
        assert ready.wait(10)
        try:
            yield self
        finally:
            self.loop.call_soon_threadsafe(stopped.set)
            thread.join(10)
            self.loop.close()

    def _process(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _json(connection, HTTPStatus.UNAUTHORIZED, {"code": "invalid_token", "detail": "No."})
        if request.path == "/auth/me":
            return _json(connection, HTTPStatus.OK, {"user_id": USER, "email": "ada@example.org"})
        if request.path.startswith("/my/projects?"):
            projects = [{"id": 5, "name": "Website", "is_default": True}]
            return _json(connection, HTTPStatus.OK, {"items": projects, "total": 1, "limit": 100, "offset": 0})
        if self.status is not None:
            refusal = connection.respond(HTTPStatus(self.status), "no")
            refusal.headers["Location"] = self.location
            return refusal
        return None if request.path == "/my/projects/5/connector" else connection.respond(HTTPStatus.NOT_FOUND, "no")

    async def _take(self, socket: ServerConnection) -> None:
        message = json.loads(await socket.recv())
        assert message["method"] == "hello"
        if self.close_code is not None:
            await socket.close(self.close_code)
            return
        connection = Connection(self, socket, message["params"])
        welcome = {"jsonrpc": "2.0", "id": message["id"], "result": {"ping_seconds": self.ping_seconds}}
        await socket.send(self.welcome or json.dumps(welcome))
        self._connections.put(connection)
        await connection.read()


def _json(connection: ServerConnection, status: HTTPStatus, body: dict[str, Any]) -> Response:
    response = connection.respond(status, json.dumps(body))
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = "application/json"
    return response


async def _soon(act: Any) -> None:
    act()
