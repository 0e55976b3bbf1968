"""What the user is asked about a call of a tool, and what they have said, between runs and approvals."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from artel.approvals.approval import Approval, ApprovalStatus
from artel.contract.parked_run import ParkedRun
from artel.ids import uuid7
from artel.tools.consent import Decision, Question
from artel.turns.turn import Turn


def tool_approval(turn: Turn, agent_id: int | None, question: Question, seconds: int) -> Approval:
    """Return what the user is asked about a call, from now on."""
    now = datetime.now(UTC)
    return Approval(
        id=uuid7(),
        project_id=turn.project_id,
        session_id=turn.session_id,
        turn_id=turn.id,
        agent_id=agent_id,
        kind="tool",
        tool=question.tool,
        arguments=dict(question.arguments),
        arguments_hash=question.hash,
        details=question.details,
        risk=question.risk,
        seconds=seconds,
        status=ApprovalStatus.PENDING,
        holds=None,
        feedback=None,
        created_at=now,
        warned_at=None,
        expires_at=now + timedelta(seconds=seconds),
        decided_at=None,
        used_at=None,
    )


def due(approval: Approval, seconds: int) -> Approval:
    """Return an approval that is asked for from now on, for so long."""
    now = datetime.now(UTC)
    return replace(approval, seconds=seconds, created_at=now, expires_at=now + timedelta(seconds=seconds))


def decision_of(approval: Approval) -> Decision:
    """Return what was decided, as tools are told."""
    outcome: Any = str(approval.status)
    details = approval.tool_details
    return Decision(
        approval.id,
        outcome,
        approval.feedback or "",
        approval.holds or "once",
        details.old_sha256,
        details.new_sha256,
    )


def who_asks(run: ParkedRun) -> int | None:
    """Return the agent whose call it is: the agent of the run, or the innermost child that works for it."""
    while run.child:
        run = run.child
    return run.agent_id
