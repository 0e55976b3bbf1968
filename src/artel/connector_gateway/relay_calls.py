"""Calls to connectors whose line another process holds: questions and answers are rows."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, select

from artel.db.tables import relay_calls
from artel.db.tenant import Tenant, TenantRepository

MAX_CALLS = 100
SENT = "sent"  # in place of an answer: the call has left, and the answer is still to come


@dataclass(frozen=True, slots=True)
class RelayCall:
    """One call."""

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
        """Ask."""
        asked = {"id": call.id, "project_id": call.project_id, "method": call.method, "params": call.params}
        self._add([asked | {"process_id": process_id, "answer": None, "expires_at": call.expires_at}])

    def take(self, call_id: str) -> bool:
        """Note that a call is sent now; say whether somebody waits for it and nobody else has sent it."""
        waits = relay_calls.c.id == call_id, relay_calls.c.answer.is_(None)
        return bool(self.connection.execute(self._update({"answer": {SENT: True}}).where(*waits)).rowcount)

    def answer(self, call_id: str, answer: dict[str, Any]) -> bool:
        """Write the answer beside the question; say whether it is still there."""
        return bool(
            self.connection.execute(self._update({"answer": answer}).where(relay_calls.c.id == call_id)).rowcount
        )

    def take_answer(self, call_id: str) -> dict[str, Any] | None:
        """Return what was answered, if anything."""
        asked = self._select(relay_calls.c.answer).where(relay_calls.c.id == call_id)
        answer: dict[str, Any] | None = self.connection.execute(asked).scalar_one_or_none()
        return None if answer is None or SENT in answer else answer

    def withdraw(self, call_id: str) -> bool:
        """Forget a call that was not sent; say whether that is so."""
        waits = relay_calls.c.id == call_id, relay_calls.c.answer.is_(None)
        return bool(self.connection.execute(self._delete().where(*waits)).rowcount)

    def remove(self, call_id: str) -> None:
        """Forget a call."""
        self.connection.execute(self._delete().where(relay_calls.c.id == call_id))


def ask(connection: Connection, tenant: Tenant, process_id: str, call: RelayCall) -> None:
    """Ask the process that holds the line."""
    RelayCallRepository(connection, tenant).add(process_id, call)


def take_call(connection: Connection, tenant: Tenant, call_id: str) -> bool:
    """Take a call to send it, once; say whether somebody still waits for it."""
    return RelayCallRepository(connection, tenant).take(call_id)


def withdraw_call(connection: Connection, tenant: Tenant, call_id: str) -> bool:
    """Take back a call that was not sent; say whether that is so. If not it may have been done."""
    return RelayCallRepository(connection, tenant).withdraw(call_id)


def answer_call(connection: Connection, tenant: Tenant, call_id: str, answer: dict[str, Any]) -> bool:
    """Write the answer to a call; say whether anybody still waits for it."""
    return RelayCallRepository(connection, tenant).answer(call_id, answer)


def take_answer(connection: Connection, tenant: Tenant, call_id: str) -> dict[str, Any] | None:
    """Return what was answered so far."""
    return RelayCallRepository(connection, tenant).take_answer(call_id)


def forget_call(connection: Connection, tenant: Tenant, call_id: str) -> None:
    """Forget a call."""
    RelayCallRepository(connection, tenant).remove(call_id)


def find_calls(connection: Connection, process_id: str) -> list[RelayCall]:
    """Return what is asked of lines that a process holds, whosever they are."""
    asked = (
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
        for row in connection.execute(asked)
    ]


def forget_old_calls(connection: Connection) -> None:
    """Forget calls that nobody waits for any more."""
    connection.execute(delete(relay_calls).where(relay_calls.c.expires_at < datetime.now(UTC) - timedelta(minutes=1)))
