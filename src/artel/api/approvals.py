"""What the user is asked, and their decisions."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, status

from artel.api.dependencies import CurrentUser, Limit, Offset, OfSession, Parts
from artel.api.problems import documented
from artel.approvals import service as approvals
from artel.approvals.approval import Approval
from artel.brain import prices
from artel.contract.approvals import ApprovalState, NewDecision
from artel.contract.connector import Decided
from artel.contract.http import Page
from artel.errors import PlanNotPossible
from artel.ids import uuid7
from artel.plans.commands import ask_plan_again, decide_plan

ApprovalId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$")]
Wanted = Annotated[
    str | None,
    Query(alias="status", pattern="^(pending|approved|rejected|expired|used|withdrawn)$", description="Only these."),
]

ONLY_WITH_A_PLAN = (
    "Changes of tasks and an instruction go with the approval of a plan. Leave them out here; what you want otherwise "
    "of a plan that you reject goes into the feedback."
)

router = APIRouter(prefix="/my/approvals", tags=["approvals"])


@router.get("", responses=documented(401, 404, 422, 503))
async def list_approvals(
    user: CurrentUser,
    parts: Parts,
    wanted: Wanted = None,
    limit: Limit = 50,
    offset: Offset = 0,
    session_id: OfSession = None,
) -> Page[ApprovalState]:
    """List what you were asked, newest first."""
    page = await parts.database.read(approvals.list_approvals, user, wanted, session_id, limit, offset)
    return Page(items=[_state(one) for one in page.items], total=page.total, limit=limit, offset=offset)


@router.get("/{approval_id}", responses=documented(401, 404, 422, 503))
async def show_approval(approval_id: ApprovalId, user: CurrentUser, parts: Parts) -> ApprovalState:
    """Show what you were asked."""
    return _state(await parts.database.read(approvals.get_approval, user, approval_id))


@router.post("/{approval_id}/confirm", responses=documented(400, 401, 404, 409, 413, 422, 503))
async def confirm(approval_id: ApprovalId, body: NewDecision, user: CurrentUser, parts: Parts) -> ApprovalState:
    """Decide; the run goes on."""
    asked = await parts.database.read(approvals.get_approval, user, approval_id)
    begins = asked.kind == "plan" and body.decision == "approve"
    if not begins and (body.changes.tasks or body.instruction.strip()):
        raise PlanNotPossible(ONLY_WITH_A_PLAN)
    if asked.kind == "tool":
        said = body.decision, body.feedback, body.changes.holds
        decided = await parts.database.run(approvals.decide, user, approval_id, *said)
    else:
        wanted = body.decision, body.feedback, body.instruction, body.changes.tasks
        decided = await parts.database.run(decide_plan, user, approval_id, *wanted)
    parts.go_on(decided.session_id, decided.project_id)
    if ask_id := decided.details.get("ask_id"):
        told = Decided(ask_id=ask_id, decision=body.decision, feedback=body.feedback)
        await parts.relay.notify_answered(user, decided.project_id, told)
    return _state(decided)


@router.post(
    "/{approval_id}/ask-again", status_code=status.HTTP_201_CREATED, responses=documented(401, 404, 409, 422, 429, 503)
)
async def ask_again(approval_id: ApprovalId, user: CurrentUser, parts: Parts) -> ApprovalState:
    """Be asked again what you did not decide in time; when you approve it, it is done without asking a model."""
    expired = await parts.database.read(approvals.get_approval, user, approval_id)
    if expired.kind == "tool":
        asked = await parts.database.run(approvals.ask_again, user, approval_id, uuid7(), uuid7())
    else:
        await prices.load()
        place = user, approval_id, uuid7(), parts.settings.planner_model
        again = partial(ask_plan_again, is_demo=not parts.brain.configured)
        asked = await parts.database.run(again, *place)
    parts.signals.session_changed(asked.session_id)
    return _state(asked)


def _state(approval: Approval) -> ApprovalState:
    return ApprovalState(**{name: getattr(approval, name) for name in ApprovalState.model_fields})
