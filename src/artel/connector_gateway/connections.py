"""All connector connections of this process: registers, keeps alive and closes them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from artel.auth.principal import Principal
from artel.connector_gateway.connection import ConnectorConnection
from artel.connector_gateway.repository import ConnectorRepository, register_connector
from artel.contract.connector import (
    CLOSE_DISCONNECTED,
    CLOSE_LOGIN_OVER,
    CLOSE_REFUSED,
    CLOSE_TAKEN_OVER,
    PING_SECONDS,
)
from artel.contract.events import ConnectorOffline, ConnectorOnline, EventData
from artel.db.engine import Database
from artel.errors import ArtelError, Kind, ProjectNotFound, TooManyConnectors
from artel.logs import get_logger
from artel.per_user_locks import PerUserLock, PerUserSemaphore

MAX_SOCKETS = 20  # per user
MAX_LARGE_AT_ONCE = 8  # large messages that are parsed at the same time in the whole process
MAX_RAISED_CONNECTIONS = 4  # per user, that may send very large messages at the same time

log = get_logger(__name__)

PublishEvent = Callable[[Principal, int, EventData], None]


@dataclass(frozen=True, slots=True)
class CloseReason:
    """WebSocket close code and reason for the connector."""

    code: int
    reason: str


TAKEN_OVER = CloseReason(CLOSE_TAKEN_OVER, "Another connector has taken over.")
PROJECT_GONE = CloseReason(CLOSE_REFUSED, "The project was deleted.")


class ConnectorConnections:
    """Holds at most one connection per project, and calls its idempotent `end` callback when it must be closed."""

    def __init__(
        self, database: Database, process_id: str, publish: PublishEvent, max_per_user: int = MAX_SOCKETS
    ) -> None:
        self.large_messages = PerUserLock(MAX_LARGE_AT_ONCE)
        self.raised_limits = PerUserSemaphore(MAX_RAISED_CONNECTIONS)
        self._max_per_user = max_per_user
        self._sockets: Counter[int] = Counter()  # by user, including those that have not sent hello yet
        self._database = database
        self._process_id = process_id
        self._publish = publish
        self._connections: dict[int, tuple[ConnectorConnection, Callable[[CloseReason], None]]] = {}  # by project
        self._opened = asyncio.Event()

    @property
    def any(self) -> bool:
        """Whether any connector is connected to this process."""
        return bool(self._connections)

    def of(self, principal: Principal, project_id: int) -> ConnectorConnection | None:
        """Return the connection that serves a user's project, if this process holds it."""
        connection, _ = self._connections.get(project_id, (None, None))
        return connection if connection is not None and connection.principal.user_id == principal.user_id else None

    @contextmanager
    def socket(self, principal: Principal) -> Iterator[None]:
        """Count a user's socket while it is open; raise TooManyConnectors if the limit is reached."""
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

    async def wait_for_open(self) -> None:
        """Wait until a connection is opened."""
        await self._opened.wait()

    async def open(self, connection: ConnectorConnection, end: Callable[[CloseReason], None]) -> None:
        """Register a connection for its project; `end` is called when it must be closed."""
        principal, hello = connection.principal, connection.hello
        before = await self._database.of(principal).run(
            register_connector, hello, connection.connection_id, self._process_id
        )
        if hello.project_id in self._connections:
            old, end_old = self._connections.pop(hello.project_id)
            old.close()
            end_old(TAKEN_OVER)
        self._connections[hello.project_id] = connection, end
        self._opened.set()
        self._opened = asyncio.Event()
        if before is None or before.connector_id != hello.connector_id:
            online = ConnectorOnline(
                connector_id=hello.connector_id, workspace_name=hello.workspace_name, read_only=hello.read_only
            )
            self._publish(principal, hello.project_id, online)
        log.info("connector_online", connector_id=hello.connector_id, project_id=hello.project_id, mode=hello.mode)

    async def keep_alive(
        self, connection: ConnectorConnection, authenticate: Callable[[], Awaitable[object]]
    ) -> CloseReason:
        """Renew a connection's row periodically; return the reason when the connection must be closed.

        Reasons: another connector took over, the project was deleted, or `authenticate` rejects the token. Other
        errors are temporary: try again at the next ping.
        """
        project_id, connection_id = connection.hello.project_id, connection.connection_id
        while True:
            await asyncio.sleep(PING_SECONDS)
            try:
                await authenticate()
            except ArtelError as failure:
                if failure.kind is Kind.UNAUTHENTICATED:
                    return CloseReason(CLOSE_LOGIN_OVER, failure.detail)
                log.warning("connector_not_renewed", reason=failure.detail)
            try:
                rows = self._database.of(connection.principal)
                if not await rows.run(lambda tx: ConnectorRepository(tx).renew(project_id, connection_id)):
                    return TAKEN_OVER
            except ProjectNotFound:
                return PROJECT_GONE
            except ArtelError as failure:
                log.warning("connector_not_renewed", reason=failure.detail)

    async def disconnect(self, principal: Principal, project_id: int) -> bool:
        """Close the connection of a user's project for good; return whether this process holds it."""
        connection = self.of(principal, project_id)
        if connection is None:
            return False
        _, end = self._connections[project_id]
        # A connector that does not know the code would reconnect.
        is_known = "settings" in connection.hello.features
        end(CloseReason(CLOSE_DISCONNECTED if is_known else CLOSE_REFUSED, "Disconnected on the page."))
        await self.close(connection)
        return True

    def project_deleted(self, project_id: int) -> None:
        """Close the connection of a deleted project, if this process holds it."""
        if project_id in self._connections:
            self._connections[project_id][1](PROJECT_GONE)

    async def close(self, connection: ConnectorConnection) -> None:
        """Close and unregister a connection."""
        connection.close()
        project_id = connection.hello.project_id
        if self._connections.get(project_id, (None,))[0] is connection:
            del self._connections[project_id]
        try:
            was_online = await self._database.of(connection.principal).run(
                lambda tx: ConnectorRepository(tx).remove(project_id, connection.connection_id)
            )
        except ArtelError as failure:
            log.warning("connector_not_removed", reason=failure.detail)
            return
        if was_online:
            self._publish(
                connection.principal, project_id, ConnectorOffline(connector_id=connection.hello.connector_id)
            )
            log.info("connector_offline", connector_id=connection.hello.connector_id, project_id=project_id)
