"""Rows of messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row

from artel.db.tables import messages
from artel.db.tenant import TenantRepository


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a session's history."""

    id: str
    number: int
    turn_id: str | None
    role: str
    content: str
    agent_id: int | None
    agent: str | None
    status: str
    tokens: int
    created_at: datetime


class MessageRepository(TenantRepository):
    """Messages of one user's sessions."""

    table = messages

    def add(self, values: Mapping[str, Any]) -> StoredMessage:
        """Add a message."""
        [row] = self._insert([{"status": "ok", "created_at": datetime.now(UTC), **values}])
        return _message(row)

    def count(self, session_id: str, role: str | None = None) -> int:
        """Answer how many messages the session has."""
        return self._count(*_asked(session_id, role))

    def page(self, session_id: str, role: str | None, limit: int, offset: int) -> list[StoredMessage]:
        """Answer some messages, oldest first."""
        rows = self.connection.execute(
            self._select().where(*_asked(session_id, role)).order_by(messages.c.number).limit(limit).offset(offset)
        )
        return [_message(row) for row in rows]

    def newest(self, session_id: str, limit: int, role: str | None = None) -> list[StoredMessage]:
        """Answer the newest messages, oldest of them first."""
        rows = self.connection.execute(
            self._select().where(*_asked(session_id, role)).order_by(messages.c.number.desc()).limit(limit)
        )
        return [_message(row) for row in rows][::-1]


def _asked(session_id: str, role: str | None) -> tuple[ColumnElement[bool], ...]:
    in_session = messages.c.session_id == session_id
    return (in_session,) if role is None else (in_session, messages.c.role == role)


def _message(row: Row[Any]) -> StoredMessage:
    return StoredMessage(
        row.id,
        row.number,
        row.turn_id,
        row.role,
        row.content,
        row.agent_id,
        row.agent,
        row.status,
        row.tokens,
        row.created_at,
    )
