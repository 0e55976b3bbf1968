"""Calls to connectors that are connected to another process."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, select, type_coerce

from artel.db.tables import relay_calls
from artel.remote_calls import CallRepository, NewCall, database_time

MAX_CALLS = 100


@dataclass(frozen=True, slots=True)
class NewRelayCall(NewCall):
    """A call to be stored for the process that holds the connection."""

    process_id: str
    method: str
    params: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class RelayCall:
    """A call, stored for the process that holds the connection."""

    id: str
    user_id: int
    project_id: int
    method: str
    params: dict[str, Any]
    expires_at: datetime
    read_at: datetime


class RelayCallRepository(CallRepository):
    """Calls to connectors of one user."""

    table = relay_calls


def find_calls(connection: Connection, process_id: str) -> list[RelayCall]:
    """Return the unsent calls to all connectors, of any user, that are connected to a process."""
    columns, now = relay_calls.c, database_time(connection)
    is_new = columns.process_id == process_id, columns.answer.is_(None), columns.expires_at > now
    stored = columns.id, columns.user_id, columns.project_id, columns.method, columns.params, columns.expires_at
    statement = select(*stored, type_coerce(now, columns.expires_at.type)).where(*is_new).limit(MAX_CALLS)
    return [RelayCall(*row) for row in connection.execute(statement)]
