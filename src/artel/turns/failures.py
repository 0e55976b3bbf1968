"""What failed while nobody looked: sessions whose last turn failed, of all projects of a user."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.contract.chat import Failure
from artel.contract.http import Page, PageRequest
from artel.projects.repository import ProjectRepository
from artel.sessions.repository import SessionRepository
from artel.text import shorten
from artel.turns.repository import TurnRepository

ERROR_CHARACTERS = 500


def list_failures(connection: Connection, principal: Principal, days: int, paging: PageRequest) -> Page[Failure]:
    """Return a page of the turns that failed last in their sessions, newest first; without archived sessions."""
    since = datetime.now(UTC) - timedelta(days=days)
    sessions, total = SessionRepository(connection, principal).failed(since, paging)
    project_ids = {session.project_id for session in sessions}
    turns = TurnRepository(connection, principal).last_failed(project_ids, [session.id for session in sessions])
    projects = ProjectRepository(connection, principal).names(project_ids)
    agent_ids = {turn.agent_id for turn in turns.values() if turn.agent_id is not None}
    agents = AgentRepository(connection, principal).names_of(agent_ids)
    items = [
        Failure(
            turn_id=turn.id,
            session_id=session.id,
            session_title=session.title,
            project_id=session.project_id,
            project_name=projects.get(session.project_id),
            agent=agents.get(turn.agent_id or 0),
            status=turn.status,
            error_code=turn.error_code,
            error=turn.error and shorten(turn.error, ERROR_CHARACTERS),
            failed_at=turn.finished_at or session.updated_at,
        )
        for session in sessions
        if (turn := turns.get(session.id)) is not None
    ]
    return paging.page(items, total)
