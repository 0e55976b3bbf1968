"""Endpoints for workflows: requests to the orchestrator and their plans."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, status

from artel.api.chat import cancel as cancel_turn_of
from artel.api.dependencies import CurrentUser, Limit, Offset, OfSession, Services
from artel.api.problems import documented
from artel.budgets.money import dollars
from artel.contract.http import Page
from artel.contract.workflows import WorkflowState, WorkflowTaskState
from artel.ids import uuid7
from artel.plans import commands as decisions
from artel.plans.transactions import graph_of
from artel.plans.workflow import Workflow, WorkflowStatus, WorkflowTask

WorkflowId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$")]
StatusFilter = Annotated[WorkflowStatus | None, Query(alias="status", description="Only workflows with this status.")]
OfProject = Annotated[int | None, Query(ge=1, le=2**53, description="Only workflows of this project.")]

SHORT_CHARACTERS = 2_000

router = APIRouter(prefix="/my/workflows", tags=["workflows"])


@router.get("", responses=documented(401, 404, 422, 503))
async def list_workflows(
    user: CurrentUser,
    services: Services,
    wanted: StatusFilter = None,
    project_id: OfProject = None,
    session_id: OfSession = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Page[WorkflowState]:
    """List your workflows, newest first; long texts are shortened."""
    status_value = wanted.value if wanted else None
    found, total = await services.database.read(
        decisions.list_workflows, user, status_value, project_id, session_id, limit, offset
    )
    items = [_short(_state(workflow, tasks)) for workflow, tasks in found]
    return Page(items=items, total=total, limit=limit, offset=offset)


@router.get("/{workflow_id}", responses=documented(401, 404, 422, 503))
async def show_workflow(workflow_id: WorkflowId, user: CurrentUser, services: Services) -> WorkflowState:
    """Show a workflow: its plan, price, tasks and answer."""
    return _state(*await services.database.read(decisions.get_workflow, user, workflow_id))


@router.post("/{workflow_id}/cancel", responses=documented(401, 404, 422, 503))
async def cancel_workflow(workflow_id: WorkflowId, user: CurrentUser, services: Services) -> WorkflowState:
    """Cancel a workflow; finished tasks keep their results. A finished workflow does not change."""
    workflow, _, _ = await services.database.read(decisions.get_workflow, user, workflow_id)
    await cancel_turn_of(workflow.session_id, workflow.turn_id, user, services)
    return await show_workflow(workflow_id, user, services)


@router.post(
    "/{workflow_id}/retry",
    status_code=status.HTTP_202_ACCEPTED,
    responses=documented(401, 404, 409, 422, 429, 503),
)
async def retry_workflow(workflow_id: WorkflowId, user: CurrentUser, services: Services) -> WorkflowState:
    """Retry the tasks that did not succeed; the others keep their results."""
    workflow = await services.database.run(decisions.retry, user, workflow_id, uuid7())
    services.resume_run(workflow.session_id, workflow.project_id)
    return await show_workflow(workflow_id, user, services)


def _state(workflow: Workflow, tasks: Sequence[WorkflowTask], approval_id: str | None = None) -> WorkflowState:
    estimate = workflow.estimate or {}
    unknown = bool(estimate.get("unknown_models"))
    return WorkflowState(
        **{name: getattr(workflow, name) for name in _COPIED_FIELDS},
        tasks=[_task(task) for task in tasks],
        estimated_cost=None if unknown else _dollars(estimate.get("expected_micros")),
        estimated_cost_low=_dollars(estimate.get("low_micros")),
        estimated_cost_high=_dollars(estimate.get("high_micros")),
        estimated_duration=estimate.get("seconds"),
        agreed_cost=_dollars(workflow.limit_micros),
        cost=None if workflow.price_unknown else dollars(workflow.spent_micros),
        approval_id=approval_id,
        graph=graph_of(tasks).mermaid() if tasks else None,
    )


def _short(state: WorkflowState) -> WorkflowState:
    """Return a workflow for a list, with long texts shortened."""
    tasks = [task.model_copy(update={"result": _shortened_text(task.result)}) for task in state.tasks]
    shortened = {
        "tasks": tasks,
        "request": _shortened_text(state.request),
        "answer": _shortened_text(state.answer),
        "graph": None,
    }
    return state.model_copy(update=shortened)


def _shortened_text(text: str | None) -> str | None:
    return text if text is None or len(text) <= SHORT_CHARACTERS else f"{text[: SHORT_CHARACTERS - 1]}…"


_COPIED_FIELDS = (
    "id",
    "project_id",
    "session_id",
    "turn_id",
    "status",
    "request",
    "instruction",
    "plan_id",
    "planned_by",
    "answer",
    "error",
    "error_code",
    "created_at",
    "started_at",
    "finished_at",
)


def _task(task: WorkflowTask) -> WorkflowTaskState:
    copied = {name: getattr(task, name) for name in WorkflowTaskState.model_fields if hasattr(task, name)}
    estimated = _dollars((task.estimate or {}).get("expected_micros"))
    return WorkflowTaskState(**copied, estimated_cost=estimated, cost=_dollars(task.cost_micros))


def _dollars(amount: int | None) -> float | None:
    return None if amount is None else dollars(amount)
