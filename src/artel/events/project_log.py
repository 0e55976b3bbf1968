"""Event stream of a project, across its sessions."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam
from sqlalchemy.sql.dml import ReturningUpdate

from artel.contract.events import EventData, StoredEvent
from artel.db.hints import ProjectChanged
from artel.db.tables import project_events, projects
from artel.db.tenant import Tenant, TenantRepository, prepared
from artel.db.tx import Tx
from artel.errors import ProjectNotFound
from artel.events.session_log import event_rows

MAX_EVENTS = 10_000  # per project; older ones are deleted in batches of `TRIM_EVERY`
TRIM_EVERY = 1_000
MAX_PAGE = 500


class ProjectNumberRepository(TenantRepository):
    """Event numbers of one user's projects."""

    table = projects

    @prepared
    def _take(cls) -> ReturningUpdate[Any]:  # noqa: N805
        return (
            cls._prepare_update(last_event=projects.c.last_event + bindparam("count"))
            .where(projects.c.id == bindparam("project"))
            .returning(projects.c.last_event)
        )

    def take(self, project_id: int, count: int) -> int:
        """Lock the project until the commit and take the next event numbers; return the last."""
        last: int | None = self._run(self._take, project=project_id, count=count).scalar_one_or_none()
        if last is None:
            raise ProjectNotFound("Project not found")
        return last

    def last(self, project_id: int) -> int:
        statement = self._select(projects.c.last_event).where(projects.c.id == project_id)
        last: int | None = self.connection.execute(statement).scalar_one_or_none()
        if last is None:
            raise ProjectNotFound("Project not found")
        return last


class ProjectEventRepository(TenantRepository):
    """Events of one user's projects."""

    table = project_events

    def add(self, project_id: int, first: int, happened: Sequence[EventData]) -> None:
        self._add(event_rows({"project_id": project_id}, first, happened))

    def after(self, project_id: int, number: int, limit: int) -> list[StoredEvent]:
        later = project_events.c.project_id == project_id, project_events.c.number > number
        rows = self._find(*later, order_by=[project_events.c.number], limit=min(limit, MAX_PAGE))
        return [
            StoredEvent(
                number=row.number,
                type=row.type,
                project_id=row.project_id,
                timestamp=row.created_at,
                data=row.data,
            )
            for row in rows
        ]

    def trim(self, project_id: int, last: int) -> None:
        """Delete the events above the maximum."""
        old = project_events.c.project_id == project_id, project_events.c.number <= last - MAX_EVENTS
        self.connection.execute(self._delete().where(*old))


def write_project_events(tx: Tx, project_id: int, happened: Sequence[EventData]) -> None:
    """Add events to the stream of a project."""
    last = ProjectNumberRepository(tx).take(project_id, len(happened))
    rows = ProjectEventRepository(tx)
    rows.add(project_id, last - len(happened) + 1, happened)
    if last // TRIM_EVERY != (last - len(happened)) // TRIM_EVERY:
        rows.trim(project_id, last)
    tx.after_commit(ProjectChanged(project_id))


def read_project_events(
    connection: Connection, tenant: Tenant, key: str, after: int, limit: int
) -> Sequence[StoredEvent]:
    """Return the next events of the project with the id `key`, or raise ProjectNotFound."""
    ProjectNumberRepository(connection, tenant).last(int(key))
    return ProjectEventRepository(connection, tenant).after(int(key), after, limit)


def last_project_event(connection: Connection, tenant: Tenant, project_id: int) -> int:
    return ProjectNumberRepository(connection, tenant).last(project_id)
