"""Forced resets of worker spaces, recorded in the project's audit log with their initiator and result."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.db.engine import Database
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger
from artel.projects.repository import ProjectRepository
from artel.turns.tool_calls import ToolCallRow, finish_call, note_call

Initiator = Literal["user", "administrator", "system"]

log = get_logger(__name__)


async def audited_reset(
    database: Database,
    owner: Principal,
    project_id: int,
    initiator: Initiator,
    reset: Callable[[], Awaitable[object]],
    by_user_id: int | None = None,
) -> None:
    """Reset a space and record it in the project's audit log; `by_user_id` is None for the server itself."""
    call = ToolCallRow(
        id=uuid7(),
        project_id=project_id,
        session_id=None,
        turn_id=None,
        agent_id=None,
        agent=initiator,
        tool="space_reset",
        arguments={"initiator": initiator, "user_id": by_user_id},
        level="critical",
        status="sent",
    )
    await database.run(_begin, owner, call)
    log.warning("space_reset_started", project_id=project_id, initiator=initiator, by_user_id=by_user_id)
    try:
        await reset()
    except ArtelError as failure:
        await database.run(finish_call, owner, replace(call, status="failed", error=failure.detail))
        raise
    await database.run(finish_call, owner, replace(call, status="done"))


def _begin(connection: Connection, owner: Principal, call: ToolCallRow) -> None:
    ProjectRepository(connection, owner).get(call.project_id)
    note_call(connection, owner, call)
