"""Transactions on approvals: ask, decide, expire. The lock on the session's row orders them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from artel import kill_points
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.repository import ApprovalRepository, announce, stop_asking
from artel.auth.principal import Principal
from artel.contract.events import (
    AgentStatusChanged,
    ApprovalExtended,
    ApprovalResolved,
    ApprovalTimeout,
    ApprovalTimeoutWarning,
    EventData,
    ToolRequest,
)
from artel.contract.parked_run import ParkedRun, SingleCall
from artel.db.hints import SessionHasEvents, TurnParked, WorkWaiting
from artel.db.tx import Tx
from artel.errors import ApprovalDecided
from artel.events.session_log import SessionLog
from artel.turns.repository import TurnRepository
from artel.turns.transactions import TurnOver, add_turn
from artel.turns.turn import Mode, Turn, TurnStatus

WARN_SECONDS = 60
MAX_EXTENDED_SECONDS = 86_400  # from now


def park_turn(
    tx: Tx, turn: Turn, parked: ParkedRun, approval: Approval, change: AgentStatusChanged | None = None
) -> None:
    """Park a turn and its run until the user decides; raise TurnOver if it has ended."""
    approvals = ApprovalRepository(tx)
    announce(tx, approval)
    if approvals.has(approval.id):  # it was committed before, and the answer got lost
        tx.after_commit(SessionHasEvents(turn.session_id))
        tx.after_commit(TurnParked(turn.id))
        return
    happened: list[EventData] = [tool_request(approval, turn.id), *([change] if change else [])]
    log = SessionLog(tx, turn.session_id, len(happened))
    if not TurnRepository(tx).park(turn.session_id, turn.id, parked):
        raise TurnOver
    approvals.add(approval)
    log.write(turn.id, *happened)
    log.note_state()
    tx.after_commit(TurnParked(turn.id))


def decide(
    tx: Tx, approval_id: str, decision: str, feedback: str, holds: str, *, at_connector: bool = False
) -> Approval:
    """Store the user's decision and queue the run; raise if it was decided before, or the run does not wait."""
    approvals = ApprovalRepository(tx)
    now = datetime.now(UTC)
    log = SessionLog(tx, approvals.get(approval_id).session_id, 1)
    approval = approvals.get(approval_id)  # nobody changes it while the session is locked
    require_pending(approval, now)
    if decision == "approve" and approval.tool_details.where == "terminal" and not at_connector:
        raise ApprovalDecided("Writes are asked for in the terminal where the folder is connected: answer there.")
    status = ApprovalStatus.APPROVED if decision == "approve" else ApprovalStatus.REJECTED
    if not approval.tool_details.grant:
        holds = "once"  # nobody was shown what else it would hold for
    turns = TurnRepository(tx)
    ids = approval.session_id, approval.turn_id
    # The turn of a plan runs while one of its tasks waits.
    if not turns.unpark(*ids) and turns.get(*ids).status not in (TurnStatus.RUNNING, TurnStatus.QUEUED):
        raise ApprovalDecided("The turn does not wait any more.")
    values = {"feedback": feedback, "holds": holds, "decided_at": now, "expires_at": now}
    approvals.move(approval_id, [ApprovalStatus.PENDING], status, **values)
    log.write(approval.turn_id, ApprovalResolved(approval_id=approval_id, decision=decision, feedback=feedback))
    log.note_state()
    tx.after_commit(WorkWaiting(approval.project_id))
    return replace(approval, status=status, feedback=feedback, holds=holds, decided_at=now, expires_at=now)


def decide_at_connector(tx: Tx, project_id: int, ask_id: str, decision: str, feedback: str) -> Approval:
    """Store a decision that the user made at the connector, which has its own id of the question."""
    approval = ApprovalRepository(tx).asked_as(project_id, ask_id)
    return decide(tx, approval.id, decision, feedback, "once", at_connector=True)


def extend(tx: Tx, approval_id: str, seconds: int) -> Approval:
    """Give the user more time to decide, at most a day from now; raise if it was decided or has expired."""
    now = datetime.now(UTC)
    approval = ApprovalRepository(tx).get(approval_id)
    log = SessionLog(tx, approval.session_id, 1)
    approval = ApprovalRepository(tx).get(approval_id)  # nobody changes it while the session is locked
    require_pending(approval, now)
    until = extended_until(approval, seconds, now)
    pending = ApprovalStatus.PENDING
    ApprovalRepository(tx).move(approval_id, [pending], pending, expires_at=until, warned_at=None)
    log.write(approval.turn_id, ApprovalExtended(approval_id=approval_id, expires_at=until))
    return replace(approval, expires_at=until, warned_at=None)


def extended_until(approval: Approval, seconds: int, now: datetime) -> datetime:
    """Return when an approval expires if it is extended; never earlier than it would anyway."""
    later = min(approval.expires_at + timedelta(seconds=seconds), now + timedelta(seconds=MAX_EXTENDED_SECONDS))
    return max(approval.expires_at, later)


def require_pending(approval: Approval, now: datetime) -> None:
    """Raise ApprovalDecided unless the user can still decide."""
    if approval.status is not ApprovalStatus.PENDING or approval.expires_at <= now:
        raise ApprovalDecided(_why_not(approval))


