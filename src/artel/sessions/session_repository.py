"""Rows of sessions."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row

from artel.contract.http import Session
from artel.db.tables import sessions
from artel.db.tenant import TenantRepository
from artel.errors import SessionNotFound


class SessionRepository(TenantRepository):
    """Sessions of one user."""

    table = sessions

    def add(self, session_id: str, project_id: int, title: str) -> Session:
        """Add a session."""
        now = datetime.now(UTC)
        values = {"id": session_id, "project_id": project_id, "title": title, "last_event": 0}
        [row] = self._insert([values | {"created_at": now, "updated_at": now}])
        return _session(row)

    def count(self) -> int:
        """Answer how many sessions the user has."""
        return self._count()

    def page(self, limit: int, offset: int) -> list[Session]:
        """Answer some sessions, the one that was used last first."""
        newest = sessions.c.updated_at.desc(), sessions.c.id.desc()
        rows = self.connection.execute(self._select().order_by(*newest).limit(limit).offset(offset))
        return [_session(row) for row in rows]

    def get(self, session_id: str) -> Session:
        """Answer one session."""
        row = self.connection.execute(self._select().where(sessions.c.id == session_id)).one_or_none()
        if row is None:
            raise SessionNotFound("Session not found")
        return _session(row)

    def rename(self, session_id: str, title: str) -> None:
        """Give a session another title."""
        values = {"title": title, "updated_at": datetime.now(UTC)}
        if not self.connection.execute(self._update(values).where(sessions.c.id == session_id)).rowcount:
            raise SessionNotFound("Session not found")

    def hold(self, session_id: str) -> int:
        """Let nobody else write to the session until the commit; answer its project."""
        held = self._update({"updated_at": datetime.now(UTC)}).where(sessions.c.id == session_id)
        project_id: int | None = self.connection.execute(held.returning(sessions.c.project_id)).scalar_one_or_none()
        if project_id is None:
            raise SessionNotFound("Session not found")
        return project_id

    def advance(self, session_id: str, events: int) -> int:
        """Take the next numbers of events; answer the last of them."""
        advanced = self._update({"last_event": sessions.c.last_event + events}).where(sessions.c.id == session_id)
        last: int = self.connection.execute(advanced.returning(sessions.c.last_event)).scalar_one()
        return last

    def remove(self, session_id: str) -> None:
        """Remove a session and all that was said in it."""
        if not self.connection.execute(self._delete().where(sessions.c.id == session_id)).rowcount:
            raise SessionNotFound("Session not found")


def _session(row: Row[Any]) -> Session:
    return Session(
        session_id=row.id,
        project_id=row.project_id,
        title=row.title,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
