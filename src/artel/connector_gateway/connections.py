"""The lines that this process holds: from hello to goodbye."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from artel.auth.principal import Principal
from artel.connector_gateway.connection import ConnectorConnection
from artel.connector_gateway.frames import MAX_LARGE_AT_ONCE, MAX_RAISED_LINES, UserPlaces, UserTurns
from artel.connector_gateway.repository import Serving, begin_serving, end_serving, keep_serving
from artel.contract.connector import CLOSE_LOGIN_OVER, CLOSE_REFUSED, CLOSE_TAKEN_OVER, PING_SECONDS, Hello
from artel.contract.events import ConnectorOffline, ConnectorOnline, EventData
from artel.db.engine import Database
from artel.errors import ArtelError, Kind, ProjectNotFound, TooManyConnectors
from artel.logs import get_logger

MAX_SOCKETS = 20

log = get_logger(__name__)

Tell = Callable[[Principal, int, EventData], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a line has to end, for the connector."""

    code: int
    reason: str


TAKEN_OVER = Ending(CLOSE_TAKEN_OVER, "Another connector has taken over.")
PROJECT_GONE = Ending(CLOSE_REFUSED, "The project was deleted.")


class ConnectorConnections:
    """One line per project at most. Whoever opens a line is told when, and why, it must be closed."""

    def __init__(self, database: Database, process_id: str, tell: Tell, max_per_user: int = MAX_SOCKETS) -> None:
        self.large = UserTurns(MAX_LARGE_AT_ONCE)
        self.raised = UserPlaces(MAX_RAISED_LINES)
        self._max_per_user = max_per_user
        self._sockets: Counter[int] = Counter()  # by user, from before the hello on
        self._database = database
        self._process_id = process_id
        self._tell = tell
        self._lines: dict[int, ConnectorConnection] = {}
        self._changed = asyncio.Event()
        self._end: dict[str, Callable[[Ending], None]] = {}

    @property
    def any(self) -> bool:
        """Whether there is any line."""
        return bool(self._lines)

    def of(self, principal: Principal, project_id: int) -> ConnectorConnection | None:
        """Return the line to a user's project."""
        line = self._lines.get(project_id)
        return line if line is not None and line.principal.user_id == principal.user_id else None

    @contextmanager
    def socket(self, principal: Principal) -> Iterator[None]:
        """Count a socket of a user while it is open; raise TooManyConnectors if there are as many as may be."""
        if self._sockets[principal.user_id] >= self._max_per_user:
            raise TooManyConnectors(
                f"You have {self._max_per_user} connectors online here. Stop one that is not needed, then try again.",
                retry_after=10,
            )
        self._sockets[principal.user_id] += 1
        try:
            yield
        finally:
            self._sockets[principal.user_id] -= 1
            if not self._sockets[principal.user_id]:
                del self._sockets[principal.user_id]

    async def next_change(self) -> None:
        """Wait until a line was opened."""
        await self._changed.wait()

    async def open(self, line: ConnectorConnection, end: Callable[[Ending], None]) -> Serving:
        """Let a line serve its project; `end` is called when it has to end."""
        principal, hello = line.principal, line.hello
        serving, before = await self._database.run(begin_serving, principal, hello, line.line_id, self._process_id)
        old = self._lines.pop(hello.project_id, None)
        if old is not None:
            old.close()
            self._tell_end(old.line_id, TAKEN_OVER)
        self._lines[hello.project_id] = line
        self._end[line.line_id] = end
        self._changed.set()
        self._changed = asyncio.Event()
        if before is None or before.connector_id != hello.connector_id:
            self._tell(principal, hello.project_id, _online(hello))
        log.info("connector_online", connector_id=hello.connector_id, project_id=hello.project_id, mode=hello.mode)
        return serving

    async def keep(self, line: ConnectorConnection, authenticate: Callable[[], Awaitable[object]]) -> Ending:
        """Say again and again that a line is open; answer why it has to end.

        Another line has taken its place, its project was deleted, or `authenticate` does not accept its token any more.
        """
        while True:
            await asyncio.sleep(PING_SECONDS)
            for look in (partial(_login_over, authenticate), partial(self._service_over, line)):
                try:
                    ending = await look()
                except ArtelError as failure:  # who can't be asked now is asked again soon
                    log.warning("connector_not_renewed", reason=failure.detail)
                    continue
                if ending is not None:
                    return ending

    async def _service_over(self, line: ConnectorConnection) -> Ending | None:
        try:
            is_kept = await self._database.run(keep_serving, line.principal, line.hello.project_id, line.line_id)
        except ProjectNotFound:
            return PROJECT_GONE
        return None if is_kept else TAKEN_OVER

    def project_deleted(self, project_id: int) -> None:
        """Let the line of a project that was deleted end, if it is here."""
        line = self._lines.get(project_id)
        if line is not None:
            self._tell_end(line.line_id, PROJECT_GONE)

    async def close(self, line: ConnectorConnection) -> None:
        """End a line."""
        line.close()
        self._end.pop(line.line_id, None)
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

    def _tell_end(self, line_id: str, ending: Ending) -> None:
        end = self._end.pop(line_id, None)
        if end is not None:
            end(ending)


async def _login_over(authenticate: Callable[[], Awaitable[object]]) -> Ending | None:
    try:
        await authenticate()
    except ArtelError as failure:
        if failure.kind is not Kind.UNAUTHENTICATED:
            raise
        return Ending(CLOSE_LOGIN_OVER, failure.detail)
    return None


def _online(hello: Hello) -> ConnectorOnline:
    return ConnectorOnline(
        connector_id=hello.connector_id, workspace_name=hello.workspace_name, read_only=hello.read_only
    )
