"""Calls to connectors that are connected to another process."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from artel.db.tables import relay_calls
from artel.remote_calls import CallRepository, database_time

MAX_CALLS = 100


@dataclass(frozen=True, slots=True)
class RelayCall:
    """A call, stored for the process that holds the connection."""

    id: str
    user_id: int
    project_id: int
    method: str
    params: dict[str, Any]
    expires_at: datetime


class RelayCallRepository(CallRepository):
    """Calls to connectors of one user."""

    table = relay_calls


def find_calls(connection: Connection, process_id: str) -> list[RelayCall]:
    """Return the unsent calls to all connectors, of any user, that are connected to a process."""
    columns = relay_calls.c
    is_new = columns.process_id == process_id, columns.answer.is_(None), columns.expires_at > database_time(connection)
    fields = (columns[name] for name in RelayCall.__slots__)
    return [RelayCall(*row) for row in connection.execute(select(*fields).where(*is_new).limit(MAX_CALLS))]
