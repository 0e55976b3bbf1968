"""The connection to the server: says hello, answers calls, and reconnects with backoff."""

import asyncio
import json
import os
from collections.abc import Callable
from http import HTTPStatus
from typing import NoReturn

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from artel import __version__
from artel.connector.calls import AT_ONCE, MAX_WAITING, Calls
from artel.connector.errors import ConnectorRefused, Disconnected
from artel.connector.state_folder import parent_pid
from artel.contract.connector import (
    CLOSE_DISCONNECTED,
    CLOSE_OTHER_CONNECTOR,
    CLOSE_REFUSED,
    CLOSE_TAKEN_OVER,
    DEAD_SECONDS,
    DECIDED,
    DIFF_BYTES,
    MAX_FRAME_BYTES,
    OLD_DIFF_BYTES,
    PING_SECONDS,
    PROTOCOL,
    Decided,
    Hello,
    Mode,
    Welcome,
    request,
)
from artel.errors import NotAuthenticated, OtherConnector, ProjectNotFound
from artel.retry import Backoff

OPEN_SECONDS = 10.0
BACKOFF = Backoff(0.5, 30.0)
MIN_PING_SECONDS, MAX_PING_SECONDS = 1.0, 60.0
HELLO = "hello"
MAX_REASON_CHARACTERS = 500


class ConnectionDead(Exception):
    """The server is silent for too long, or sent an invalid welcome."""


