"""Rows of workflows, of their tasks, and of plans that were made before."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, bindparam, func, or_

from artel.contract.chat import UsageShown
from artel.contract.estimates import StoredEstimate
from artel.contract.http import PageRequest
from artel.contract.parked_run import ParkedRun
from artel.db.tables import plan_cache, tasks, workflows
from artel.db.tenant import TenantRepository, prepared
from artel.errors import WorkflowNotFound
from artel.plans.plan import OPEN_TASKS, TaskStatus, Workflow, WorkflowStatus, WorkflowTask


class WorkflowRepository(TenantRepository):
    """Workflows of one user."""

    table = workflows

    def add(self, workflow: Workflow) -> None:
        self._add([_stored({name: getattr(workflow, name) for name in Workflow.__slots__})])

    @prepared
    def _standing(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(workflows.c.turn_id, workflows.c.status).where(
            workflows.c.id == bindparam("workflow")
        )

    def get(self, workflow_id: str) -> Workflow:
        """Return a workflow; raise WorkflowNotFound if the user has none with this id."""
        row = self._find_one(workflows.c.id == workflow_id)
        if row is None:
            raise WorkflowNotFound("Workflow not found")
        return _workflow(row)

    def is_worked_on_by(self, workflow_id: str, turn_id: str) -> bool:
        """Return whether a workflow is open, and this turn works on it."""
        row = self._run(self._standing, workflow=workflow_id).one_or_none()
        return row is not None and row.turn_id == turn_id and not WorkflowStatus(row.status).is_terminal

    def of_turn(self, turn_id: str) -> Workflow | None:
        row = self._find_one(workflows.c.turn_id == turn_id)
        return _workflow(row) if row else None

    def begun(self, project_id: int) -> set[str]:
        """Return the ids of a project's workflows that were started and have not finished."""
        started = workflows.c.project_id == project_id, workflows.c.started_at.is_not(None)
        statement = self._select(workflows.c.id).where(*started, workflows.c.finished_at.is_(None))
        return set(self.connection.execute(statement).scalars())

    def of_timeline(self, session_id: str, rank: int) -> tuple[Select[Any], int]:
        """Return the keys of the session's plans for its timeline, and how many there are."""
        planned = workflows.c.session_id == session_id, workflows.c.plan_id.is_not(None)
        return self._ranked(rank).where(*planned), self._count(*planned, by_key=True)

    def by_ids(self, ids: Sequence[str]) -> list[Workflow]:
        return [_workflow(row) for row in self._find(workflows.c.id.in_(ids), by_key=True)] if ids else []

    def of_session(self, session_id: str) -> list[str]:
        """Return the ids of all workflows of a session."""
        statement = self._select(workflows.c.id).where(workflows.c.session_id == session_id)
        return list(self.connection.execute(statement).scalars())

    def page(self, conditions: Sequence[ColumnElement[bool]], paging: PageRequest) -> tuple[list[Workflow], int]:
        """Return a page of workflows, newest first, and the number of all."""
        newest = workflows.c.created_at.desc(), workflows.c.id.desc()
        rows = self._find(*conditions, order_by=newest, limit=paging.limit, offset=paging.offset)
        return [_workflow(row) for row in rows], self._count(*conditions)

    def move(self, workflow_id: str, before: Iterable[WorkflowStatus], **values: Any) -> bool:
        """Change a workflow if its status is one of `before`; return whether it was."""
        return self._transition(_stored(values), before, id=workflow_id)

    def note_spent(self, workflow_id: str, spent_micros: int) -> None:
        """Record the cost of a workflow, unless a higher one is stored."""
        less = workflows.c.id == workflow_id, workflows.c.spent_micros < spent_micros
        self._change({"spent_micros": spent_micros}, *less)

    def unapproved_micros(self, session_id: str) -> int:
        """Return the cost of a session's plans that the user was not asked about."""
        unapproved = workflows.c.session_id == session_id, workflows.c.approved_at.is_(None)
        spent = self._select(func.coalesce(func.sum(workflows.c.spent_micros), 0)).where(*unapproved)
        return int(self.connection.execute(spent).scalar_one())


