"""Operations on sessions; each function is one transaction."""

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.contract.http import NewSession, Page, Session, SessionChanges
from artel.errors import LimitReached
from artel.projects.repository import ProjectRepository
from artel.projects.transactions import ProjectRules, ensure_default_project
from artel.sessions.repository import SessionRepository

DEFAULT_TITLE = "New session"
MAX_SESSIONS = 100_000


def create_session(
    connection: Connection, principal: Principal, session_id: str, new: NewSession, rules: ProjectRules
) -> Session:
    """Create a session; the caller makes the id, so that a retried transaction creates the same session."""
    projects, sessions = ProjectRepository(connection, principal), SessionRepository(connection, principal)
    if "project_id" in new.model_fields_set:
        project = projects.get(new.project_id)
    else:
        project = ensure_default_project(connection, principal, rules)
    projects.lock(project.id)
    if sessions.count() >= MAX_SESSIONS:
        raise LimitReached(f"You can have at most {MAX_SESSIONS} sessions. Delete some first.")
    return sessions.add(session_id, project.id, new.title if "title" in new.model_fields_set else DEFAULT_TITLE)


def list_sessions(
    connection: Connection, principal: Principal, project_id: int | None, limit: int, offset: int
) -> Page[Session]:
    """Return a page of the user's sessions, of all projects or one."""
    sessions = SessionRepository(connection, principal)
    if project_id is None:
        total = sessions.count()
    else:
        ProjectRepository(connection, principal).get(project_id)
        total = sessions.count_of(project_id)
    return Page(items=sessions.page(limit, offset, project_id), total=total, limit=limit, offset=offset)


def update_session(connection: Connection, principal: Principal, session_id: str, changes: SessionChanges) -> Session:
    """Change a session."""
    sessions = SessionRepository(connection, principal)
    if changes.model_fields_set:
        sessions.rename(session_id, changes.title)
    return sessions.get(session_id)


def delete_session(connection: Connection, principal: Principal, session_id: str) -> None:
    """Delete a session and its messages."""
    SessionRepository(connection, principal).remove(session_id)
