"""Rows of workflows, of their tasks, and of plans that were made before."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Delete, Select, Update, bindparam, func, or_

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

    @prepared
    def _get(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(workflows.c.id == bindparam("workflow"))

    @prepared
    def _of_turn(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(workflows.c.turn_id == bindparam("turn"))

    @prepared
    def _note_spent(cls) -> Update:  # noqa: N805
        spent = bindparam("spent", type_=workflows.c.spent_micros.type)
        less = workflows.c.id == bindparam("workflow"), workflows.c.spent_micros < spent
        return cls._prepare_update(spent_micros=spent).where(*less)

    @prepared
    def _unapproved_micros(cls) -> Select[Any]:  # noqa: N805
        unapproved = workflows.c.session_id == bindparam("session"), workflows.c.approved_at.is_(None)
        return cls._prepare_select(func.coalesce(func.sum(workflows.c.spent_micros), 0).label("micros")).where(
            *unapproved
        )

    def get(self, workflow_id: str) -> Workflow:
        """Return a workflow; raise WorkflowNotFound if the user has none with this id."""
        row = self._run(self._get, workflow=workflow_id).one_or_none()
        if row is None:
            raise WorkflowNotFound("Workflow not found")
        return _workflow(row)

    def is_worked_on_by(self, workflow_id: str, turn_id: str) -> bool:
        """Return whether a workflow is open, and this turn works on it."""
        row = self._run(self._standing, workflow=workflow_id).one_or_none()
        return row is not None and row.turn_id == turn_id and not WorkflowStatus(row.status).is_terminal

    def of_turn(self, turn_id: str) -> Workflow | None:
        row = self._run(self._of_turn, turn=turn_id).one_or_none()
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
        self._run(self._note_spent, workflow=workflow_id, spent=spent_micros)

    def unapproved_micros(self, session_id: str) -> int:
        """Return the cost of a session's plans that the user was not asked about."""
        return int(self._run(self._unapproved_micros, session=session_id).one().micros)


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

    @prepared
    def _of_one(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(tasks.c.workflow_id == bindparam("workflow")).order_by(tasks.c.number)

    @prepared
    def _unfinished(cls) -> Select[Any]:  # noqa: N805
        unfinished = or_(*(tasks.c.status == status for status in OPEN_TASKS))
        return (
            cls._prepare_select()
            .where(tasks.c.workflow_id == bindparam("workflow"), unfinished)
            .order_by(tasks.c.number)
        )

    @prepared
    def _remove_all(cls) -> Delete:  # noqa: N805
        return cls._prepare_delete().where(tasks.c.workflow_id == bindparam("workflow"))

    def add(self, planned: Sequence[WorkflowTask]) -> None:
        self._add([_stored({name: getattr(task, name) for name in WorkflowTask.__slots__}) for task in planned])

    def of(self, *workflow_ids: str) -> list[WorkflowTask]:
        """Return the tasks of some workflows, in the order of the plan."""
        if len(workflow_ids) == 1:
            rows: Sequence[Any] = self._run(self._of_one, workflow=workflow_ids[0]).all()
        else:
            rows = self._find(tasks.c.workflow_id.in_(workflow_ids), order_by=[tasks.c.number], by_key=True)
        return [_task(row) for row in rows]

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
        unfinished = [_task(row) for row in self._run(self._unfinished, workflow=workflow_id).all()]
        for task in unfinished:
            values: dict[str, Any] = {"status": TaskStatus.CANCELLED, "parked": None, "finished_at": now}
            if task.status is TaskStatus.RUNNING:
                values |= {"status": running, "error_code": code, "error": error}
            self.move(workflow_id, task.id, OPEN_TASKS, **values)
        return unfinished

    def remove(self, workflow_id: str) -> None:
        """Remove the tasks of a workflow, whose plan is replaced."""
        self._run(self._remove_all, workflow=workflow_id)

    def done_by(self, project_id: int, agent_id: int, since: datetime, most: int) -> list[Any]:
        """Return the last tasks that an agent has completed or failed, newest first."""
        return self._run(self._done_by, project=project_id, agent=agent_id, since=since, most=most).all()


class PlanCacheRepository(TenantRepository):
    """Plans that were made before, in one user's projects."""

    table = plan_cache

    @prepared
    def _get(cls) -> Select[Any]:  # noqa: N805
        same = plan_cache.c.project_id == bindparam("project"), plan_cache.c.key == bindparam("key")
        return cls._prepare_select(plan_cache.c.plan).where(*same, plan_cache.c.created_at > bindparam("oldest"))

    @prepared
    def _remove_old(cls) -> Delete:  # noqa: N805
        old = or_(plan_cache.c.created_at <= bindparam("oldest"), plan_cache.c.key == bindparam("key"))
        return cls._prepare_delete().where(plan_cache.c.project_id == bindparam("project"), old)

    @prepared
    def _surplus(cls) -> Select[Any]:  # noqa: N805
        of_project = cls._prepare_select(plan_cache.c.key).where(plan_cache.c.project_id == bindparam("project"))
        return of_project.order_by(plan_cache.c.created_at.desc()).offset(bindparam("most"))

    def get(self, project_id: int, key: str, hours: float) -> dict[str, Any] | None:
        """Return the plan for a key, unless it is too old."""
        oldest = datetime.now(UTC) - timedelta(hours=hours)
        row = self._run(self._get, project=project_id, key=key, oldest=oldest).one_or_none()
        return row.plan if row else None

    def put(self, project_id: int, key: str, plan: dict[str, Any], hours: float, most: int) -> None:
        """Store a plan; remove expired ones, and the oldest ones if there are more than `most`."""
        oldest = datetime.now(UTC) - timedelta(hours=hours)
        self._run(self._remove_old, project=project_id, key=key, oldest=oldest)
        surplus = [row.key for row in self._run(self._surplus, project=project_id, most=most - 1)]
        if surplus:
            self._remove(plan_cache.c.project_id == project_id, plan_cache.c.key.in_(surplus))
        entry = {"project_id": project_id, "key": key, "plan": plan, "created_at": datetime.now(UTC)}
        self._insert_unless_exists(entry)  # the same request may be planned twice at once


def _task(row: Any) -> WorkflowTask:
    return WorkflowTask(
        **{name: getattr(row, name) for name in WorkflowTask.__slots__}
        | {"status": TaskStatus(row.status), "parked": _parked(row)}
        | {"estimate": StoredEstimate.load(row.estimate), "usage": _usage(row)}
    )


def _workflow(row: Any) -> Workflow:
    values = {name: getattr(row, name) for name in Workflow.__slots__}
    status, estimate = WorkflowStatus(row.status), StoredEstimate.load(row.estimate)
    return Workflow(**values | {"status": status, "estimate": estimate})


def _parked(row: Any) -> ParkedRun | None:
    return ParkedRun.load(row.parked) if row.parked else None


def _usage(row: Any) -> UsageShown | None:
    return UsageShown.model_validate(row.usage) if row.usage else None


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    """Return values of a workflow or a task as the database stores them."""
    documents = {name: value.dump() for name, value in values.items() if isinstance(value, ParkedRun | StoredEstimate)}
    usage: UsageShown | None = values.get("usage")
    return values | documents | ({"usage": usage.model_dump(mode="json")} if usage else {})
