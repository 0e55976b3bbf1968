"""Endpoints for the connector of a project: its WebSocket and its state."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, WebSocket, status
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.websockets import WebSocketDisconnect

from artel.api.dependencies import CurrentUser, Paging, ProjectId, Services
from artel.api.problems import documented, problem_of
from artel.auth.principal import Principal
from artel.connector_gateway.connection import ConnectorConnection
from artel.connector_gateway.connections import PROJECT_GONE, CloseReason
from artel.connector_gateway.frames import Misbehaved
from artel.connector_gateway.repository import find_connector
from artel.container import Container
from artel.contract.connector import (
    CLOSE_MISBEHAVED,
    CLOSE_OTHER_CONNECTOR,
    CLOSE_REFUSED,
    CLOSE_TRY_LATER,
    DIFF_BYTES,
    MAX_COMPLETED_CHARACTERS,
    MAX_COMPLETIONS,
    PROTOCOL,
    Hello,
    Welcome,
    answer,
    refusal,
)
from artel.contract.http import MAX_ID, Page
from artel.contract.spaces import ConnectorChange, ConnectorState, FileNames, GrantShown
from artel.errors import ArtelError, OtherConnector, ProjectNotFound
from artel.ids import uuid7
from artel.logs import get_logger

FRAME_LIMIT = "frame_limit"  # key in the WebSocket's state: a function that sets the maximum bytes of a message
HELLO_SECONDS = 10.0
MAX_MESSAGES_PER_SECOND = 500
GrantId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$")]

log = get_logger(__name__)

router = APIRouter(
    prefix="/my/projects/{project_id}/connector", tags=["connectors"], responses=documented(401, 404, 422, 503)
)


@router.get("")
async def show_connector(project_id: ProjectId, user: CurrentUser, services: Services) -> ConnectorState:
    """Show whether a connector is online for the project, and how writes are approved."""
    return await services.folder_control.show(user, project_id)


@router.patch("", responses=documented(400, 409, 413))
async def change_connector(
    project_id: ProjectId, body: ConnectorChange, user: CurrentUser, services: Services
) -> ConnectorState:
    """Change where writes are approved, or whether the folder is read-only.

    The connector decides: it never allows more than the options that it was started with.
    """
    return await services.folder_control.change(user, project_id, body)


@router.post("/disconnect", status_code=status.HTTP_204_NO_CONTENT, responses=documented(409))
async def disconnect(project_id: ProjectId, user: CurrentUser, services: Services) -> None:
    """Disconnect the folder; run `artel connect` to connect it again."""
    await services.folder_control.disconnect(user, project_id)


@router.get("/grants", responses=documented(409))
async def list_grants(project_id: ProjectId, user: CurrentUser, services: Services, paging: Paging) -> Page[GrantShown]:
    """List what you have allowed agents in the connected folder, for this session or for good."""
    grants = await services.folder_control.grants(user, project_id)
    return paging.page(paging.cut(grants), len(grants))


@router.delete("/grants/{grant_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(409))
async def revoke_grant(project_id: ProjectId, grant_id: GrantId, user: CurrentUser, services: Services) -> None:
    """Revoke a grant at once."""
    await services.folder_control.revoke(user, project_id, grant_id)


@router.get("/files", responses=documented(409))
async def find_files(
    project_id: ProjectId,
    user: CurrentUser,
    services: Services,
    q: Annotated[
        str,
        Query(max_length=MAX_COMPLETED_CHARACTERS, pattern=r"^[^\x00-\x1f\x7f]*$", description="A part of the path."),
    ] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_COMPLETIONS, description="Maximum number of items.")] = 20,
) -> FileNames:
    """Find files and folders of the connected folder by name, without ignored and secret ones."""
    return await services.folder_control.file_names(user, project_id, q, limit)


@router.websocket("")
async def connect(websocket: WebSocket, project_id: Annotated[int, Path(ge=0, le=MAX_ID)]) -> None:
    """Serve a connector's WebSocket until it closes."""
    services: Container = websocket.app.state.container
    user: Principal = websocket.state.principal
    try:
        with services.connector_connections.socket(user):
            await services.database.read(find_connector, user, project_id)
            if PROTOCOL not in websocket.scope["subprotocols"]:
                await websocket.accept()
                await websocket.close(CLOSE_REFUSED, f"The subprotocol must be {PROTOCOL}.")
                return
            await websocket.accept(PROTOCOL)
            with contextlib.suppress(WebSocketDisconnect):
                await _ConnectorSocket(websocket, services, user, project_id).run()
    except ArtelError as refused:
        await websocket.send_denial_response(problem_of(websocket.scope, refused))