class TaskRepository(TenantRepository):
    """Tasks of one user's workflows."""

    table = tasks

    @prepared
    def _done_by(cls) -> Select[Any]:  # noqa: N805
        ended = TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.TIMEOUT
        columns = tasks.c.status, tasks.c.usage, tasks.c.started_at, tasks.c.finished_at, tasks.c.seconds
        return (
            cls._prepare_select(*columns)
            .where(tasks.c.project_id == bindparam("project"), tasks.c.agent_id == bindparam("agent"))
            .where(tasks.c.finished_at > bindparam("since"), or_(*(tasks.c.status == status for status in ended)))
            .order_by(tasks.c.finished_at.desc())
            .limit(bindparam("most"))
        )

    @prepared
    def _standing(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(tasks.c.status, tasks.c.attempts, tasks.c.parked).where(
            tasks.c.workflow_id == bindparam("workflow"), tasks.c.id == bindparam("task")
        )

    def add(self, planned: Sequence[WorkflowTask]) -> None:
        self._add([_stored({name: getattr(task, name) for name in WorkflowTask.__slots__}) for task in planned])

    def of(self, *workflow_ids: str) -> list[WorkflowTask]:
        """Return the tasks of some workflows, in the order of the plan."""
        rows = self._find(tasks.c.workflow_id.in_(workflow_ids), order_by=[tasks.c.number], by_key=True)
        return [
            WorkflowTask(
                **{name: getattr(row, name) for name in WorkflowTask.__slots__}
                | {"status": TaskStatus(row.status), "parked": _parked(row)}
                | {"estimate": StoredEstimate.load(row.estimate), "usage": _usage(row)}
            )
            for row in rows
        ]

    def standing(self, workflow_id: str, task_id: str) -> dict[str, Any]:
        """Return status, attempts and parked run of a task."""
        row = self._run(self._standing, workflow=workflow_id, task=task_id).one_or_none()
        if row is None:
            raise WorkflowNotFound("Task not found")
        return {"status": row.status, "attempts": row.attempts, "parked": _parked(row)}

    def move(self, workflow_id: str, task_id: str, before: Iterable[TaskStatus], **values: Any) -> bool:
        """Change a task if its status is one of `before`; return whether it was."""
        return self._transition(_stored(values), before, workflow_id=workflow_id, id=task_id)

    def end_unfinished(self, workflow_id: str, running: TaskStatus, code: str, error: str) -> list[WorkflowTask]:
        """End the unfinished tasks: those that run as `running`, others as cancelled. Return how they were before."""
        now = datetime.now(UTC)
        unfinished = [task for task in self.of(workflow_id) if not task.status.is_terminal]
        for task in unfinished:
            values: dict[str, Any] = {"status": TaskStatus.CANCELLED, "parked": None, "finished_at": now}
            if task.status is TaskStatus.RUNNING:
                values |= {"status": running, "error_code": code, "error": error}
            self.move(workflow_id, task.id, OPEN_TASKS, **values)
        return unfinished

    def remove(self, workflow_id: str) -> None:
        """Remove the tasks of a workflow, whose plan is replaced."""
        self._remove(tasks.c.workflow_id == workflow_id)

    def done_by(self, project_id: int, agent_id: int, since: datetime, most: int) -> list[Any]:
        """Return the last tasks that an agent has completed or failed, newest first."""
        return self._run(self._done_by, project=project_id, agent=agent_id, since=since, most=most).all()


class PlanCacheRepository(TenantRepository):
    """Plans that were made before, in one user's projects."""

    table = plan_cache

    def get(self, project_id: int, key: str, hours: float) -> dict[str, Any] | None:
        """Return the plan for a key, unless it is too old."""
        oldest = datetime.now(UTC) - timedelta(hours=hours)
        row = self._find_one(
            plan_cache.c.project_id == project_id, plan_cache.c.key == key, plan_cache.c.created_at > oldest
        )
        return row.plan if row else None

    def put(self, project_id: int, key: str, plan: dict[str, Any], hours: float, most: int) -> None:
        """Store a plan; remove expired ones, and the oldest ones if there are more than `most`."""
        expired = plan_cache.c.created_at <= datetime.now(UTC) - timedelta(hours=hours)
        in_project = plan_cache.c.project_id == project_id
        self._remove(in_project, expired | (plan_cache.c.key == key))
        newest_first = self._select(plan_cache.c.key).where(in_project).order_by(plan_cache.c.created_at.desc())
        surplus = list(self.connection.execute(newest_first.offset(most - 1)).scalars())
        self._remove(in_project, plan_cache.c.key.in_(surplus))
        entry = {"project_id": project_id, "key": key, "plan": plan, "created_at": datetime.now(UTC)}
        self._insert_unless_exists(entry)  # the same request may be planned twice at once


def _workflow(row: Row[Any]) -> Workflow:
    values = {name: getattr(row, name) for name in Workflow.__slots__}
    status, estimate = WorkflowStatus(row.status), StoredEstimate.load(row.estimate)
    return Workflow(**values | {"status": status, "estimate": estimate})


def _parked(row: Row[Any]) -> ParkedRun | None:
    return ParkedRun.load(row.parked) if row.parked else None


def _usage(row: Row[Any]) -> UsageShown | None:
    return UsageShown.model_validate(row.usage) if row.usage else None


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    """Return values of a workflow or a task as the database stores them."""
    documents = {name: value.dump() for name, value in values.items() if isinstance(value, ParkedRun | StoredEstimate)}
    usage: UsageShown | None = values.get("usage")
    return values | documents | ({"usage": usage.model_dump(mode="json")} if usage else {})
