"""Rows of sessions."""

from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Row, Select, bindparam
from sqlalchemy.sql.dml import ReturningUpdate

from artel.contract.http import Session
from artel.db.tables import sessions
from artel.db.tenant import TenantRepository, prepared
from artel.errors import SessionNotFound

_NEWEST = sessions.c.updated_at.desc(), sessions.c.id.desc()


class SessionRepository(TenantRepository):
    """Sessions of one user."""

    table = sessions

    @prepared
    def _take_numbers(cls) -> ReturningUpdate[Any]:  # noqa: N805
        return (
            cls._prepare_update(last_event=sessions.c.last_event + bindparam("count"), updated_at=bindparam("now"))
            .where(sessions.c.id == bindparam("session"))
            .returning(sessions.c.project_id, sessions.c.last_event)
        )

    @prepared
    def _by_id(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(sessions.c.id == bindparam("session"))

    def add(self, session_id: str, project_id: int, title: str) -> Session:
        """Add a session."""
        now = datetime.now(UTC)
        values = {"id": session_id, "project_id": project_id, "title": title, "last_event": 0}
        [row] = self._insert([values | {"created_at": now, "updated_at": now}])
        return _session(row)

    def count(self, project_id: int | None = None) -> int:
        """Return the number of sessions of all projects or one."""
        return self._count(*_in(project_id))

    def page(self, limit: int, offset: int, project_id: int | None = None) -> list[Session]:
        """Return a page of sessions of all projects or one, most recently used first."""
        return [_session(row) for row in self._find(*_in(project_id), order_by=_NEWEST, limit=limit, offset=offset)]

    def get(self, session_id: str) -> Session:
        """Return the session or raise SessionNotFound."""
        return _session(self._row(session_id))

    def last_event(self, session_id: str) -> int:
        """Return the number of the session's newest event."""
        return int(self._row(session_id).last_event)

    def _row(self, session_id: str) -> Row[Any]:
        row = self._run(self._by_id, session=session_id).one_or_none()
        if row is None:
            raise SessionNotFound("Session not found")
        return cast("Row[Any]", row)

    def titled(self, text: str, limit: int, offset: int) -> list[Session]:
        """Return a page of the sessions whose title contains the text, most recently used first."""
        contains = sessions.c.title.icontains(text, autoescape=True)
        return [_session(row) for row in self._find(contains, order_by=_NEWEST, limit=limit, offset=offset)]

    def count_titled(self, text: str) -> int:
        """Return the number of sessions whose title contains the text."""
        return self._count(sessions.c.title.icontains(text, autoescape=True))

    def rename(self, session_id: str, title: str) -> None:
        """Change a session's title."""
        if not self._change({"title": title, "updated_at": datetime.now(UTC)}, sessions.c.id == session_id):
            raise SessionNotFound("Session not found")

    def name_after(self, session_id: str, title: str, instead_of: str) -> None:
        """Set a session's title if it still has the title `instead_of`."""
        self._change({"title": title}, sessions.c.id == session_id, sessions.c.title == instead_of)

    def take_numbers(self, session_id: str, count: int) -> tuple[int, int]:
        """Lock the session until the commit and take the next event numbers; return project id and last number."""
        row = self._run(self._take_numbers, session=session_id, count=count, now=datetime.now(UTC)).one_or_none()
        if row is None:
            raise SessionNotFound("Session not found")
        return row.project_id, row.last_event

    def remove(self, session_id: str) -> None:
        """Remove a session and its messages."""
        if not self._remove(sessions.c.id == session_id):
            raise SessionNotFound("Session not found")


def _in(project_id: int | None) -> list[ColumnElement[bool]]:
    return [] if project_id is None else [sessions.c.project_id == project_id]


def _session(row: Row[Any]) -> Session:
    return Session.of(row, session_id=row.id)
