"""Remote calls to the process that runs a worker space: requests and responses are rows."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, func

from artel.auth.principal import Principal
from artel.db.tables import space_calls
from artel.db.tenant import TenantRepository
from artel.projects.repository import ProjectRepository


@dataclass(frozen=True, slots=True)
class SpaceCall:
    """One call."""

    id: str
    user_id: int
    project_id: int
    operation: str
    agent_id: int | None


class SpaceCallRepository(TenantRepository):
    """Calls to the worker spaces of one user."""

    table = space_calls

    def add(self, call: SpaceCall, seconds: float) -> None:
        """Insert a call."""
        until = func.now() + timedelta(seconds=seconds)
        asked = {"id": call.id, "project_id": call.project_id, "operation": call.operation, "agent_id": call.agent_id}
        self._insert_one(asked | {"expires_at": until})

    def answer(self, call_id: str, answer: dict[str, Any]) -> None:
        """Store the response of a call."""
        self.connection.execute(self._update({"answer": answer}).where(space_calls.c.id == call_id))

    def take_answer(self, call_id: str) -> dict[str, Any] | None:
        """Return the response, or None if there is none yet."""
        asked = self._select(space_calls.c.answer).where(space_calls.c.id == call_id)
        answer: dict[str, Any] | None = self.connection.execute(asked).scalar_one_or_none()
        return answer

    def remove(self, call_id: str) -> None:
        """Delete a call."""
        self.connection.execute(self._delete().where(space_calls.c.id == call_id))


def ask(connection: Connection, principal: Principal, call: SpaceCall, seconds: float) -> None:
    """Insert a call to the process that runs the space; raise ProjectNotFound if there is no such project."""
    ProjectRepository(connection, principal).get(call.project_id)
    SpaceCallRepository(connection, principal).add(call, seconds)


def answer_call(connection: Connection, principal: Principal, call_id: str, answer: dict[str, Any]) -> None:
    """Store the response of a call."""
    SpaceCallRepository(connection, principal).answer(call_id, answer)


def take_answer(connection: Connection, principal: Principal, call_id: str) -> dict[str, Any] | None:
    """Return the response, or None if there is none yet."""
    return SpaceCallRepository(connection, principal).take_answer(call_id)


def forget_call(connection: Connection, principal: Principal, call_id: str) -> None:
    """Delete a call."""
    SpaceCallRepository(connection, principal).remove(call_id)
