"""Rows of connectors: which connector serves a project, and which process holds its connection."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, bindparam

from artel.contract.connector import DEAD_SECONDS, Hello
from artel.db.tables import connectors
from artel.db.tenant import Tenant, TenantRepository, prepared
from artel.db.tx import Tx
from artel.errors import OtherConnector
from artel.projects.repository import ProjectRepository

READ_ONLY = "read-only"


@dataclass(frozen=True, slots=True)
class OnlineConnector:
    """A connector that is online, and the process that holds its connection."""

    project_id: int
    connector_id: str
    line_id: str  # the connection's id
    process_id: str
    workspace_name: str
    read_only: bool
    mode: str
    commands: dict[str, str]
    features: list[str]
    since: datetime
    machine: str | None = None


class ConnectorRepository(TenantRepository):
    """Connectors of one user's projects."""

    table = connectors

    @prepared
    def _online(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(
            connectors.c.project_id == bindparam("project"), connectors.c.expires_at > bindparam("now")
        )

    def get(self, project_id: int) -> OnlineConnector | None:
        """Return the connector that serves a project now."""
        row = self._run(self._online, project=project_id, now=datetime.now(UTC)).one_or_none()
        return OnlineConnector(**{name: getattr(row, name) for name in OnlineConnector.__slots__}) if row else None

    def put(self, connector: OnlineConnector) -> None:
        """Replace the connector that serves a project."""
        self.connection.execute(self._delete().where(connectors.c.project_id == connector.project_id))
        values = {name: getattr(connector, name) for name in OnlineConnector.__slots__}
        self._add([values | {"expires_at": _expiry()}])

    def renew(self, project_id: int, connection_id: str) -> bool:
        """Extend a connection's lease; return whether it still serves the project; raise if there is none."""
        is_current = connectors.c.project_id == project_id, connectors.c.line_id == connection_id
        is_renewed = self.connection.execute(self._update({"expires_at": _expiry()}).where(*is_current)).rowcount
        if not is_renewed:
            ProjectRepository(self.connection, self.tenant).get(project_id)
        return bool(is_renewed)

    def set_mode(self, connector: OnlineConnector, mode: str) -> bool:
        """Store the mode that a connector has now; return whether it still serves the project."""
        is_current = connectors.c.project_id == connector.project_id, connectors.c.line_id == connector.line_id
        return self._change({"mode": mode, "read_only": mode == READ_ONLY}, *is_current)

    def remove(self, project_id: int, connection_id: str) -> bool:
        """Delete a connection's row; return whether it still served the project."""
        is_current = connectors.c.project_id == project_id, connectors.c.line_id == connection_id
        return bool(self.connection.execute(self._delete().where(*is_current)).rowcount)


def register_connector(tx: Tx, hello: Hello, connection_id: str, process_id: str) -> OnlineConnector | None:
    """Register a connector for its project; return the connector that served the project before.

    Raise OtherConnector if another connector is online and `take_over` is not set.
    """
    ProjectRepository(tx).lock(hello.project_id)
    connectors_of_user = ConnectorRepository(tx)
    before = connectors_of_user.get(hello.project_id)
    if before is not None and before.connector_id != hello.connector_id and not hello.take_over:
        raise OtherConnector(
            f"Another connector serves this project ({before.workspace_name}). Stop it, or use --take-over."
        )
    greeting = {name: getattr(hello, name) for name in OnlineConnector.__slots__ if name in Hello.model_fields}
    connectors_of_user.put(
        OnlineConnector(**greeting, line_id=connection_id, process_id=process_id, since=datetime.now(UTC))
    )
    return before


def find_connector(connection: Connection, tenant: Tenant, project_id: int) -> OnlineConnector | None:
    """Return the connector that serves a project now; raise ProjectNotFound if there is no such project."""
    ProjectRepository(connection, tenant).get(project_id)
    return ConnectorRepository(connection, tenant).get(project_id)


def _expiry() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=DEAD_SECONDS)
