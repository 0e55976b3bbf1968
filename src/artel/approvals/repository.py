"""Rows of approvals."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, Select, bindparam
from sqlalchemy.sql.dml import ReturningUpdate

from artel.approvals.approval import Approval, ApprovalStatus
from artel.contract.approval_details import load_details
from artel.contract.events import ApprovalRequired
from artel.contract.http import PageRequest
from artel.db.hints import ApprovalRequested, QuestionOver
from artel.db.tables import approvals
from artel.db.tenant import TenantRepository, prepared
from artel.db.tx import Tx
from artel.errors import ApprovalNotFound


class ApprovalRepository(TenantRepository):
    """Approvals of one user."""

    table = approvals

    @prepared
    def _withdraw(cls) -> ReturningUpdate[Any]:  # noqa: N805
        values = {"status": ApprovalStatus.WITHDRAWN, "decided_at": bindparam("now")}
        pending = approvals.c.turn_id == bindparam("turn"), approvals.c.status == ApprovalStatus.PENDING
        return cls._prepare_update(**values).where(*pending).returning(*approvals.c)

    def add(self, approval: Approval) -> None:
        values = {name: getattr(approval, name) for name in Approval.__slots__}
        self._add([values | {"details": approval.details.dump()}])

    def get(self, approval_id: str) -> Approval:
        """Return an approval; raise ApprovalNotFound if the user has none with this id."""
        row = self._find_one(approvals.c.id == approval_id)
        if row is None:
            raise ApprovalNotFound("Approval not found")
        return _approval(row)

    def has(self, approval_id: str) -> bool:
        return bool(self._count(approvals.c.id == approval_id))

    def asked_as(self, project_id: int, ask_id: str) -> Approval:
        """Return the pending approval that a connector of the project shows under its own id."""
        pending = approvals.c.project_id == project_id, approvals.c.status == ApprovalStatus.PENDING
        for approval in map(_approval, self._find(*pending)):
            if approval.ask_id == ask_id:
                return approval
        raise ApprovalNotFound("Approval not found")

    def page(self, status: str | None, session_id: str | None, paging: PageRequest) -> tuple[list[Approval], int]:
        """Return some approvals, newest first, and the number of all with this status and session."""
        wanted = (approvals.c.status, status), (approvals.c.session_id, session_id)
        conditions = [column == value for column, value in wanted if value is not None]
        newest = approvals.c.created_at.desc(), approvals.c.id.desc()
        rows = self._find(*conditions, order_by=newest, limit=paging.limit, offset=paging.offset)
        return [_approval(row) for row in rows], self._count(*conditions)

    def of_timeline(self, session_id: str, rank: int) -> tuple[Select[Any], int]:
        """Return the keys of the session's approvals for its timeline, and how many there are."""
        in_session = approvals.c.session_id == session_id
        return self._ranked(rank).where(in_session), self._count(in_session, by_key=True)

    def refused_ids(self, session_id: str) -> Select[Any]:
        """Select the ids of the session's approvals that were refused, or not answered in time."""
        no = approvals.c.status.in_((ApprovalStatus.REJECTED, ApprovalStatus.EXPIRED))
        return self._select(approvals.c.id).where(approvals.c.session_id == session_id, no)

    def refused_tasks(self, session_ids: Iterable[str]) -> set[tuple[str, str]]:
        """Return the tasks of plans, by workflow and id, whose last question was refused or not answered in time."""
        names = [approvals.c.details[name].as_string() for name in ("workflow_id", "task_id")]
        of_sessions = approvals.c.session_id.in_(list(session_ids)), approvals.c.kind == "tool"
        asked = self._find(*of_sessions, columns=[*names, approvals.c.status], order_by=[approvals.c.id])
        last = {(workflow, task): status for workflow, task, status in map(tuple, asked) if workflow and task}
        return {task for task, status in last.items() if status in (ApprovalStatus.REJECTED, ApprovalStatus.EXPIRED)}

    def by_ids(self, ids: Sequence[str]) -> list[Approval]:
        return [_approval(row) for row in self._find(approvals.c.id.in_(ids), by_key=True)] if ids else []

    def of_turn(self, turn_id: str, *statuses: ApprovalStatus) -> list[Approval]:
        """Return the approvals of a turn with these statuses, oldest first."""
        wanted = approvals.c.turn_id == turn_id, approvals.c.status.in_(statuses)
        return [_approval(row) for row in self._find(*wanted, order_by=[approvals.c.created_at])]

    def seconds_waited(self, turn_id: str) -> float:
        """Return how long a turn has waited for decisions that were made; several at a time count once."""
        decided = approvals.c.turn_id == turn_id, approvals.c.decided_at.is_not(None)
        waited, until = timedelta(), None
        moments = approvals.c.created_at, approvals.c.decided_at
        for approval in self._find(*decided, columns=moments, order_by=[approvals.c.created_at]):
            begin = approval.created_at if until is None else max(approval.created_at, until)
            waited += max(approval.decided_at - begin, timedelta())
            until = max(begin, approval.decided_at)
        return waited.total_seconds()

    def move(self, approval_id: str, before: Iterable[ApprovalStatus], status: ApprovalStatus, **values: Any) -> bool:
        """Change the status if it is in `before`; return whether it was."""
        return self._transition({"status": status, **values}, before, id=approval_id)

    def of_session(self, session_id: str) -> list[Approval]:
        """Return the pending approvals of a session."""
        pending = approvals.c.session_id == session_id, approvals.c.status == ApprovalStatus.PENDING
        return [_approval(row) for row in self._find(*pending)]

    def withdraw(self, turn_id: str) -> list[Approval]:
        """Withdraw and return the pending approvals of a turn."""
        return [_approval(row) for row in self._run(self._withdraw, turn=turn_id, now=datetime.now(UTC))]


def announce(tx: Tx, approval: Approval) -> None:
    """Announce to the project, after the commit, that a run waits for the user; a repeated attempt does it again."""
    event = ApprovalRequired(
        approval_id=approval.id,
        session_of_approval=approval.session_id,
        tool=approval.tool,
        expires_at=approval.expires_at,
    )
    tx.after_commit(ApprovalRequested(tx.principal.user_id, approval.project_id, event))


def stop_asking(tx: Tx, approvals: Iterable[Approval]) -> None:
    """Make connectors stop asking, after the commit, what needs no answer any more."""
    for approval in approvals:
        if approval.ask_id:
            tx.after_commit(QuestionOver(tx.principal.user_id, approval.project_id, approval.ask_id))


def _approval(row: Row[Any]) -> Approval:
    values = {name: getattr(row, name) for name in Approval.__slots__}
    details = load_details(row.kind, row.details)
    return Approval(**values | {"status": ApprovalStatus(row.status), "details": details})
