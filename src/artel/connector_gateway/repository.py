"""Rows of connectors: who serves the files of a project now."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from artel.contract.connector import DEAD_SECONDS, Hello
from artel.db.tables import connectors
from artel.db.tenant import Tenant, TenantRepository
from artel.errors import OtherConnector
from artel.projects.repository import ProjectRepository


@dataclass(frozen=True, slots=True)
class Serving:
    """A connector that is online, and the process that holds its line."""

    project_id: int
    connector_id: str
    line_id: str
    process_id: str
    workspace_name: str
    read_only: bool
    mode: str
    commands: dict[str, str]
    features: list[str]
    since: datetime


class ConnectorRepository(TenantRepository):
    """Connectors of one user's projects."""

    table = connectors

    def get(self, project_id: int) -> Serving | None:
        """Return who serves a project."""
        asked = connectors.c.project_id == project_id, connectors.c.expires_at > datetime.now(UTC)
        row = self.connection.execute(self._select().where(*asked)).one_or_none()
        return _serving(row) if row else None

    def put(self, serving: Serving) -> None:
        """Note who serves a project from now on."""
        self.connection.execute(self._delete().where(connectors.c.project_id == serving.project_id))
        self._add([{name: getattr(serving, name) for name in Serving.__slots__} | {"expires_at": _until()}])

    def renew(self, project_id: int, line_id: str) -> bool:
        """Say that a line is still open; return whether it is still the one."""
        mine = connectors.c.project_id == project_id, connectors.c.line_id == line_id
        return bool(self.connection.execute(self._update({"expires_at": _until()}).where(*mine)).rowcount)

    def remove(self, project_id: int, line_id: str) -> bool:
        """Forget a line; return whether it was still the one."""
        mine = connectors.c.project_id == project_id, connectors.c.line_id == line_id
        return bool(self.connection.execute(self._delete().where(*mine)).rowcount)


def begin_serving(
    connection: Connection, tenant: Tenant, hello: Hello, line_id: str, process_id: str
) -> tuple[Serving, Serving | None]:
    """Let a connector serve its project; answer it and the one that it takes over from.

    Raise OtherConnector if another serves it and is not to be taken over from.
    """
    ProjectRepository(connection, tenant).lock(hello.project_id)
    connectors_of_user = ConnectorRepository(connection, tenant)
    before = connectors_of_user.get(hello.project_id)
    if before is not None and before.connector_id != hello.connector_id and not hello.take_over:
        raise OtherConnector(
            f"Another connector serves this project ({before.workspace_name}). Stop it, or use --take-over."
        )
    serving = Serving(
        project_id=hello.project_id,
        connector_id=hello.connector_id,
        line_id=line_id,
        process_id=process_id,
        workspace_name=hello.workspace_name,
        read_only=hello.read_only,
        mode=hello.mode,
        commands=hello.commands,
        features=hello.features,
        since=datetime.now(UTC),
    )
    connectors_of_user.put(serving)
    return serving, before


def keep_serving(connection: Connection, tenant: Tenant, project_id: int, line_id: str) -> bool:
    """Renew a line; return whether it is still the one that serves the project. Raise if there is no such project."""
    is_kept = ConnectorRepository(connection, tenant).renew(project_id, line_id)
    if not is_kept:
        ProjectRepository(connection, tenant).get(project_id)
    return is_kept


def end_serving(connection: Connection, tenant: Tenant, project_id: int, line_id: str) -> bool:
    """End a line; return whether it was still the one that served the project."""
    return ConnectorRepository(connection, tenant).remove(project_id, line_id)


def who_serves(connection: Connection, tenant: Tenant, project_id: int) -> Serving | None:
    """Return who serves a project; raise if there is no such project."""
    ProjectRepository(connection, tenant).get(project_id)
    return ConnectorRepository(connection, tenant).get(project_id)


def _until() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=DEAD_SECONDS)


def _serving(row: Row[Any]) -> Serving:
    return Serving(**{name: getattr(row, name) for name in Serving.__slots__})
