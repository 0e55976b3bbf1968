"""Rows of calls of tools: the audit log of a project."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row

from artel.auth.principal import Principal
from artel.contract.connector import Result
from artel.db.tables import tool_calls
from artel.db.tenant import TenantRepository
from artel.projects.project_repository import ProjectRepository

ERROR_CHARACTERS = 1_000


_STATUSES = {"asks": "asked", "unknown": "unknown", "refused": "refused"}


@dataclass(frozen=True, slots=True)
class ToolCallRow:
    """One call of a tool, as it is kept."""

    id: str
    project_id: int
    session_id: str | None
    turn_id: str | None
    agent_id: int | None
    agent: str
    tool: str
    arguments: dict[str, Any]
    level: str
    status: str
    error: str | None = None
    connector_id: str | None = None
    approval_id: str | None = None
    created_at: datetime | None = None
    finished_at: datetime | None = None


class ToolCallRepository(TenantRepository):
    """Calls of tools for one user."""

    table = tool_calls

    def add(self, call: ToolCallRow) -> None:
        """Keep a call."""
        values = {name: getattr(call, name) for name in ToolCallRow.__slots__}
        self._add([values | {"created_at": call.created_at or datetime.now(UTC)}])

    def has(self, call_id: str) -> bool:
        """Say whether a call is kept."""
        return bool(self._count(tool_calls.c.id == call_id))

    def finish(self, call_id: str, status: str, error: str | None) -> bool:
        """Say what came of a call that was sent; answer whether it is kept."""
        values = {"status": status, "error": error, "finished_at": datetime.now(UTC)}
        return bool(self.connection.execute(self._update(values).where(tool_calls.c.id == call_id)).rowcount)

    def page(self, project_id: int, limit: int, offset: int) -> list[ToolCallRow]:
        """Answer some calls, newest first."""
        asked = self._select().where(tool_calls.c.project_id == project_id)
        asked = asked.order_by(tool_calls.c.created_at.desc(), tool_calls.c.id.desc()).limit(limit).offset(offset)
        return [_call(row) for row in self.connection.execute(asked)]

    def count(self, project_id: int) -> int:
        """Answer how many calls there were."""
        return self._count(tool_calls.c.project_id == project_id)


def note_call(connection: Connection, principal: Principal, call: ToolCallRow) -> None:
    """Keep a call, once."""
    calls = ToolCallRepository(connection, principal)
    if not calls.has(call.id):
        calls.add(call)


def finish_call(connection: Connection, principal: Principal, call: ToolCallRow) -> None:
    """Say what came of a call, whether it was kept before or not."""
    calls = ToolCallRepository(connection, principal)
    if not calls.finish(call.id, call.status, call.error):
        calls.add(replace(call, finished_at=datetime.now(UTC)))


def list_calls(
    connection: Connection, principal: Principal, project_id: int, limit: int, offset: int
) -> tuple[list[ToolCallRow], int]:
    """Answer some calls of a project, newest first, and how many there are."""
    ProjectRepository(connection, principal).get(project_id)
    calls = ToolCallRepository(connection, principal)
    return calls.page(project_id, limit, offset), calls.count(project_id)


def status_of(result: Result) -> str:
    """Answer what is kept of what a connector has answered."""
    return "done" if result.success else _STATUSES.get(result.code or "", "failed")


def _call(row: Row[Any]) -> ToolCallRow:
    return ToolCallRow(**{name: getattr(row, name) for name in ToolCallRow.__slots__})
