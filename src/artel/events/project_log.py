"""Event stream of a project, across its sessions, and the background writer that fills it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam
from sqlalchemy.sql.dml import ReturningUpdate

from artel.auth.principal import Principal
from artel.contract.events import (
    AgentChanged,
    AgentCreated,
    AgentDeleted,
    AgentStatusChanged,
    EventData,
    SessionChanged,
    StoredEvent,
)
from artel.db.engine import Database
from artel.db.hints import AgentListChanged, ProjectChanged
from artel.db.tables import project_events, projects
from artel.db.tenant import Tenant, TenantRepository, prepared
from artel.db.tx import Tx
from artel.errors import ArtelError, ProjectNotFound
from artel.events.session_log import event_rows
from artel.logs import get_logger

MAX_EVENTS = 10_000  # per project; older ones are deleted in batches of `TRIM_EVERY`
TRIM_EVERY = 1_000
MAX_PAGE = 500
GATHER_SECONDS = 0.05
MAX_WAITING = 10_000  # events that are not written yet
_AGENT_EVENTS = {"created": AgentCreated, "changed": AgentChanged, "deleted": AgentDeleted}

log = get_logger(__name__)


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


class ProjectEventWriter:
    """Queues events of projects and writes them in batches; losing some in a crash is harmless."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[tuple[int, int], list[EventData]] = {}  # by user and project
        self._changed: set[tuple[int, str]] = set()  # sessions whose change waits to be written: once is enough
        self._count = 0
        self._writing: asyncio.Task[None] | None = None

    def add(self, principal: Principal, project_id: int, event: EventData) -> None:
        if self._count >= MAX_WAITING:
            log.warning("project_event_dropped", type=event.type, problem="too many at once")
            return
        self._count += 1
        self._waiting.setdefault((principal.user_id, project_id), []).append(event)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def agent_changed(self, principal: Principal, project_id: int, agent_id: int, old: str, new: str) -> None:
        self.add(principal, project_id, AgentStatusChanged(agent_id=agent_id, old_status=old, new_status=new))

    def agent_list_changed(self, hint: AgentListChanged) -> None:
        """Queue that agents were created, changed or deleted."""
        for agent_id in hint.agent_ids:
            self.add(Principal(hint.user_id), hint.project_id, _AGENT_EVENTS[hint.change](agent_id=agent_id))

    def session_changed(self, principal: Principal, project_id: int, session_id: str) -> None:
        """Queue that a list shows something else of a session."""
        if (project_id, session_id) not in self._changed and self._count < MAX_WAITING:
            self._changed.add((project_id, session_id))
            self.add(principal, project_id, SessionChanged(session_id=session_id))

    async def close(self) -> None:
        """Write the queued events."""
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._waiting:
            await asyncio.sleep(GATHER_SECONDS)
            waiting, self._waiting, self._count = self._waiting, {}, 0
            self._changed.clear()
            for (user_id, project_id), events in waiting.items():
                try:
                    await self._database.of(Principal(user_id)).run(write_project_events, project_id, events)
                except ArtelError as failure:  # the project was deleted, or the database is unavailable
                    log.info("project_events_not_written", project_id=project_id, reason=failure.detail)
        self._writing = None
