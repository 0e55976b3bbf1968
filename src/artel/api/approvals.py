"""Endpoints for approvals: questions to the user and their decisions."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, status

from artel.api.dependencies import CurrentUser, Limit, Offset, OfSession, Services
from artel.api.problems import documented
from artel.approvals import transactions as approvals
from artel.approvals.approval import Approval
from artel.brain import prices
from artel.contract.approvals import ApprovalState, NewDecision
from artel.contract.connector import Decided
from artel.contract.http import Page
from artel.errors import PlanNotPossible
from artel.ids import uuid7
from artel.plans.commands import ask_plan_again, decide_plan

ApprovalId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$")]
StatusFilter = Annotated[
    str | None,
    Query(
        alias="status",
        pattern="^(pending|approved|rejected|expired|used|withdrawn)$",
        description="Only approvals with this status.",
    ),
]

ONLY_WITH_A_PLAN = (
    "Task changes and an instruction are possible only when you approve a plan. Leave them out. "
    "To reject a plan and ask for another, use the feedback."
)

router = APIRouter(prefix="/my/approvals", tags=["approvals"])


@router.get("", responses=documented(401, 404, 422, 503))
async def list_approvals(
    user: CurrentUser,
    services: Services,
    wanted: StatusFilter = None,
    limit: Limit = 50,
    offset: Offset = 0,
    session_id: OfSession = None,
) -> Page[ApprovalState]:
    """List approvals, newest first."""
    page = await services.database.read(approvals.list_approvals, user, wanted, session_id, limit, offset)
    return Page(items=[_state(approval) for approval in page.items], total=page.total, limit=limit, offset=offset)


@router.get("/{approval_id}", responses=documented(401, 404, 422, 503))
async def show_approval(approval_id: ApprovalId, user: CurrentUser, services: Services) -> ApprovalState:
    """Show an approval."""
    return _state(await services.database.read(approvals.get_approval, user, approval_id))


@router.post("/{approval_id}/confirm", responses=documented(400, 401, 404, 409, 413, 422, 503))
async def confirm(approval_id: ApprovalId, body: NewDecision, user: CurrentUser, services: Services) -> ApprovalState:
    """Approve or reject; the run resumes."""
    approval = await services.database.read(approvals.get_approval, user, approval_id)
    starts_plan = approval.kind == "plan" and body.decision == "approve"
    if not starts_plan and (body.changes.tasks or body.instruction.strip()):
        raise PlanNotPossible(ONLY_WITH_A_PLAN)
    if approval.kind == "tool":
        decided = await services.database.run(
            approvals.decide, user, approval_id, body.decision, body.feedback, body.changes.holds
        )
    else:
        decided = await services.database.run(
            decide_plan, user, approval_id, body.decision, body.feedback, body.instruction, body.changes.tasks
        )
    services.resume_run(decided.session_id, decided.project_id)
    if ask_id := decided.ask_id:
        decision = Decided(ask_id=ask_id, decision=body.decision, feedback=body.feedback)
        await services.relay.notify_answered(user, decided.project_id, decision)
    return _state(decided)


@router.post(
    "/{approval_id}/ask-again", status_code=status.HTTP_201_CREATED, responses=documented(401, 404, 409, 422, 429, 503)
)
async def ask_again(approval_id: ApprovalId, user: CurrentUser, services: Services) -> ApprovalState:
    """Reopen an expired approval. If you approve it, the call is made without asking a model again."""
    expired = await services.database.read(approvals.get_approval, user, approval_id)
    if expired.kind == "tool":
        approval = await services.database.run(approvals.ask_again, user, approval_id, uuid7(), uuid7())
    else:
        await prices.load()
        again = partial(ask_plan_again, is_demo=not services.brain.configured)
        planner_model = services.settings.planner_model
        approval = await services.database.run(again, user, approval_id, uuid7(), planner_model)
    services.signals.session_changed(approval.session_id)
    return _state(approval)


def _state(approval: Approval) -> ApprovalState:
    values = {name: getattr(approval, name) for name in ApprovalState.model_fields}
    return ApprovalState(**values | {"details": approval.details.shown()})
