"""Workflows as the API shows them, and what users do with them."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from sqlalchemy import Connection

from artel.approvals.repository import ApprovalRepository
from artel.auth.principal import Principal
from artel.budgets.money import dollars, dollars_or_none
from artel.contract.approvals import TaskChange
from artel.contract.chat import WorkflowState, WorkflowTaskState
from artel.contract.estimates import StoredEstimate
from artel.contract.http import Page, PageRequest
from artel.db.engine import Database
from artel.ids import uuid7
from artel.plans import commands
from artel.plans.plan import TaskGraph, Workflow, WorkflowStatus, WorkflowTask
from artel.text import shorten
from artel.turns.service import ChatService

SHORT_CHARACTERS = 2_000


class WorkflowService:
    """Lists, cancels and retries workflows."""

    def __init__(self, database: Database, chat: ChatService) -> None:
        self._database = database
        self._chat = chat

    async def list(
        self,
        user: Principal,
        status: WorkflowStatus | None,
        project_id: int | None,
        session_id: str | None,
        paging: PageRequest,
    ) -> Page[WorkflowState]:
        """Return a page of workflows, newest first, with long texts shortened."""

        def read(connection: Connection) -> Page[WorkflowState]:
            found, total = commands.list_workflows(connection, user, status, project_id, session_id, paging)
            refused = _refused(connection, user, [workflow for workflow, _ in found])
            return paging.page([_shortened(_state(workflow, tasks, refused)) for workflow, tasks in found], total)

        return await self._database.read(read)

    async def show(self, user: Principal, workflow_id: str) -> WorkflowState:
        def read(connection: Connection) -> WorkflowState:
            workflow, tasks, approval_id = commands.get_workflow(connection, user, workflow_id)
            return _state(workflow, tasks, _refused(connection, user, [workflow]), approval_id)

        return await self._database.read(read)

    async def cancel(self, user: Principal, workflow_id: str) -> WorkflowState:
        """Cancel a workflow; finished tasks keep their results."""
        workflow, _, _ = await self._database.read(commands.get_workflow, user, workflow_id)
        await self._chat.cancel(user, workflow.session_id, workflow.turn_id)
        return await self.show(user, workflow_id)

    async def retry(self, user: Principal, workflow_id: str, changes: Sequence[TaskChange] = ()) -> WorkflowState:
        """Retry the tasks that did not succeed, as they were or changed; the others keep their results."""
        await self._database.of(user).run(commands.retry, workflow_id, uuid7(), changes)
        return await self.show(user, workflow_id)


def _refused(connection: Connection, user: Principal, found: Sequence[Workflow]) -> set[tuple[str, str]]:
    sessions = {workflow.session_id for workflow in found}
    return ApprovalRepository(connection, user).refused_tasks(sessions) if sessions else set()


def _state(
    workflow: Workflow,
    tasks: Sequence[WorkflowTask],
    refused: AbstractSet[tuple[str, str]],
    approval_id: str | None = None,
) -> WorkflowState:
    estimate = workflow.estimate or StoredEstimate()
    return WorkflowState.of(
        workflow,
        tasks=[_task(task, refused=(workflow.id, task.id) in refused) for task in tasks],
        estimated_cost=None if estimate.unknown_models else dollars_or_none(estimate.expected_micros),
        estimated_cost_low=dollars_or_none(estimate.low_micros),
        estimated_cost_high=dollars_or_none(estimate.high_micros),
        estimated_duration=workflow.estimate and workflow.estimate.seconds,
        agreed_cost=dollars_or_none(workflow.limit_micros),
        cost=None if workflow.price_unknown else dollars(workflow.spent_micros),
        approval_id=approval_id,
        graph=TaskGraph.of(tasks).mermaid() if tasks else None,
    )


def _task(task: WorkflowTask, *, refused: bool) -> WorkflowTaskState:
    estimated = dollars_or_none(task.estimate.expected_micros) if task.estimate else None
    return WorkflowTaskState.of(task, estimated_cost=estimated, cost=dollars_or_none(task.cost_micros), refused=refused)


def _shortened(state: WorkflowState) -> WorkflowState:
    """Return a workflow for a list."""

    def short(text: str | None) -> str | None:
        return text and shorten(text, SHORT_CHARACTERS)

    tasks = [task.model_copy(update={"result": short(task.result)}) for task in state.tasks]
    texts = {"request": short(state.request), "answer": short(state.answer)}
    return state.model_copy(update={**texts, "tasks": tasks, "graph": None})
