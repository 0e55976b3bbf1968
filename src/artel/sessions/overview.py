"""Sessions as lists show them: with their recipient, state, cost and number of changed files."""

from collections.abc import Sequence

from sqlalchemy import Connection, func

from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.budgets.money import dollars
from artel.contract.http import Session
from artel.db.tables import IS_FILE_CHANGE, approvals, tool_calls, turns
from artel.db.tenant import TenantRepository
from artel.sessions.repository import BY_USER, StoredSession

PENDING = "pending"
WAITING = "waiting"


class UnfinishedTurns(TenantRepository):
    """Turns of one user that have not ended; there are few of them, and an index of their own."""

    table = turns

    def of(self, sessions: Sequence[StoredSession]) -> dict[str, list[tuple[str, str]]]:
        """Return the ids and statuses of the unfinished turns, by session."""
        in_sessions = (
            turns.c.project_id.in_({session.project_id for session in sessions}),
            turns.c.session_id.in_([session.id for session in sessions]),
            turns.c.finished_at.is_(None),
        )
        found: dict[str, list[tuple[str, str]]] = {}
        for row in self._find(*in_sessions, columns=[turns.c.session_id, turns.c.id, turns.c.status]):
            found.setdefault(row.session_id, []).append((row.id, row.status))
        return found


class PendingApprovals(TenantRepository):
    """Approvals that wait for one user; they belong to unfinished turns."""

    table = approvals

    def count(self, turn_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of pending approvals of these turns, by session."""
        pending = self._select(approvals.c.session_id, func.count(), by_key=True).group_by(approvals.c.session_id)
        rows = self.connection.execute(pending.where(approvals.c.turn_id.in_(turn_ids), approvals.c.status == PENDING))
        return {row[0]: row[1] for row in rows}


class FileChanges(TenantRepository):
    """Tool calls that changed files of one user."""

    table = tool_calls

    def count(self, session_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of changed files, by session."""
        path = tool_calls.c.arguments["path"].as_string()
        counted = self._select(tool_calls.c.session_id, func.count(path.distinct()), by_key=True)
        changed = counted.where(tool_calls.c.session_id.in_(session_ids), IS_FILE_CHANGE)
        rows = self.connection.execute(changed.group_by(tool_calls.c.session_id))
        return {row[0]: row[1] for row in rows}


def shown_sessions(connection: Connection, principal: Principal, sessions: Sequence[StoredSession]) -> list[Session]:
    """Return sessions as the API shows them, with a fixed number of queries for all."""
    if not sessions:
        return []
    scope = connection, principal
    unfinished = UnfinishedTurns(*scope).of(sessions)
    turn_ids = [turn_id for found in unfinished.values() for turn_id, _ in found]
    pending = PendingApprovals(*scope).count(turn_ids) if turn_ids else {}
    changes = FileChanges(*scope).count([session.id for session in sessions])
    recipients = {session.recipient_id for session in sessions if session.recipient_id is not None}
    names = AgentRepository(*scope).names_of(recipients)
    return [
        _shown(
            session,
            names.get(session.recipient_id or 0),
            [status for _, status in unfinished.get(session.id, ())],
            pending.get(session.id, 0),
            changes.get(session.id, 0),
        )
        for session in sessions
    ]


def shown_session(connection: Connection, principal: Principal, session: StoredSession) -> Session:
    """Return one session as the API shows it."""
    [shown] = shown_sessions(connection, principal, [session])
    return shown


def shown_new_session(session: StoredSession) -> Session:
    """Return a session in which nothing has happened yet, without a query."""
    return _shown(session, None, (), 0, 0)


def _shown(
    session: StoredSession, recipient: str | None, unfinished: Sequence[str], pending: int, changed_files: int
) -> Session:
    return Session.of(
        session,
        session_id=session.id,
        title_source="user" if session.title_source == BY_USER else "auto",
        recipient=recipient,
        state=_state(session, unfinished, pending),
        waiting=pending,
        cost_usd=None if session.price_unknown else dollars(session.cost_micros),
        changed_files=changed_files,
    )


def _state(session: StoredSession, unfinished: Sequence[str], pending: int) -> str:
    if pending or WAITING in unfinished:
        return "waiting"
    if unfinished:
        return "working"
    return "failed" if session.failed else "idle"
