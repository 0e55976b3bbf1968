"""Rows of turns."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row

from artel.db.tables import turns
from artel.db.tenant import TenantRepository
from artel.errors import TurnNotFound
from artel.turns.turn import Mode, Turn, TurnStatus


class TurnRepository(TenantRepository):
    """Turns of one user."""

    table = turns

    def add(self, values: Mapping[str, Any]) -> Turn:
        """Add a turn that waits for its start."""
        [row] = self._insert([{"status": TurnStatus.QUEUED, "created_at": datetime.now(UTC), **values}])
        return _turn(row)

    def by_key(self, session_id: str, key: str) -> tuple[Turn, str] | None:
        """Answer the turn that was accepted with an idempotency key, and the hash of its request."""
        asked = turns.c.session_id == session_id, turns.c.idempotency_key == key
        row = self.connection.execute(self._select().where(*asked)).one_or_none()
        return (_turn(row), row.request_hash) if row else None

    def count_unfinished(self, session_id: str) -> int:
        """Answer how many turns of the session are not finished."""
        return self._count(turns.c.session_id == session_id, _unfinished())

    def count_waiting_for(self, project_id: int, agent_id: int) -> int:
        """Answer how many turns wait for the agent."""
        queued = turns.c.status == TurnStatus.QUEUED
        return self._count(turns.c.project_id == project_id, turns.c.agent_id == agent_id, _unfinished(), queued)

    def get(self, session_id: str, turn_id: str) -> Turn:
        """Answer one turn of the session."""
        asked = turns.c.session_id == session_id, turns.c.id == turn_id
        row = self.connection.execute(self._select().where(*asked)).one_or_none()
        if row is None:
            raise TurnNotFound("Turn not found")
        return _turn(row)

    def next(self, session_id: str) -> Turn | None:
        """Answer the turn of the session that is to run, or is running, now."""
        row = self.connection.execute(
            self._select().where(turns.c.session_id == session_id, _unfinished()).order_by(turns.c.number).limit(1)
        ).one_or_none()
        return _turn(row) if row else None

    def start(self, turn_id: str) -> bool:
        """Mark a queued turn as running; say whether it was queued."""
        values = {"status": TurnStatus.RUNNING, "started_at": datetime.now(UTC)}
        queued = turns.c.id == turn_id, turns.c.status == TurnStatus.QUEUED
        return bool(self.connection.execute(self._update(values).where(*queued)).rowcount)

    def finish(self, turn_id: str, status: TurnStatus, **values: Any) -> bool:
        """Give a turn its terminal status; say whether it had none, because only one writer wins."""
        ended = {"status": status, "finished_at": datetime.now(UTC), **values}
        unfinished = turns.c.id == turn_id, _unfinished()
        return bool(self.connection.execute(self._update(ended).where(*unfinished)).rowcount)


def _unfinished() -> ColumnElement[bool]:
    return turns.c.finished_at.is_(None)


def _turn(row: Row[Any]) -> Turn:
    return Turn(
        id=row.id,
        session_id=row.session_id,
        project_id=row.project_id,
        number=row.number,
        mode=Mode(row.mode),
        agent_id=row.agent_id,
        status=TurnStatus(row.status),
        error_code=row.error_code,
        error=row.error,
        usage=row.usage,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
