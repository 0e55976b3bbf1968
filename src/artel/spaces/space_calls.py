"""What processes ask of the one that runs a worker space: questions and answers are rows."""

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
    """One question."""

    id: str
    user_id: int
    project_id: int
    operation: str
    agent_id: int | None


class SpaceCallRepository(TenantRepository):
    """Questions to the worker spaces of one user."""

    table = space_calls

    def add(self, call: SpaceCall, seconds: float) -> None:
        """Ask."""
        until = func.now() + timedelta(seconds=seconds)
        asked = {"id": call.id, "project_id": call.project_id, "operation": call.operation, "agent_id": call.agent_id}
        self._insert_one(asked | {"expires_at": until})

    def answer(self, call_id: str, answer: dict[str, Any]) -> None:
        """Write the answer beside the question."""
        self.connection.execute(self._update({"answer": answer}).where(space_calls.c.id == call_id))

    def take_answer(self, call_id: str) -> dict[str, Any] | None:
        """Return what was answered, if anything."""
        asked = self._select(space_calls.c.answer).where(space_calls.c.id == call_id)
        answer: dict[str, Any] | None = self.connection.execute(asked).scalar_one_or_none()
        return answer

    def remove(self, call_id: str) -> None:
        """Forget a question."""
        self.connection.execute(self._delete().where(space_calls.c.id == call_id))


def ask(connection: Connection, principal: Principal, call: SpaceCall, seconds: float) -> None:
    """Ask the process that runs the space, whichever that is; raise if there is no such project."""
    ProjectRepository(connection, principal).get(call.project_id)
    SpaceCallRepository(connection, principal).add(call, seconds)


def answer_call(connection: Connection, principal: Principal, call_id: str, answer: dict[str, Any]) -> None:
    """Write the answer to a question."""
    SpaceCallRepository(connection, principal).answer(call_id, answer)


def take_answer(connection: Connection, principal: Principal, call_id: str) -> dict[str, Any] | None:
    """Return what was answered so far."""
    return SpaceCallRepository(connection, principal).take_answer(call_id)


def forget_call(connection: Connection, principal: Principal, call_id: str) -> None:
    """Forget a question."""
    SpaceCallRepository(connection, principal).remove(call_id)
