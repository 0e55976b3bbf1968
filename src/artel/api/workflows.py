"""Endpoints for workflows: requests to the orchestrator and their plans."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, status

from artel.api.dependencies import CurrentUser, OfSession, Paging, Services
from artel.api.problems import documented
from artel.contract.approvals import WorkflowRetry
from artel.contract.chat import WorkflowState
from artel.contract.http import Page
from artel.plans.plan import WorkflowStatus

WorkflowId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$")]
StatusFilter = Annotated[WorkflowStatus | None, Query(alias="status", description="Only workflows with this status.")]
OfProject = Annotated[int | None, Query(ge=1, le=2**53, description="Only workflows of this project.")]

router = APIRouter(prefix="/my/workflows", tags=["workflows"], responses=documented(401, 404, 422, 503))


@router.get("")
async def list_workflows(
    user: CurrentUser,
    services: Services,
    paging: Paging,
    wanted: StatusFilter = None,
    project_id: OfProject = None,
    session_id: OfSession = None,
) -> Page[WorkflowState]:
    """List your workflows, newest first; long texts are shortened."""
    return await services.workflows.list(user, wanted, project_id, session_id, paging)


@router.get("/{workflow_id}")
async def show_workflow(workflow_id: WorkflowId, user: CurrentUser, services: Services) -> WorkflowState:
    """Show a workflow: its plan, price, tasks and answer."""
    return await services.workflows.show(user, workflow_id)


@router.post("/{workflow_id}/cancel")
async def cancel_workflow(workflow_id: WorkflowId, user: CurrentUser, services: Services) -> WorkflowState:
    """Cancel a workflow; finished tasks keep their results. A finished workflow does not change."""
    return await services.workflows.cancel(user, workflow_id)


@router.post("/{workflow_id}/retry", status_code=status.HTTP_202_ACCEPTED, responses=documented(400, 409, 413, 429))
async def retry_workflow(
    workflow_id: WorkflowId, user: CurrentUser, services: Services, body: WorkflowRetry | None = None
) -> WorkflowState:
    """Retry the tasks that did not succeed, as they were or with changes; the others keep their results.

    The agreed cost stays: before the plan costs more, you are asked.
    """
    return await services.workflows.retry(user, workflow_id, body.tasks if body else ())
