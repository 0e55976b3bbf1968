"""Deletes sessions with all that they have."""

from artel.approvals.repository import ApprovalRepository, stop_asking
from artel.attachments.repository import AttachmentContentRepository, AttachmentRepository
from artel.budgets.repository import BudgetRepository, settle_turn
from artel.db.tx import Tx
from artel.events.session_log import SessionLog
from artel.plans.repository import WorkflowRepository
from artel.sessions.repository import SessionRepository
from artel.turns.repository import TurnRepository


def delete_session(tx: Tx, session_id: str) -> None:
    """Delete a session and everything in it.

    What its calls have spent of the project's month stays spent; the budgets of its plans are deleted with them.
    """
    log = SessionLog(tx, session_id)
    project_id = log.project_id
    log.note_state()
    turns = TurnRepository(tx)
    running = turns.next(session_id)
    if running is not None:
        turns.lock(running.id)  # so that its calls reserve nothing any more
        settle_turn(tx, running.id)
    plans = WorkflowRepository(tx).of_session(session_id)
    BudgetRepository(tx).remove_of_plans(project_id, plans)
    stop_asking(tx, ApprovalRepository(tx).of_session(session_id))
    contents = set(AttachmentRepository(tx).content_ids(session_id).values())
    SessionRepository(tx).remove(session_id)
    AttachmentContentRepository(tx).remove_unused(contents)  # a fork may have the same files