class _Connect(connect):
    """Does not follow redirects: the token is only for the server that the user named."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Connector:
    """Serves one workspace to one server."""

    def __init__(
        self,
        server: str,
        token: Callable[[], str],
        hello: Hello,
        calls: Calls,
        say: Callable[[str], None],
        undelivered: Callable[[], list[Decided]],
    ) -> None:
        self._server = server
        self._token = token
        self._hello = hello
        self._calls = calls
        self._say = say
        self._undelivered = undelivered
        self._parent = parent_pid()
        self.diff_bytes = OLD_DIFF_BYTES
        self._failures = 0  # since the last welcome
        self._socket: ClientConnection | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> NoReturn:
        """Serve until cancelled; raise if reconnecting is pointless."""
        while True:
            try:
                await self._serve_connection()
            except InvalidURI:
                raise ConnectorRefused(f"{self._server} is not a valid server address.") from None
            except InvalidStatus as refused:
                reason = self._refused(refused.response.status_code)
            except ConnectionClosed as closed:
                reason = self._closed(closed)
            except (OSError, WebSocketException, ConnectionDead, TimeoutError) as failure:
                reason = str(failure) or "no answer"
            if self._parent is not None and self._parent != os.getppid():
                raise ConnectorRefused("The server that started this connector is gone.")
            delay = BACKOFF.seconds(self._failures)
            self._failures += 1
            self._say(f"The connection to {self._server} is down ({reason}). Trying again in {delay:.1f} s.")
            await asyncio.sleep(delay)

    def change_mode(self, mode: Mode) -> None:
        """Use another mode in the next hello."""
        self._hello = self._hello.model_copy(update={"mode": mode, "read_only": mode == "read-only"})

    async def decide(self, decided: Decided) -> None:
        """Send the user's decision to the server; if disconnected, it is sent after reconnecting."""
        if self._socket is not None:
            message = {"jsonrpc": "2.0", "method": DECIDED, "params": decided.model_dump(mode="json")}
            try:
                await self._socket.send(json.dumps(message))
            except ConnectionClosed:
                return

    async def _serve_connection(self) -> NoReturn:
        """Open one connection with the current login, and serve it; raise when it ends."""
        async with _Connect(
            f"ws{self._server.removeprefix('http')}/my/projects/{self._hello.project_id}/connector",
            additional_headers={"Authorization": f"Bearer {self._token()}"},
            user_agent_header=f"artel/{__version__}",
            subprotocols=[Subprotocol(PROTOCOL)],
            compression=None,
            open_timeout=OPEN_SECONDS,
            ping_interval=None,
            close_timeout=2,
            max_size=2 * MAX_FRAME_BYTES,  # frames up to this size get an error; larger ones end the connection
        ) as socket:
            if socket.subprotocol != PROTOCOL:
                raise ConnectorRefused(f"{self._server} does not speak {PROTOCOL}. Is it an Artel server?")
            welcome = await self._say_hello(socket)
            self._failures, self.diff_bytes = 0, max(OLD_DIFF_BYTES, min(DIFF_BYTES, welcome.diff_bytes))
            self._hello = self._hello.model_copy(update={"take_over": False})  # don't take over again on reconnect
            self._say(f"Connected to {self._server}, project {self._hello.project_id}.")
            self._socket = socket
            tasks = [
                asyncio.ensure_future(self._read(socket)),
                asyncio.ensure_future(self._keep_alive(socket, welcome.ping_seconds)),
            ]
            try:
                for decided in self._undelivered():
                    await self.decide(decided)
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            except ConnectionDead:
                socket.transport.abort()  # a closing handshake would not be answered
                raise
            finally:
                self._socket = None
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            raise ConnectionClosed(socket.protocol.close_rcvd, None)

    async def _say_hello(self, socket: ClientConnection) -> Welcome:
        await socket.send(json.dumps(request(HELLO, self._hello, HELLO)))
        async with asyncio.timeout(OPEN_SECONDS):
            frame = await socket.recv()
        try:
            message = json.loads(frame)
            if message.get("id") == HELLO and "error" in message:
                reason, code = str(message["error"]["message"])[:MAX_REASON_CHARACTERS], message["error"].get("code")
                is_other = code == CLOSE_OTHER_CONNECTOR
                refused = f"{self._server} refused the connector: {reason}"
                raise OtherConnector(reason) if is_other else ConnectorRefused(refused)
            return Welcome.model_validate(message["result"])
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
            raise ConnectionDead("the server did not send a valid welcome") from None

    async def _read(self, socket: ClientConnection) -> None:
        """Read frames and answer each in a task of its own."""
        async for frame in socket:
            while len(self._answering) > 2 * (AT_ONCE + MAX_WAITING):  # backpressure: the server does not read answers
                await asyncio.wait(self._answering, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._answer(socket, frame))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, socket: ClientConnection, frame: str | bytes) -> None:
        response = await self._calls.handle(frame)
        if response is not None:
            try:
                await socket.send(response)
            except ConnectionClosed:  # the server sends the call again, with the same id
                return

    async def _keep_alive(self, socket: ClientConnection, interval: float) -> None:
        """Ping the server periodically; raise ConnectionDead if it does not answer."""
        if not MIN_PING_SECONDS <= interval <= MAX_PING_SECONDS:
            interval = PING_SECONDS
        timeout = interval * (DEAD_SECONDS / PING_SECONDS - 1)
        while True:
            await asyncio.sleep(interval)
            try:
                async with asyncio.timeout(timeout):
                    await (await socket.ping())
            except TimeoutError:
                raise ConnectionDead(f"no answer for {interval + timeout:.0f} s") from None

    def _refused(self, status: int) -> str:
        """Return the reason if a retry may help; raise if not."""
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            raise ConnectorRefused(f"{self._server} redirects connectors. Name the right server: --server URL")
        if status == HTTPStatus.UNAUTHORIZED:
            raise NotAuthenticated(f"{self._server} does not accept the login. Run: artel login")
        if status == HTTPStatus.FORBIDDEN:
            raise ConnectorRefused(f"{self._server} does not allow this user to connect a folder.")
        if status == HTTPStatus.NOT_FOUND:
            raise ProjectNotFound(f"You have no project {self._hello.project_id} at {self._server}.")
        return f"the server answered {status}"

    def _closed(self, closed: ConnectionClosed) -> str:
        """Return the reason if reconnecting may help; raise if not."""
        code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (0, "")
        if code == CLOSE_OTHER_CONNECTOR:
            raise OtherConnector(
                f"Another connector serves project {self._hello.project_id}. To replace it use --take-over."
            )
        if code == CLOSE_DISCONNECTED:
            raise Disconnected
        if code == CLOSE_TAKEN_OVER:
            raise OtherConnector(f"Another connector has taken over project {self._hello.project_id}.")
        if code == CLOSE_REFUSED:
            raise ConnectorRefused(f"{self._server} refused the connector{f': {reason}' if reason else '.'}")
        return reason or str(closed)
