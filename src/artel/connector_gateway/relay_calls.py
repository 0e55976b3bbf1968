"""Calls to connectors that are connected to another process: each call and its answer is a row."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, select

from artel.db.tables import relay_calls
from artel.db.tenant import Tenant, TenantRepository

MAX_CALLS = 100
SENT = "sent"  # stored as the answer while a call was sent and is not answered yet


@dataclass(frozen=True, slots=True)
class RelayCall:
    """A call, stored for the process that holds the connection."""

    id: str
    user_id: int
    project_id: int
    method: str
    params: dict[str, Any]
    expires_at: datetime


class RelayCallRepository(TenantRepository):
    """Calls to connectors of one user."""

    table = relay_calls

    def add(self, process_id: str, call: RelayCall) -> None:
        """Store a call for a process."""
        row = {"id": call.id, "project_id": call.project_id, "method": call.method, "params": call.params}
        self._add([row | {"process_id": process_id, "answer": None, "expires_at": call.expires_at}])

    def take(self, call_id: str) -> bool:
        """Mark a call as sent; return whether it was there and not sent yet."""
        is_unsent = relay_calls.c.id == call_id, relay_calls.c.answer.is_(None)
        return bool(self.connection.execute(self._update({"answer": {SENT: True}}).where(*is_unsent)).rowcount)

    def answer(self, call_id: str, answer: dict[str, Any]) -> bool:
        """Store the answer to a call; return whether the call is still there."""
        return bool(
            self.connection.execute(self._update({"answer": answer}).where(relay_calls.c.id == call_id)).rowcount
        )

    def find_answer(self, call_id: str) -> dict[str, Any] | None:
        """Return the answer to a call, if there is one yet."""
        statement = self._select(relay_calls.c.answer).where(relay_calls.c.id == call_id)
        answer: dict[str, Any] | None = self.connection.execute(statement).scalar_one_or_none()
        return None if answer is None or SENT in answer else answer

    def withdraw(self, call_id: str) -> bool:
        """Delete a call that was not sent yet; return whether there was one."""
        is_unsent = relay_calls.c.id == call_id, relay_calls.c.answer.is_(None)
        return bool(self.connection.execute(self._delete().where(*is_unsent)).rowcount)

    def remove(self, call_id: str) -> None:
        """Delete a call."""
        self.connection.execute(self._delete().where(relay_calls.c.id == call_id))


def add_call(connection: Connection, tenant: Tenant, process_id: str, call: RelayCall) -> None:
    """Store a call for the process that holds the connector's connection."""
    RelayCallRepository(connection, tenant).add(process_id, call)


def take_call(connection: Connection, tenant: Tenant, call_id: str) -> bool:
    """Mark a call as sent; return whether it was there and not sent yet."""
    return RelayCallRepository(connection, tenant).take(call_id)


def withdraw_call(connection: Connection, tenant: Tenant, call_id: str) -> bool:
    """Delete a call that was not sent yet; return whether there was one. If not, it may have been done."""
    return RelayCallRepository(connection, tenant).withdraw(call_id)


def answer_call(connection: Connection, tenant: Tenant, call_id: str, answer: dict[str, Any]) -> bool:
    """Store the answer to a call; return whether its caller still waits."""
    return RelayCallRepository(connection, tenant).answer(call_id, answer)


def find_answer(connection: Connection, tenant: Tenant, call_id: str) -> dict[str, Any] | None:
    """Return the answer to a call, if there is one yet."""
    return RelayCallRepository(connection, tenant).find_answer(call_id)


def delete_call(connection: Connection, tenant: Tenant, call_id: str) -> None:
    """Delete a call."""
    RelayCallRepository(connection, tenant).remove(call_id)


def find_calls(connection: Connection, process_id: str) -> list[RelayCall]:
    """Return the unsent calls to all connectors, of any user, that are connected to a process."""
    statement = (
        select(relay_calls)
        .where(
            relay_calls.c.process_id == process_id,
            relay_calls.c.answer.is_(None),
            relay_calls.c.expires_at > datetime.now(UTC),
        )
        .limit(MAX_CALLS)
    )
    return [
        RelayCall(row.id, row.user_id, row.project_id, row.method, row.params, row.expires_at)
        for row in connection.execute(statement)
    ]


def delete_old_calls(connection: Connection) -> None:
    """Delete calls that expired more than a minute ago."""
    connection.execute(delete(relay_calls).where(relay_calls.c.expires_at < datetime.now(UTC) - timedelta(minutes=1)))
