"""Writes events to a session; the writer locks the session's row and takes the next event numbers."""

from collections.abc import Sequence

from sqlalchemy import Connection

from artel.contract.events import EventData, StoredEvent
from artel.db.tenant import Tenant
from artel.events.event_repository import EventRepository
from artel.sessions.repository import SessionRepository


class SessionLog:
    """A transaction's exclusive right to write to a session until the commit; keeps event numbers without gaps."""

    def __init__(self, connection: Connection, tenant: Tenant, session_id: str, events: int) -> None:
        """Lock the session and take numbers for exactly as many events as `write` will get."""
        self._sessions = SessionRepository(connection, tenant)
        self._events = EventRepository(connection, tenant)
        self._session_id = session_id
        self.project_id, last = self._sessions.take_numbers(session_id, events)
        self.first = last - events + 1
        self._expected = events

    def expect(self, events: int) -> None:
        """Take more numbers; call it before `write`."""
        _, last = self._sessions.take_numbers(self._session_id, events)
        self._expected += events
        self.first = last - self._expected + 1

    def write(self, turn_id: str | None, *happened: EventData) -> None:
        """Add the events."""
        if len(happened) != self._expected:
            raise ValueError(f"{len(happened)} events for {self._expected} numbers")
        self._events.add(self.project_id, self._session_id, self.first, turn_id, happened)


def read_events(
    connection: Connection, tenant: Tenant, session_id: str, after: int, limit: int
) -> Sequence[StoredEvent]:
    """Return the next events of a session or raise SessionNotFound."""
    SessionRepository(connection, tenant).get(session_id)
    return EventRepository(connection, tenant).after(session_id, after, limit)
