"""Endpoints for approvals: questions to the user and their decisions."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, status

from artel.api.dependencies import CurrentUser, OfSession, Paging, Services
from artel.api.problems import documented
from artel.contract.approvals import ApprovalState, NewDecision, NewExtension, PlanChanges, PlanPrice
from artel.contract.http import Page

ApprovalId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$")]
StatusFilter = Annotated[
    str | None,
    Query(
        alias="status",
        pattern="^(pending|approved|rejected|expired|used|withdrawn)$",
        description="Only approvals with this status.",
    ),
]

router = APIRouter(prefix="/my/approvals", tags=["approvals"], responses=documented(401, 404, 422, 503))


@router.get("")
async def list_approvals(
    user: CurrentUser,
    services: Services,
    paging: Paging,
    wanted: StatusFilter = None,
    session_id: OfSession = None,
) -> Page[ApprovalState]:
    """List approvals, newest first."""
    return await services.approvals.list(user, wanted, session_id, paging)


@router.get("/{approval_id}")
async def show_approval(approval_id: ApprovalId, user: CurrentUser, services: Services) -> ApprovalState:
    """Show an approval."""
    return await services.approvals.show(user, approval_id)


@router.post("/{approval_id}/confirm", responses=documented(400, 409, 413))
async def confirm(approval_id: ApprovalId, body: NewDecision, user: CurrentUser, services: Services) -> ApprovalState:
    """Approve or reject; the run resumes."""
    return await services.approvals.confirm(user, approval_id, body)


@router.post("/{approval_id}/extend", responses=documented(400, 409, 413))
async def extend(approval_id: ApprovalId, body: NewExtension, user: CurrentUser, services: Services) -> ApprovalState:
    """Take more time to decide, at most 24 hours from now; also where the folder is connected, if that asks too."""
    return await services.approvals.extend(user, approval_id, body.seconds)


@router.post("/{approval_id}/price", responses=documented(400, 409, 413))
async def price(approval_id: ApprovalId, body: PlanChanges, user: CurrentUser, services: Services) -> PlanPrice:
    """Return a plan with your changes, and what it would cost; nothing is stored."""
    return await services.approvals.price(user, approval_id, body.changes)


@router.post("/{approval_id}/ask-again", status_code=status.HTTP_201_CREATED, responses=documented(409, 429))
async def ask_again(approval_id: ApprovalId, user: CurrentUser, services: Services) -> ApprovalState:
    """Reopen an expired approval. If you approve it, the call is made without asking a model again."""
    return await services.approvals.ask_again(user, approval_id)
