"""Rows of sessions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Update, bindparam, case, func, or_
from sqlalchemy.sql.dml import ReturningUpdate

from artel.contract.http import PageRequest
from artel.db.rows import Later
from artel.db.tables import sessions
from artel.db.tenant import TenantRepository, prepared
from artel.errors import SessionNotFound

_NEWEST = sessions.c.updated_at.desc(), sessions.c.id.desc()
# Sources of a title: the user, the first message until a model has made one, a model.
BY_USER, BY_WORDS, BY_MODEL = "user", "words", "auto"


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session, as it is stored."""

    id: str
    project_id: int
    title: str
    title_source: str
    pinned: bool
    archived: bool
    recipient_id: int | None  # the agent that the last message was sent to
    plan_mode: str  # auto, ask or never
    failed: bool  # whether the turn that ended last has failed
    cost_micros: int
    price_unknown: bool
    last_event: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TurnEffect:
    """What the end of a turn changes of its session."""

    failed: bool
    cost_micros: int = 0
    price_unknown: bool = False


_columns = attrgetter(*StoredSession.__slots__)
_TAKEN = sessions.c.project_id, sessions.c.last_event, sessions.c.recipient_id, sessions.c.title_source


class SessionRepository(TenantRepository):
    """Sessions of one user."""

    table = sessions

    @prepared
    def _take_numbers(cls) -> ReturningUpdate[Any]:  # noqa: N805
        return (
            cls._prepare_update(last_event=sessions.c.last_event + bindparam("count"), updated_at=bindparam("now"))
            .where(sessions.c.id == bindparam("session"))
            .returning(*_TAKEN)
        )

    @prepared
    def _end_turn(cls) -> ReturningUpdate[Any]:  # noqa: N805
        return (
            cls._prepare_update(
                last_event=sessions.c.last_event + bindparam("count"),
                updated_at=bindparam("now"),
                failed=bindparam("is_failed"),
                cost_micros=sessions.c.cost_micros + bindparam("micros"),
                price_unknown=or_(
                    sessions.c.price_unknown, bindparam("is_unknown", type_=sessions.c.price_unknown.type)
                ),
            )
            .where(sessions.c.id == bindparam("session"))
            .returning(*_TAKEN)
        )

    @prepared
    def _begin(cls) -> Update:  # noqa: N805
        is_unnamed = (sessions.c.title == bindparam("instead_of")) & (sessions.c.title_source != BY_USER)
        title = case((is_unnamed, bindparam("words")), else_=sessions.c.title)
        return cls._prepare_update(title=title, recipient_id=bindparam("recipient")).where(
            sessions.c.id == bindparam("session")
        )

    @prepared
    def _address(cls) -> Update:  # noqa: N805
        return cls._prepare_update(recipient_id=bindparam("recipient")).where(sessions.c.id == bindparam("session"))

    @prepared
    def _total(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(func.count())

    @prepared
    def _by_id(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(sessions.c.id == bindparam("session"))

    def add(self, session_id: str, project_id: int, title: str, source: str, plan_mode: str) -> StoredSession:
        """Add a session."""
        now = datetime.now(UTC)
        added = StoredSession(
            session_id,
            project_id,
            title,
            source,
            pinned=False,
            archived=False,
            recipient_id=None,
            plan_mode=plan_mode,
            failed=False,
            cost_micros=0,
            price_unknown=False,
            last_event=0,
            created_at=now,
            updated_at=now,
        )
        self._add([{name: getattr(added, name) for name in StoredSession.__slots__}])
        return added

    def count_all(self) -> Later[int]:
        """Count the sessions of all projects."""
        rows = self._run(self._total)
        return lambda: int(rows.one()[0])

    def count(self, project_id: int | None = None, *, archived: bool | None = None) -> int:
        """Return the number of sessions of all projects or one, optionally without or only archived ones."""
        return self._count(*_in(project_id, archived))

    def page(self, paging: PageRequest, project_id: int | None, *, archived: bool) -> list[StoredSession]:
        """Return a page of sessions of all projects or one, most recently used first."""
        found = self._find(*_in(project_id, archived), order_by=_NEWEST, limit=paging.limit, offset=paging.offset)
        return [_session(row) for row in found]

    def failed(self, since: datetime, paging: PageRequest) -> tuple[list[StoredSession], int]:
        """Return a page of the sessions used since a time whose last turn failed, newest first, and their number."""
        wanted = sessions.c.failed.is_(True), sessions.c.archived.is_(False), sessions.c.updated_at > since
        found = self._find(*wanted, order_by=_NEWEST, limit=paging.limit, offset=paging.offset)
        return [_session(row) for row in found], self._count(*wanted)

    def find(self, session_id: str) -> StoredSession | None:
        row = self._run(self._by_id, session=session_id).one_or_none()
        return None if row is None else _session(row)

    def get(self, session_id: str) -> StoredSession:
        """Return the session or raise SessionNotFound."""
        session = self.find(session_id)
        if session is None:
            raise SessionNotFound("Session not found")
        return session

    def lock_shared(self, session_id: str) -> bool:
        """Lock the session against deletion until the commit; return whether it exists."""
        wanted = self._select(sessions.c.id).where(sessions.c.id == session_id)
        return self.connection.execute(wanted.with_for_update(read=True, key_share=True)).first() is not None

    def titles(self, ids: Collection[str]) -> dict[str, str]:
        """Return the titles of some sessions, keyed by id."""
        rows = self._find(sessions.c.id.in_(ids), columns=[sessions.c.id, sessions.c.title], by_key=True) if ids else []
        return {row.id: row.title for row in rows}

    def newest_titles(self, limit: int) -> list[Row[Any]]:
        """Return id, project, title and time of so many sessions, and of archived ones, most recently used first."""
        columns = [sessions.c.id, sessions.c.project_id, sessions.c.title, sessions.c.updated_at]
        rows = [
            row
            for archived in (False, True)
            for row in self._find(*_in(None, archived), columns=columns, order_by=_NEWEST, limit=limit)
        ]
        return sorted(rows, key=attrgetter("updated_at", "id"), reverse=True)

    def change(self, session_id: str, **values: Any) -> None:
        """Change columns of a session."""
        if not self._change(values, sessions.c.id == session_id):
            raise SessionNotFound("Session not found")

    def begin(self, session_id: str, words: str, instead_of: str, recipient_id: int | None) -> None:
        """Store the recipient of the first message; name the session after it if it is still called `instead_of`."""
        row = {"session": session_id, "recipient": recipient_id}
        self._run(self._begin, **row, words=words, instead_of=instead_of)

    def address(self, session_id: str, recipient_id: int | None) -> None:
        """Store the recipient of a later message."""
        self._run(self._address, session=session_id, recipient=recipient_id)

    def name_after_words(self, session_id: str, words: str) -> None:
        """Change the title of a session that is named after its first message."""
        self._change({"title": words}, sessions.c.id == session_id, sessions.c.title_source == BY_WORDS)

    def add_cost(self, session_id: str, cost_micros: int, *, price_unknown: bool) -> None:
        """Add the cost of a call outside of a turn, or after its end."""
        costs: dict[str, Any] = {"cost_micros": sessions.c.cost_micros + cost_micros}
        self._change(costs | ({"price_unknown": True} if price_unknown else {}), sessions.c.id == session_id)

    def name_by_model(self, session_id: str, title: str | None) -> bool:
        """Replace the first words by a title, or keep them for good; return whether the session had no other title."""
        values = {"title_source": BY_MODEL} | ({} if title is None else {"title": title})
        return self._change(values, sessions.c.id == session_id, sessions.c.title_source == BY_WORDS)

    def take_numbers(self, session_id: str, count: int, ended: TurnEffect | None = None) -> Later[Any]:
        """Lock the session until the commit and take the next event numbers; with the effect of a turn that ends.

        The result returns a row with the project, the last number, the recipient and the source of the title.
        """
        values = {"session": session_id, "count": count, "now": datetime.now(UTC)}
        if ended is None:
            rows = self._run(self._take_numbers, **values)
        else:
            cost = {"micros": ended.cost_micros, "is_unknown": ended.price_unknown}
            rows = self._run(self._end_turn, **values, **cost, is_failed=ended.failed)

        def taken() -> Any:
            if (row := rows.one_or_none()) is None:
                raise SessionNotFound("Session not found")
            return row

        return taken

    def remove(self, session_id: str) -> None:
        """Remove a session and its messages."""
        if not self._remove(sessions.c.id == session_id):
            raise SessionNotFound("Session not found")


def _in(project_id: int | None, archived: bool | None) -> Sequence[ColumnElement[bool]]:
    wanted = (sessions.c.project_id, project_id), (sessions.c.archived, archived)
    return [column == value for column, value in wanted if value is not None]


def _session(row: Row[Any]) -> StoredSession:
    return StoredSession(*_columns(row))
