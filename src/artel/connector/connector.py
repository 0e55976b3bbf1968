"""The line to the server: says who it is, answers calls, and comes back whenever it breaks."""

import asyncio
import json
import os
import random
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NoReturn

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from artel import __version__
from artel.connector.calls import AT_ONCE, MAX_WAITING, Calls
from artel.connector.errors import ConnectorRefused, OtherConnector
from artel.connector.state_folder import parent_pid
from artel.contract.connector import (
    CLOSE_OTHER_CONNECTOR,
    CLOSE_REFUSED,
    CLOSE_TAKEN_OVER,
    DEAD_SECONDS,
    DECIDED,
    MAX_FRAME_BYTES,
    PING_SECONDS,
    PROTOCOL,
    Decided,
    Hello,
    Welcome,
    request,
)
from artel.errors import ArtelError, NotAuthenticated, ProjectNotFound

OPEN_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
SHORTEST_PING, LONGEST_PING = 1.0, 60.0
HELLO = "hello"
MAX_REASON_CHARACTERS = 500


class LineDead(Exception):
    """The other side has said nothing for too long, or something that makes no sense."""


class _Connect(connect):
    """Goes where it is told to and nowhere else: the token is for the server that the user named."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow no redirect."""
        return exc


class Connector:
    """One workspace at one server, for as long as the user wants."""

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
        self._failures = 0  # since the server last said welcome
        self._socket: ClientConnection | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> NoReturn:
        """Serve until cancelled, or until the server says that there is no point; raises why."""
        while True:
            try:
                await self._connection()
            except InvalidURI:
                raise ConnectorRefused(f"{self._server} is no address of a server.") from None
            except InvalidStatus as refused:
                why = self._refused(refused.response.status_code)
            except ConnectionClosed as closed:
                why = self._closed(closed)
            except (OSError, WebSocketException, LineDead, TimeoutError) as failure:
                why = str(failure) or "no answer"
            if self._parent is not None and self._parent != os.getppid():
                raise ConnectorRefused("The server that started this connector is gone.")
            pause = pause_after(self._failures)
            self._failures += 1
            self._say(f"The line to {self._server} is down ({why}). Trying again in {pause:.1f} s.")
            await asyncio.sleep(pause)

    async def decide(self, decided: Decided) -> None:
        """Tell the server what the user has said; without a line it is told when there is one again."""
        if self._socket is not None:
            message = {"jsonrpc": "2.0", "method": DECIDED, "params": decided.model_dump(mode="json")}
            try:
                await self._socket.send(json.dumps(message))
            except ConnectionClosed:
                return

    async def _connection(self) -> NoReturn:
        """Serve over one connection, with the log-in that there is now; raise why it ended."""
        async with _Connect(
            f"ws{self._server.removeprefix('http')}/my/projects/{self._hello.project_id}/connector",
            additional_headers={"Authorization": f"Bearer {self._token()}"},
            user_agent_header=f"artel/{__version__}",
            subprotocols=[Subprotocol(PROTOCOL)],
            compression=None,
            open_timeout=OPEN_SECONDS,
            ping_interval=None,
            close_timeout=2,
            max_size=2 * MAX_FRAME_BYTES,  # what is over the limit is answered; what is far over it ends the line
        ) as socket:
            if socket.subprotocol != PROTOCOL:
                raise ConnectorRefused(f"{self._server} does not speak {PROTOCOL}. Is it an Artel server?")
            welcome = await self._welcomed(socket)
            self._failures = 0
            self._hello = self._hello.model_copy(update={"take_over": False})  # whoever took over from us stays
            self._say(f"Connected to {self._server}, project {self._hello.project_id}.")
            self._socket = socket
            ways = [
                asyncio.ensure_future(self._read(socket)),
                asyncio.ensure_future(self._keep_alive(socket, welcome.ping_seconds)),
            ]
            try:
                for decided in self._undelivered():
                    await self.decide(decided)
                ended, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ended:
                    way.result()
            except LineDead:
                socket.transport.abort()  # nobody is there to say goodbye to
                raise
            finally:
                self._socket = None
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
            raise ConnectionClosed(socket.protocol.close_rcvd, None)

    async def _welcomed(self, socket: ClientConnection) -> Welcome:
        await socket.send(json.dumps(request(HELLO, self._hello, HELLO)))
        async with asyncio.timeout(OPEN_SECONDS):
            said = await socket.recv()
        try:
            message = json.loads(said)
            if message.get("id") == HELLO and "error" in message:
                raise self._refused_hello(message["error"])
            return Welcome.model_validate(message["result"])
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
            raise LineDead("the server did not say welcome") from None

    def _refused_hello(self, error: dict[str, Any]) -> ArtelError:
        words = str(error["message"])[:MAX_REASON_CHARACTERS]
        if error.get("code") == CLOSE_OTHER_CONNECTOR:
            return OtherConnector(words)
        return ConnectorRefused(f"{self._server} refused the connector: {words}")

    async def _read(self, socket: ClientConnection) -> None:
        """Take frames as they come; each is answered when its answer is there."""
        async for frame in socket:
            while len(self._answering) > 2 * (AT_ONCE + MAX_WAITING):  # the answers are not read: nor is what comes
                await asyncio.wait(self._answering, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._answer(socket, frame))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, socket: ClientConnection, frame: str | bytes) -> None:
        said = await self._calls.answered(frame)
        if said is not None:
            try:
                await socket.send(said)
            except ConnectionClosed:  # whoever asked asks again, by the id of the call
                return

    async def _keep_alive(self, socket: ClientConnection, every: float) -> None:
        """Ask for a sign of life again and again; raise when none comes."""
        if not SHORTEST_PING <= every <= LONGEST_PING:  # no server of ours says so
            every = PING_SECONDS
        patience = every * (DEAD_SECONDS / PING_SECONDS - 1)
        while True:
            await asyncio.sleep(every)
            try:
                async with asyncio.timeout(patience):
                    await (await socket.ping())
            except TimeoutError:
                raise LineDead(f"nothing came for {every + patience:.0f} s") from None

    def _refused(self, status: int) -> str:
        """Return what a refusal says if it may pass; raise if it will not."""
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            raise ConnectorRefused(f"{self._server} sends connectors elsewhere. Name the right server: --server URL")
        if status == HTTPStatus.UNAUTHORIZED:
            raise NotAuthenticated(f"{self._server} does not accept the login. Run: artel login")
        if status == HTTPStatus.FORBIDDEN:
            raise ConnectorRefused(f"{self._server} does not allow this user to connect a folder.")
        if status == HTTPStatus.NOT_FOUND:
            raise ProjectNotFound(f"There is no project {self._hello.project_id} of yours at {self._server}.")
        return f"the server answered {status}"

    def _closed(self, closed: ConnectionClosed) -> str:
        """Return why a line ended if another may be opened; raise if not."""
        code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (0, "")
        if code == CLOSE_OTHER_CONNECTOR:
            raise OtherConnector(
                f"Another connector serves project {self._hello.project_id}. To replace it use --take-over."
            )
        if code == CLOSE_TAKEN_OVER:
            raise OtherConnector(f"Another connector has taken over project {self._hello.project_id}.")
        if code == CLOSE_REFUSED:
            raise ConnectorRefused(f"{self._server} refused the connector{f': {reason}' if reason else '.'}")
        return reason or str(closed)


def pause_after(failures: int) -> float:
    """Return how long to wait before the next attempt: longer each time, and never the same for all."""
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures, 10))
    return random.uniform(0.5, 1) * longest  # noqa: S311 - to spread connectors, not to keep a secret
