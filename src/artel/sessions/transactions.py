"""Operations on sessions and their messages; each function is one transaction."""

from datetime import UTC, datetime

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.contract.chat import ChatMessage, SessionWithMessages
from artel.contract.http import NewSession, Page, PageRequest, Session, SessionChanges
from artel.db.hints import SessionListChanged
from artel.db.tx import Tx
from artel.errors import IdempotencyKeyReused, LimitReached
from artel.projects.repository import ProjectRepository
from artel.projects.transactions import ProjectRules, ensure_default_project
from artel.sessions.answers import shown_messages
from artel.sessions.message_repository import MessageRepository
from artel.sessions.overview import shown_new_session, shown_session, shown_sessions
from artel.sessions.repository import BY_USER, BY_WORDS, SessionRepository

DEFAULT_TITLE = "New session"
MAX_SESSIONS = 100_000
LATEST_MESSAGES = 20


def create_session(tx: Tx, session_id: str, new: NewSession, rules: ProjectRules) -> Session:
    """Create a session; the caller makes the id, so that a retried transaction creates the same session.

    Return the session that is there if the same request created it before.
    """
    projects, sessions = ProjectRepository(tx), SessionRepository(tx)
    project_id = new.project_id if "project_id" in new.model_fields_set else ensure_default_project(tx, rules).id
    lock, count = projects.lock_later(project_id), sessions.count_all()
    lock()
    if new.idempotency_key is not None and (before := sessions.find(session_id)) is not None:
        if before.project_id != project_id:
            raise IdempotencyKeyReused("This idempotency key was used for a session of another project. Use a new one.")
        return shown_session(tx.connection, tx.principal, before)
    if count() >= MAX_SESSIONS:
        raise LimitReached(f"You can have at most {MAX_SESSIONS} sessions. Delete some first.")
    named = (new.title, BY_USER) if "title" in new.model_fields_set else (DEFAULT_TITLE, BY_WORDS)
    created = sessions.add(session_id, project_id, *named, new.plan_mode)
    tx.after_commit(SessionListChanged(tx.principal.user_id, project_id, session_id))
    return shown_new_session(created)


def list_sessions(
    connection: Connection, principal: Principal, project_id: int | None, archived: bool, paging: PageRequest
) -> Page[Session]:
    """Return a page of the user's sessions, of all projects or one, without or only archived ones."""
    sessions = SessionRepository(connection, principal)
    if project_id is not None:
        ProjectRepository(connection, principal).get(project_id)
    found = sessions.page(paging, project_id, archived=archived)
    total = sessions.count(project_id, archived=archived)
    return paging.page(shown_sessions(connection, principal, found), total)


def update_session(tx: Tx, session_id: str, changes: SessionChanges) -> Session:
    """Change a session."""
    sessions = SessionRepository(tx)
    session = sessions.get(session_id)
    values = changes.model_dump(exclude_unset=True)
    if "title" in values:
        values |= {"title_source": BY_USER, "updated_at": datetime.now(UTC)}
    if "recipient" in values:
        target = values.pop("recipient")
        values["recipient_id"] = None if target is None else AgentRepository(tx).named(session_id, target)()
    if values:
        sessions.change(session_id, **values)
        tx.after_commit(SessionListChanged(tx.principal.user_id, session.project_id, session_id))
    return shown_session(tx.connection, tx.principal, sessions.get(session_id))


def get_session(connection: Connection, principal: Principal, session_id: str) -> SessionWithMessages:
    """Return one session with its latest messages."""
    session = SessionRepository(connection, principal).get(session_id)
    latest = MessageRepository(connection, principal).newest(session_id, LATEST_MESSAGES)
    shown, messages = shown_session(connection, principal, session), shown_messages(connection, principal, latest)
    return SessionWithMessages(**dict(shown), last_event=session.last_event, messages=messages)


def list_messages(
    connection: Connection,
    principal: Principal,
    session_id: str,
    role: str | None,
    paging: PageRequest,
    last: int | None = None,
) -> Page[ChatMessage]:
    """Return a page of a session's messages, oldest first; with `last` the newest ones, in order."""
    SessionRepository(connection, principal).get(session_id)
    messages = MessageRepository(connection, principal)
    total = messages.count(session_id, role)
    if last is None:
        found = messages.page(session_id, role, paging)
    else:
        found = messages.newest(session_id, last, role)
        paging = PageRequest(last, max(0, total - len(found)))
    return paging.page(shown_messages(connection, principal, found), total)


def last_event(connection: Connection, principal: Principal, session_id: str) -> int:
    """Return the number of a session's newest event."""
    return SessionRepository(connection, principal).get(session_id).last_event