def expire(tx: Tx, approval_id: str, expires_at: datetime) -> Approval:
    """Queue a run that nobody decided about in time; raise if somebody has, or has extended it since `expires_at`."""
    now = datetime.now(UTC)
    approval, log = _change_pending(tx, approval_id, expires_at, ApprovalStatus.EXPIRED, decided_at=now)
    TurnRepository(tx).unpark(approval.session_id, approval.turn_id)
    log.write(approval.turn_id, ApprovalTimeout(approval_id=approval_id))
    log.note_state()
    stop_asking(tx, [approval])
    return approval


def warn(tx: Tx, approval_id: str, expires_at: datetime) -> Approval:
    """Write the event that an approval expires soon; raise if it was decided, or extended since `expires_at`."""
    now = datetime.now(UTC)
    approval, log = _change_pending(tx, approval_id, expires_at, ApprovalStatus.PENDING, warned_at=now)
    left = max(0, round((approval.expires_at - now).total_seconds()))
    log.write(approval.turn_id, ApprovalTimeoutWarning(approval_id=approval_id, seconds_left=left))
    return approval


def _change_pending(
    tx: Tx, approval_id: str, expires_at: datetime, status: ApprovalStatus, **values: datetime
) -> tuple[Approval, SessionLog]:
    """Change a pending approval under the lock of its session; return how it was before, and the session's log.

    The caller has read `expires_at` without the lock: raise ApprovalDecided if the user has extended it since.
    """
    rows = ApprovalRepository(tx)
    log = SessionLog(tx, rows.get(approval_id).session_id, 1)
    approval = rows.get(approval_id)  # nobody changes it while the session is locked
    is_extended = approval.expires_at > expires_at
    if is_extended or not rows.move(approval_id, [ApprovalStatus.PENDING], status, **values):
        raise ApprovalDecided("It was extended." if is_extended else _why_not(approval))
    return approval, log


def ask_again(tx: Tx, approval_id: str, new_id: str, turn_id: str) -> Approval:
    """Ask again about a tool call that nobody decided about in time.

    The run continued without it, so the call gets a turn of its own: once approved it is made, without a model. Only
    a node makes calls of its own tools, as part of its task.
    """
    approvals = ApprovalRepository(tx)
    expired = approvals.get(approval_id)
    if node := expired.tool_details.node:
        raise ApprovalDecided(f"The task of {node} went on without {expired.tool}. Send your message again.")
    log = SessionLog(tx, expired.session_id, 1)
    now = datetime.now(UTC)
    if not approvals.move(approval_id, [ApprovalStatus.EXPIRED], ApprovalStatus.WITHDRAWN):
        raise ApprovalDecided("Only an approval that has expired can be asked for again, and once.")
    again = replace(
        expired,
        id=new_id,
        turn_id=turn_id,
        # The connector has stopped asking; when it is called it may ask again.
        details=expired.tool_details.without_connector(),
        status=ApprovalStatus.PENDING,
        created_at=now,
        warned_at=None,
        decided_at=None,
        expires_at=now + timedelta(seconds=expired.seconds),
    )
    ids = turn_id, expired.session_id, expired.project_id
    parked = ParkedRun(single=SingleCall(tool=expired.tool, arguments=expired.arguments))
    turn = Turn(*ids, log.first, Mode.DIRECT, expired.agent_id, TurnStatus.WAITING, now, parked=parked)
    add_turn(tx, turn, expired.arguments_hash)
    approvals.add(again)
    log.write(turn_id, tool_request(again, turn_id))
    log.note_state()
    return again


@kill_points.transaction("approval.use")
def use(tx: Tx, approval_id: str) -> bool:
    """Mark an approval as used for its call; return whether it was approved and unused."""
    now = datetime.now(UTC)
    return ApprovalRepository(tx).move(approval_id, [ApprovalStatus.APPROVED], ApprovalStatus.USED, used_at=now)


def decisions(connection: Connection, principal: Principal, turn_id: str) -> Sequence[Approval]:
    """Return the decision about the call that a turn waited for; earlier ones don't count."""
    every = ApprovalRepository(connection, principal).of_turn(turn_id, *ApprovalStatus)
    decided = ApprovalStatus.APPROVED, ApprovalStatus.REJECTED, ApprovalStatus.EXPIRED
    return [approval for approval in every[-1:] if approval.status in decided]


def pending_of(connection: Connection, principal: Principal, session_id: str, turn_id: str) -> tuple[Turn, str | None]:
    """Return a turn, and the id of the approval that it waits for."""
    turn = TurnRepository(connection, principal).get(session_id, turn_id)
    pending = ApprovalRepository(connection, principal).of_turn(turn_id, ApprovalStatus.PENDING)
    return turn, pending[-1].id if pending else None


def get_approval(connection: Connection, principal: Principal, approval_id: str) -> Approval:
    """Return one approval."""
    return ApprovalRepository(connection, principal).get(approval_id)


def tool_request(approval: Approval, task_id: str) -> ToolRequest:
    """Return the event that asks the user about a tool call of a task; the task of a direct turn is the turn."""
    return ToolRequest(
        approval_id=approval.id,
        task_id=task_id,
        agent_id=approval.agent_id or 0,
        tool=approval.tool,
        arguments=approval.arguments,
        risk=approval.risk,
        details=approval.details,
        expires_at=approval.expires_at,
    )


def _why_not(approval: Approval) -> str:
    if approval.status is ApprovalStatus.EXPIRED or approval.status is ApprovalStatus.PENDING:
        return "The time to decide is over. Ask again: POST /my/approvals/{id}/ask-again"
    return f"This was decided before: {approval.status}."
