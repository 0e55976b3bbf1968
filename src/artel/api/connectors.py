"""The connector of a project: its socket, and whether it is online."""

import asyncio
import contextlib
import time
from typing import Annotated

from fastapi import APIRouter, Path, WebSocket
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.websockets import WebSocketDisconnect

from artel.api.dependencies import CurrentUser, Parts, ProjectId
from artel.api.problems import documented, problem_of
from artel.auth.principal import Principal
from artel.connectors.connector_repository import who_serves
from artel.connectors.line import Line, Misbehaved
from artel.container import Container
from artel.contract.connector import (
    CLOSE_MISBEHAVED,
    CLOSE_OTHER_CONNECTOR,
    CLOSE_REFUSED,
    CLOSE_TAKEN_OVER,
    PROTOCOL,
    ConnectorState,
    Hello,
    Welcome,
    answer,
    refusal,
)
from artel.contract.http import MAX_ID
from artel.errors import ArtelError, OtherConnector
from artel.ids import uuid7
from artel.logs import get_logger

HELLO_SECONDS = 10.0
MAX_MESSAGES_PER_SECOND = 500

log = get_logger(__name__)

router = APIRouter(prefix="/my/projects/{project_id}/connector", tags=["connectors"])


@router.get("", responses=documented(401, 404, 422, 503))
async def show_connector(project_id: ProjectId, user: CurrentUser, parts: Parts) -> ConnectorState:
    """Say whether the files of the project can be reached, and how writes are decided."""
    serving = await parts.database.read(who_serves, user, project_id)
    if serving is None:
        return ConnectorState(online=False)
    return ConnectorState(
        online=True,
        connector_id=serving.connector_id,
        workspace_name=serving.workspace_name,
        read_only=serving.read_only,
        mode=serving.mode,
        commands=sorted(serving.commands),
        since=serving.since.isoformat(),
    )


@router.websocket("")
async def connect(websocket: WebSocket, project_id: Annotated[int, Path(ge=0, le=MAX_ID)]) -> None:
    """Serve the files of a project, until the line ends."""
    parts: Container = websocket.app.state.container
    user: Principal = websocket.state.principal
    try:
        await parts.database.read(who_serves, user, project_id)
    except ArtelError as refused:
        await websocket.send_denial_response(problem_of(websocket.scope, refused))
        return
    if PROTOCOL not in websocket.scope["subprotocols"]:
        await websocket.accept()
        await websocket.close(CLOSE_REFUSED, f"Speak the subprotocol {PROTOCOL}.")
        return
    await websocket.accept(PROTOCOL)
    with contextlib.suppress(WebSocketDisconnect):
        await _Conversation(websocket, parts, user, project_id).hold()


class _Closed(Exception):
    """We end the line, and say why."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Conversation:
    """One socket, from hello to goodbye."""

    def __init__(self, websocket: WebSocket, parts: Container, user: Principal, project_id: int) -> None:
        self._websocket = websocket
        self._parts = parts
        self._user = user
        self._project_id = project_id

    async def hold(self) -> None:
        """Talk until somebody ends it."""
        line = None
        try:
            hello_id, hello = await self._hello()
            line = Line(uuid7(), self._user, hello, self._websocket.send_text, self._parts.decided)
            await self._serve(line, hello_id)
        except _Closed as closed:
            log.info("connector_refused", project_id=self._project_id, code=closed.code, reason=closed.reason)
            await self._websocket.close(closed.code, closed.reason[:120])
        finally:
            if line is not None:
                await asyncio.shield(self._parts.lines.close(line))

    async def _serve(self, line: Line, hello_id: object) -> None:
        taken_over = asyncio.Event()
        try:
            await self._parts.lines.open(line, taken_over.set)
        except OtherConnector as other:
            await self._websocket.send_json(refusal(hello_id, CLOSE_OTHER_CONNECTOR, other.detail))
            raise _Closed(CLOSE_OTHER_CONNECTOR, other.detail) from None
        await self._websocket.send_json(answer(hello_id, Welcome()))
        listening = asyncio.ensure_future(self._listen(line))
        replaced = asyncio.ensure_future(self._until_replaced(line, taken_over))
        try:
            await asyncio.wait({listening, replaced}, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                await listening  # raises why it ended
            raise _Closed(CLOSE_TAKEN_OVER, "Another connector has taken over.")
        finally:
            listening.cancel()
            replaced.cancel()

    async def _hello(self) -> tuple[object, Hello]:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                message = from_json(await self._text())
            if message.get("method") != "hello":
                raise _Closed(CLOSE_REFUSED, "Begin with hello.")
            hello = Hello.model_validate(message["params"])
        except TimeoutError:
            raise _Closed(CLOSE_REFUSED, f"There was no hello within {HELLO_SECONDS:g} seconds.") from None
        except (ValidationError, ValueError, KeyError, AttributeError, TypeError):
            raise _Closed(CLOSE_REFUSED, "That is no hello. Is the connector up to date?") from None
        if (hello.protocol, hello.user_id, hello.project_id) != (PROTOCOL, self._user.user_id, self._project_id):
            raise _Closed(CLOSE_REFUSED, "The hello names another protocol, user or project than the line is for.")
        return message.get("id"), hello

    async def _listen(self, line: Line) -> None:
        began, count = time.monotonic(), 0
        while True:
            text = await self._text()
            count += 1
            if time.monotonic() - began > 1:
                began, count = time.monotonic(), 0
            if count > MAX_MESSAGES_PER_SECOND:
                raise _Closed(CLOSE_MISBEHAVED, "The line is closed: it sent too many messages.")
            try:
                reply = line.heard(text)
            except Misbehaved as misbehaved:
                raise _Closed(CLOSE_MISBEHAVED, f"The line is closed: {misbehaved}.") from None
            if reply is not None:
                await self._websocket.send_json(reply)

    async def _until_replaced(self, line: Line, taken_over: asyncio.Event) -> None:
        """Return when another line serves the project, here or in another process."""
        waiting = asyncio.ensure_future(taken_over.wait())
        keeping = asyncio.ensure_future(self._parts.lines.keep(line))
        try:
            await asyncio.wait({waiting, keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            keeping.cancel()

    async def _text(self) -> str:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        text = message.get("text")
        if text is None:
            raise _Closed(CLOSE_MISBEHAVED, "Send text, not bytes.")
        return str(text)
