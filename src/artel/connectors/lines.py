"""The lines that this process holds: from hello to goodbye."""

import asyncio
from collections.abc import Callable

from artel.auth.principal import Principal
from artel.connectors.connector_repository import Serving, begin_serving, end_serving, keep_serving
from artel.connectors.line import Line
from artel.contract.connector import PING_SECONDS, Hello
from artel.contract.events import ConnectorOffline, ConnectorOnline, EventData
from artel.db.engine import Database
from artel.errors import ArtelError, DatabaseUnavailable
from artel.logs import get_logger

log = get_logger(__name__)

Tell = Callable[[Principal, int, EventData], None]


class Lines:
    """One line per project at most."""

    def __init__(self, database: Database, process_id: str, tell: Tell) -> None:
        self._database = database
        self._process_id = process_id
        self._tell = tell
        self._lines: dict[int, Line] = {}
        self._changed = asyncio.Event()
        self._taken_over: dict[str, Callable[[], None]] = {}

    @property
    def any(self) -> bool:
        """Whether there is any line."""
        return bool(self._lines)

    def of(self, principal: Principal, project_id: int) -> Line | None:
        """Answer the line to a user's project."""
        line = self._lines.get(project_id)
        return line if line is not None and line.principal.user_id == principal.user_id else None

    async def next_change(self) -> None:
        """Wait until a line was opened."""
        await self._changed.wait()

    async def open(self, line: Line, taken_over: Callable[[], None]) -> Serving:
        """Let a line serve its project; `taken_over` is called when another takes its place."""
        principal, hello = line.principal, line.hello
        serving, before = await self._database.run(begin_serving, principal, hello, line.line_id, self._process_id)
        old = self._lines.pop(hello.project_id, None)
        if old is not None:
            old.close()
            self._end(old.line_id)
        self._lines[hello.project_id] = line
        self._taken_over[line.line_id] = taken_over
        self._changed.set()
        self._changed = asyncio.Event()
        if before is None or before.connector_id != hello.connector_id:
            self._tell(principal, hello.project_id, _online(hello))
        log.info("connector_online", connector_id=hello.connector_id, project_id=hello.project_id, mode=hello.mode)
        return serving

    async def keep(self, line: Line) -> None:
        """Say again and again that a line is open; return when another line has taken its place."""
        while True:
            await asyncio.sleep(PING_SECONDS)
            try:
                if not await self._database.run(keep_serving, line.principal, line.hello.project_id, line.line_id):
                    return
            except DatabaseUnavailable as failure:
                log.warning("connector_not_renewed", reason=failure.detail)

    async def close(self, line: Line) -> None:
        """End a line."""
        line.close()
        self._taken_over.pop(line.line_id, None)
        project_id = line.hello.project_id
        if self._lines.get(project_id) is line:
            del self._lines[project_id]
        try:
            was_serving = await self._database.run(end_serving, line.principal, project_id, line.line_id)
        except ArtelError as failure:
            log.warning("connector_not_removed", reason=failure.detail)
            return
        if was_serving:
            self._tell(line.principal, project_id, ConnectorOffline(connector_id=line.hello.connector_id))
            log.info("connector_offline", connector_id=line.hello.connector_id, project_id=project_id)

    def _end(self, line_id: str) -> None:
        taken_over = self._taken_over.pop(line_id, None)
        if taken_over is not None:
            taken_over()


def _online(hello: Hello) -> ConnectorOnline:
    return ConnectorOnline(
        connector_id=hello.connector_id, workspace_name=hello.workspace_name, read_only=hello.read_only
    )