class _Closed(Exception):
    """Close the connection with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _ConnectorSocket:
    """One WebSocket of a connector, from hello to close."""

    def __init__(self, websocket: WebSocket, services: Container, user: Principal, project_id: int) -> None:
        self._websocket, self._services, self._user, self._project_id = websocket, services, user, project_id
        self._connections = services.connector_connections
        self._ended: asyncio.Queue[CloseReason] = asyncio.Queue()

    async def run(self) -> None:
        """Receive the hello and serve the connection until it ends."""
        try:
            hello_id, hello = await self._hello()
            connection = ConnectorConnection(
                uuid7(),
                self._user,
                hello,
                self._websocket.send_text,
                self._services.approvals.decided_at_connector,
                self._connections.large_messages,
                self._connections.raised_limits,
                self._allow,
            )
            await self._open(connection, hello_id)
            try:
                await self._websocket.send_json(answer(hello_id, Welcome(diff_bytes=DIFF_BYTES)))
                await self._serve(connection)
            finally:
                await asyncio.shield(self._connections.close(connection))
        except _Closed as closed:
            log.info("connector_refused", project_id=self._project_id, code=closed.code, reason=closed.reason)
            await self._websocket.close(closed.code, closed.reason[:120])

    async def _open(self, connection: ConnectorConnection, hello_id: object) -> None:
        try:
            await self._connections.open(connection, self._ended.put_nowait)
        except OtherConnector as other:
            await self._websocket.send_json(refusal(hello_id, CLOSE_OTHER_CONNECTOR, other.detail))
            raise _Closed(CLOSE_OTHER_CONNECTOR, other.detail) from None
        except ProjectNotFound:  # deleted concurrently
            raise _Closed(PROJECT_GONE.code, PROJECT_GONE.reason) from None
        except ArtelError as error:
            raise _Closed(CLOSE_TRY_LATER, error.detail) from None

    async def _serve(self, connection: ConnectorConnection) -> None:
        listening = asyncio.create_task(self._listen(connection))
        keeping = asyncio.create_task(self._connections.keep_alive(connection, self._websocket.state.recheck))
        ending = asyncio.create_task(self._ended.get())
        tasks: set[asyncio.Task[Any]] = {listening, keeping, ending}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                await listening  # raises the reason
            reason = await (ending if ending.done() else keeping)
            raise _Closed(reason.code, reason.reason)
        finally:
            for task in tasks:
                task.cancel()

    async def _hello(self) -> tuple[object, Hello]:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                message = from_json(await self._text())
            if message.get("method") != "hello":
                raise _Closed(CLOSE_REFUSED, "The first message must be hello.")
            hello = Hello.model_validate(message["params"])
        except TimeoutError:
            raise _Closed(CLOSE_REFUSED, f"No hello arrived within {HELLO_SECONDS:g} seconds.") from None
        except (ValidationError, ValueError, KeyError, AttributeError, TypeError):
            raise _Closed(CLOSE_REFUSED, "The hello is not valid. Is the connector up to date?") from None
        if (hello.protocol, hello.user_id, hello.project_id) != (PROTOCOL, self._user.user_id, self._project_id):
            raise _Closed(CLOSE_REFUSED, "The hello names another protocol, user or project than this connection.")
        return message.get("id"), hello

    async def _listen(self, connection: ConnectorConnection) -> None:
        began, count = time.monotonic(), 0
        while True:
            text = await self._text()
            count += 1
            if time.monotonic() - began > 1:
                began, count = time.monotonic(), 0
            if count > MAX_MESSAGES_PER_SECOND:
                raise _Closed(CLOSE_MISBEHAVED, "Connection closed: too many messages per second.")
            try:
                reply = await connection.receive(text)
            except Misbehaved as misbehaved:
                raise _Closed(CLOSE_MISBEHAVED, f"Connection closed: {misbehaved}.") from None
            if reply is not None:
                await self._websocket.send_json(reply)

    def _allow(self, characters: int) -> None:
        """Set the maximum size of the next message; before the hello it is small."""
        allow: Callable[[int], None] | None = self._websocket.scope["state"].get(FRAME_LIMIT)
        if allow is not None:
            allow(4 * characters)

    async def _text(self) -> str:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        text = message.get("text")
        if text is None:
            raise _Closed(CLOSE_MISBEHAVED, "Send text messages, not binary ones.")
        return str(text)
