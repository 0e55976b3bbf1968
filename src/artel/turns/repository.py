"""Rows of turns."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Update, bindparam, func, or_, tuple_

from artel.contract.chat import ContextItem, UsageShown
from artel.contract.http import PageRequest
from artel.contract.parked_run import ParkedRun
from artel.db.rows import Later
from artel.db.tables import turns
from artel.db.tenant import TenantRepository, prepared
from artel.errors import TurnNotFound
from artel.turns.turn import Mode, Turn, TurnStatus

_NEW = ("id", "project_id", "session_id", "number", "mode", "agent_id", "status", "created_at", "retry_of", "continues")


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Numbers of unfinished turns: of a session, and of its project's turns that wait for each agent."""

    of_session: int
    queued: Mapping[int, int]


class TurnRepository(TenantRepository):
    """Turns of one user."""

    table = turns

    @prepared
    def _by_key(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(_in_session(), turns.c.idempotency_key == bindparam("key"))

    @prepared
    def _by_id(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(_in_session(), turns.c.id == bindparam("turn"))

    @prepared
    def _first_unfinished(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(_in_session(), _unfinished()).order_by(turns.c.number).limit(1)

    @prepared
    def _count_waiting(cls) -> Select[Any]:  # noqa: N805
        in_session = func.count().filter(_in_session()).label("in_session")
        queued = func.count().filter(turns.c.status == TurnStatus.QUEUED).label("queued")
        in_project = turns.c.project_id == cls._project_of_session()
        return (
            cls._prepare_select(turns.c.agent_id, in_session, queued)
            .where(in_project, _unfinished())
            .group_by(turns.c.agent_id)
        )

    @prepared
    def _answered_by(cls) -> Select[Any]:  # noqa: N805
        statuses = TurnStatus.COMPLETED, TurnStatus.FAILED, TurnStatus.TIMEOUT
        columns = turns.c.status, turns.c.usage, turns.c.started_at, turns.c.finished_at
        return (
            cls._prepare_select(*columns)
            .where(turns.c.project_id == bindparam("project"), turns.c.agent_id == bindparam("agent"))
            .where(turns.c.finished_at > bindparam("since"), or_(*(turns.c.status == status for status in statuses)))
            .order_by(turns.c.finished_at.desc())
            .limit(bindparam("most"))
        )

    @prepared
    def _lock_unfinished(cls) -> Select[Any]:  # noqa: N805
        unfinished = cls._prepare_select(turns.c.project_id).where(turns.c.id == bindparam("turn"), _unfinished())
        return unfinished.with_for_update(read=True)

    @prepared
    def _start(cls) -> Update:  # noqa: N805
        first = cls._prepare_select(turns.c.id).where(_in_session(), _unfinished()).order_by(turns.c.number).limit(1)
        return cls._prepare_update(status=TurnStatus.RUNNING, started_at=bindparam("now")).where(
            turns.c.id == bindparam("turn"),
            turns.c.status == TurnStatus.QUEUED,
            turns.c.id == first.correlate(None).scalar_subquery(),
        )

    @prepared
    def _finish(cls) -> Update:  # noqa: N805
        return cls._prepare_update(
            status=bindparam("new_status"),
            finished_at=bindparam("now"),
            usage=bindparam("new_usage", type_=turns.c.usage.type),
            context=bindparam("new_context", type_=turns.c.context.type),
            error_code=bindparam("new_error_code"),
            error=bindparam("new_error"),
            parked=None,
        ).where(_in_session(), turns.c.id == bindparam("turn"), _unfinished())

    def add(self, turn: Turn, idempotency_key: str | None, request_hash: str) -> None:
        """Insert a turn that is queued, or parked for the user."""
        values = {name: getattr(turn, name) for name in _NEW}
        parked = turn.parked.dump() if turn.parked else None
        self._add([values | {"idempotency_key": idempotency_key, "request_hash": request_hash, "parked": parked}])

    def by_key(self, session_id: str, key: str) -> tuple[Turn, str] | None:
        """Return the turn that was accepted with an idempotency key, and the hash of its request."""
        row = self._run(self._by_key, session=session_id, key=key).one_or_none()
        return (turn_of(row), row.request_hash) if row else None

    def count_unfinished(self, session_id: str) -> Later[Unfinished]:
        """Count the unfinished turns of the session, and the turns of its project that wait for each agent."""
        rows = self._run(self._count_waiting, session=session_id)

        def counted() -> Unfinished:
            in_session = sum(row.in_session for row in rows)
            return Unfinished(in_session, {row.agent_id: row.queued for row in rows if row.agent_id is not None})

        return counted

    def get(self, session_id: str, turn_id: str) -> Turn:
        row = self._run(self._by_id, session=session_id, turn=turn_id).one_or_none()
        if row is None:
            raise TurnNotFound("Turn not found")
        return turn_of(row)

    def of_project(self, project_id: int, turn_id: str) -> Turn:
        """Return one turn of the project, whatever its session."""
        row = self._find_one(turns.c.project_id == project_id, turns.c.id == turn_id)
        if row is None:
            raise TurnNotFound("Turn not found")
        return turn_of(row)

    def next(self, session_id: str) -> Turn | None:
        """Return the first unfinished turn of the session: the one that runs or runs next."""
        row = self._run(self._first_unfinished, session=session_id).one_or_none()
        return turn_of(row) if row else None

    def page(
        self, project_id: int, session_id: str, statuses: Sequence[str], paging: PageRequest
    ) -> tuple[list[Turn], int]:
        """Return a page of a session's turns with these statuses, oldest first, and their number."""
        wanted = [turns.c.project_id == project_id, turns.c.session_id == session_id, turns.c.status.in_(statuses)]
        if not any(TurnStatus(status).is_terminal for status in statuses):
            wanted.append(_unfinished())  # they have an index of their own
        rows = self._find(*wanted, order_by=[turns.c.number], limit=paging.limit, offset=paging.offset)
        return [turn_of(row) for row in rows], self._count(*wanted)

    def last_failed(self, project_ids: Collection[int], session_ids: Collection[str]) -> dict[str, Turn]:
        """Return the last turn of each session that failed or ran out of time, keyed by session."""
        wanted = (
            turns.c.project_id.in_(project_ids),
            turns.c.session_id.in_(session_ids),
            turns.c.status.in_((TurnStatus.FAILED, TurnStatus.TIMEOUT)),
        )
        last = self._select(turns.c.session_id, func.max(turns.c.number)).where(*wanted).group_by(turns.c.session_id)
        rows = self._find(*wanted, tuple_(turns.c.session_id, turns.c.number).in_(last)) if session_ids else []
        return {row.session_id: turn_of(row) for row in rows}

    def has_unfinished_after(self, session_id: str, message_id: str) -> bool:
        """Return whether an unfinished turn goes on with a cut-off message."""
        return bool(self._count(turns.c.session_id == session_id, turns.c.continues == message_id, _unfinished()))

    def unfinished(self, project_id: int) -> list[Turn]:
        """Return the unfinished turns of the project, oldest first."""
        rows = self._find(turns.c.project_id == project_id, _unfinished(), order_by=[turns.c.created_at])
        return [turn_of(row) for row in rows]

    def start(self, session_id: str, turn_id: str) -> Later[bool]:
        """Mark a turn as running; the result returns False unless it was the session's next queued turn."""
        rows = self._run(self._start, session=session_id, turn=turn_id, now=datetime.now(UTC))
        return lambda: bool(rows.rowcount)

    def park(self, session_id: str, turn_id: str, parked: ParkedRun, status: TurnStatus = TurnStatus.WAITING) -> bool:
        """Park a running turn until the user decides, or requeue it; return False if it was not running."""
        values = {"status": status, "parked": parked.dump()}
        return self._transition(values, [TurnStatus.RUNNING], session_id=session_id, id=turn_id)

    def unpark(self, session_id: str, turn_id: str) -> bool:
        """Queue a parked turn; return False if it was not parked."""
        values = {"status": TurnStatus.QUEUED}
        return self._transition(values, [TurnStatus.WAITING], session_id=session_id, id=turn_id)

    def finish(self, session_id: str, turn_id: str, status: TurnStatus, now: datetime, **values: Any) -> Later[bool]:
        """Set the terminal status; the result returns False if it was set before (the first writer wins)."""
        new = {f"new_{name}": values.get(name) for name in ("usage", "context", "error_code", "error")}
        row = {"session": session_id, "turn": turn_id}
        rows = self._run(self._finish, **row, new_status=status, now=now, **new)
        return lambda: bool(rows.rowcount)

    def note_usage(self, session_id: str, turn_id: str, usage: UsageShown) -> bool:
        """Store the usage of a turn that another process finished; return False if it was stored before."""
        ended = turns.c.session_id == session_id, turns.c.id == turn_id, turns.c.usage.is_(None)
        is_over = turns.c.finished_at.is_not(None)  # otherwise finishing it stores the usage
        return self._change({"usage": usage.model_dump()}, *ended, is_over)

    def answered_by(self, project_id: int, agent_id: int, since: datetime, most: int) -> list[Any]:
        """Return status, usage and times of the agent's last finished turns, newest first."""
        return self._run(self._answered_by, project=project_id, agent=agent_id, since=since, most=most).all()

    def lock(self, turn_id: str) -> None:
        """Lock a turn until the commit, against changes and reservations for its calls."""
        self.connection.execute(self._select(turns.c.id).where(turns.c.id == turn_id).with_for_update())

    def lock_unfinished(self, turn_id: str) -> int | None:
        """Lock an unfinished turn until the commit and return its project; None if it is finished."""
        project_id: int | None = self._run(self._lock_unfinished, turn=turn_id).scalar_one_or_none()
        return project_id


def turn_of(row: Row[Any]) -> Turn:
    values = {name: getattr(row, name) for name in Turn.__slots__}
    return Turn(
        **values
        | {
            "mode": Mode(row.mode),
            "status": TurnStatus(row.status),
            "usage": UsageShown(**row.usage) if row.usage else None,
            "context": None if row.context is None else tuple(ContextItem(**item) for item in row.context),
            "parked": ParkedRun.load(row.parked) if row.parked else None,
        }
    )


def _in_session() -> ColumnElement[bool]:
    return turns.c.session_id == bindparam("session")


def _unfinished() -> ColumnElement[bool]:
    return turns.c.finished_at.is_(None)
