"""Writes events to a session; the writer locks the session's row and takes the next event numbers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Select, bindparam

from artel.contract.events import EventData, StoredEvent
from artel.db.hints import SessionHasEvents, SessionListChanged
from artel.db.lease import LeaseLost
from artel.db.tables import events
from artel.db.tenant import Tenant, TenantRepository, prepared
from artel.db.tx import Tx
from artel.sessions.repository import SessionRepository, TurnEffect

MAX_PAGE = 500


def event_rows(ids: Mapping[str, Any], first: int, happened: Iterable[EventData]) -> list[dict[str, Any]]:
    """Return the rows of events, numbered from `first` on."""
    now = datetime.now(UTC)
    return [
        {**ids, "created_at": now, "number": number, "type": event.type, "data": event.model_dump(mode="json")}
        for number, event in enumerate(happened, first)
    ]


class EventRepository(TenantRepository):
    """Events of one user's sessions."""

    table = events

    @prepared
    def _after(cls) -> Select[Any]:  # noqa: N805
        # With the project, because the primary key begins with it.
        in_session = events.c.project_id == bindparam("project"), events.c.session_id == bindparam("session")
        return (
            cls._prepare_select()
            .where(*in_session, events.c.number > bindparam("number_before"))
            .order_by(events.c.number)
            .limit(bindparam("most"))
        )

    def add(
        self, project_id: int, session_id: str, first: int, turn_id: str | None, happened: Sequence[EventData]
    ) -> None:
        ids = {"project_id": project_id, "session_id": session_id, "turn_id": turn_id}
        self._add(event_rows(ids, first, happened))

    def after(self, project_id: int, session_id: str, number: int, limit: int = MAX_PAGE) -> list[StoredEvent]:
        of_session = {"project": project_id, "session": session_id}
        rows = self._run(self._after, **of_session, number_before=number, most=min(limit, MAX_PAGE))
        return [
            StoredEvent(
                number=row.number,
                type=row.type,
                session_id=row.session_id,
                turn_id=row.turn_id,
                timestamp=row.created_at,
                data=row.data,
            )
            for row in rows
        ]


class SessionLog:
    """A transaction's exclusive right to write to a session until the commit; keeps event numbers without gaps.

    The readers of the session are notified after the commit.
    """

    def __init__(
        self, tx: Tx, session_id: str, count: int = 0, ended: TurnEffect | None = None, *, wait: bool = True
    ) -> None:
        """Lock the session and take `count` numbers; `write` gets at least so many events.

        `ended` is the effect of a turn that ends in this transaction. If it does not `wait`, reading `session` does:
        statements that are run before share a round trip.
        """
        self._tx = tx
        self.session_id = session_id
        self._take = SessionRepository(tx).take_numbers(session_id, count, ended)
        self._taken = count
        # Even if nothing is written now: an earlier attempt may have been committed without its caller knowing.
        tx.after_commit(SessionHasEvents(session_id))
        if wait:
            _ = self.session

    @cached_property
    def session(self) -> Any:
        """The session's row; reading it raises SessionNotFound or LeaseLost."""
        row = self._take()
        if self._tx.lease is not None and self._tx.lease.project_id != row.project_id:
            raise LeaseLost
        return row

    @property
    def project_id(self) -> int:
        project_id: int = self.session.project_id
        return project_id

    @cached_property
    def first(self) -> int:
        """The number of the next event."""
        last: int = self.session.last_event
        return last - self._taken + 1

    def note_state(self) -> None:
        """Announce after the commit that lists of sessions show something else of this one."""
        self._tx.after_commit(SessionListChanged(self._tx.principal.user_id, self.project_id, self.session_id))

    def write(self, turn_id: str | None, *happened: EventData) -> None:
        """Add the events, all at once."""
        if len(happened) < self._taken:
            raise ValueError(f"{len(happened)} events for {self._taken} numbers")
        first = self.first
        if len(happened) > self._taken:
            SessionRepository(self._tx).take_numbers(self.session_id, len(happened) - self._taken)
        EventRepository(self._tx).add(self.project_id, self.session_id, first, turn_id, happened)


def read_events(
    connection: Connection, tenant: Tenant, session_id: str, after: int, limit: int
) -> Sequence[StoredEvent]:
    """Return the next events of a session or raise SessionNotFound."""
    session = SessionRepository(connection, tenant).get(session_id)
    return EventRepository(connection, tenant).after(session.project_id, session_id, after, limit)
