"""Writes events to a session; the writer locks the session's row and takes the next event numbers."""

from collections.abc import Sequence

from sqlalchemy import Connection

from artel.contract.events import EventData, StoredEvent
from artel.db.hints import SessionChanged
from artel.db.lease import LeaseLost
from artel.db.tenant import Tenant
from artel.db.tx import Tx
from artel.events.event_repository import EventRepository
from artel.sessions.repository import SessionRepository


class SessionLog:
    """A transaction's exclusive right to write to a session until the commit; keeps event numbers without gaps.

    The readers of the session are notified after the commit.
    """

    def __init__(self, tx: Tx, session_id: str, events: int = 0) -> None:
        """Lock the session and take numbers for the events that `write` gets at least."""
        self._tx = tx
        self.session_id = session_id
        self.project_id, last = SessionRepository(tx).take_numbers(session_id, events)
        if tx.lease is not None and tx.lease.project_id != self.project_id:
            raise LeaseLost
        self.first = last - events + 1  # the number of the next event
        self._taken = events
        # Even if nothing is written now: an earlier attempt may have been committed without its caller knowing.
        tx.after_commit(SessionChanged(session_id))

    def write(self, turn_id: str | None, *happened: EventData) -> None:
        """Add the events, all at once."""
        if len(happened) < self._taken:
            raise ValueError(f"{len(happened)} events for {self._taken} numbers")
        if len(happened) > self._taken:
            SessionRepository(self._tx).take_numbers(self.session_id, len(happened) - self._taken)
        EventRepository(self._tx).add(self.project_id, self.session_id, self.first, turn_id, happened)


def read_events(
    connection: Connection, tenant: Tenant, session_id: str, after: int, limit: int
) -> Sequence[StoredEvent]:
    """Return the next events of a session or raise SessionNotFound."""
    SessionRepository(connection, tenant).get(session_id)
    return EventRepository(connection, tenant).after(session_id, after, limit)
