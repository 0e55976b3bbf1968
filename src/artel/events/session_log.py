"""Writing to a session: whoever does holds the session's row, and takes the next numbers of its events."""

from collections.abc import Sequence

from sqlalchemy import Connection

from artel.contract.events import EventData, StoredEvent
from artel.db.tenant import Tenant
from artel.events.event_repository import EventRepository
from artel.sessions.session_repository import SessionRepository


class SessionLog:
    """One transaction's hold on a session: nobody else writes to it until the commit, so numbers have no holes."""

    def __init__(self, connection: Connection, tenant: Tenant, session_id: str) -> None:
        self._sessions = SessionRepository(connection, tenant)
        self._events = EventRepository(connection, tenant)
        self._session_id = session_id
        self.project_id = self._sessions.hold(session_id)

    def write(self, turn_id: str | None, *happened: EventData) -> int:
        """Add events; answer the number of the first."""
        last = self._sessions.advance(self._session_id, len(happened))
        first = last - len(happened) + 1
        self._events.add(self.project_id, self._session_id, first, turn_id, happened)
        return first


def read_events(
    connection: Connection, tenant: Tenant, session_id: str, after: int, limit: int
) -> Sequence[StoredEvent]:
    """Answer the next events of a session; raise if there is no such session."""
    SessionRepository(connection, tenant).get(session_id)
    return EventRepository(connection, tenant).after(session_id, after, limit)
