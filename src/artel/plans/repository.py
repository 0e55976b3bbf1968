"""Rows of workflows, of their tasks, and of plans that were made before."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, bindparam, func, or_

from artel.contract.parked_run import ParkedRun
from artel.db.tables import plan_cache, tasks, workflows
from artel.db.tenant import TenantRepository, prepared
from artel.errors import WorkflowNotFound
from artel.plans.plan import OPEN_TASKS, TaskStatus, Workflow, WorkflowStatus, WorkflowTask


class WorkflowRepository(TenantRepository):
    """Workflows of one user."""

    table = workflows

    def add(self, workflow: Workflow) -> None:
        """Store a workflow."""
        self._add([{name: getattr(workflow, name) for name in Workflow.__slots__}])

    @prepared
    def _standing(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(workflows.c.turn_id, workflows.c.status).where(
            workflows.c.id == bindparam("workflow")
        )

    def get(self, workflow_id: str) -> Workflow:
        """Return one workflow."""
        row = self.connection.execute(self._select().where(workflows.c.id == workflow_id)).one_or_none()
        if row is None:
            raise WorkflowNotFound("Workflow not found")
        return _workflow(row)

    def is_worked_on_by(self, workflow_id: str, turn_id: str) -> bool:
        """Return whether a workflow is open, and this turn works on it."""
        row = self._run(self._standing, workflow=workflow_id).one_or_none()
        return row is not None and row.turn_id == turn_id and not WorkflowStatus(row.status).is_terminal

    def of_turn(self, turn_id: str) -> Workflow | None:
        """Return the workflow of a turn, if it has one."""
        row = self.connection.execute(self._select().where(workflows.c.turn_id == turn_id)).one_or_none()
        return _workflow(row) if row else None

    def begun(self, project_id: int) -> set[str]:
        """Return the ids of a project's workflows that were started and have not finished."""
        started = workflows.c.project_id == project_id, workflows.c.started_at.is_not(None)
        statement = self._select(workflows.c.id).where(*started, workflows.c.finished_at.is_(None))
        return set(self.connection.execute(statement).scalars())

    def of_timeline(self, session_id: str, rank: int) -> tuple[Select[Any], int]:
        """Return the keys of the session's plans for its timeline, and how many there are."""
        planned = workflows.c.session_id == session_id, workflows.c.plan_id.is_not(None)
        return self._ranked(rank).where(*planned), self._count(*planned)

    def by_ids(self, ids: Sequence[str]) -> list[Workflow]:
        """Return these workflows."""
        statement = self._select().where(workflows.c.id.in_(ids))
        return [_workflow(row) for row in self.connection.execute(statement)] if ids else []

    def of_session(self, session_id: str) -> list[str]:
        """Return the ids of all workflows of a session."""
        statement = self._select(workflows.c.id).where(workflows.c.session_id == session_id)
        return list(self.connection.execute(statement).scalars())

    def page(self, conditions: Sequence[ColumnElement[bool]], limit: int, offset: int) -> list[Workflow]:
        """Return a page of workflows, newest first."""
        statement = self._select().where(*conditions).order_by(workflows.c.created_at.desc(), workflows.c.id.desc())
        return [_workflow(row) for row in self.connection.execute(statement.limit(limit).offset(offset))]

    def count(self, conditions: Sequence[ColumnElement[bool]]) -> int:
        """Return the number of workflows."""
        return self._count(*conditions)

    def move(self, workflow_id: str, before: Iterable[WorkflowStatus], **values: Any) -> bool:
        """Change a workflow if its status is one of `before`; return whether it was."""
        return self._transition(values, before, id=workflow_id)

    def note_spent(self, workflow_id: str, spent_micros: int) -> None:
        """Record the cost of a workflow, unless a higher one is stored."""
        less = workflows.c.id == workflow_id, workflows.c.spent_micros < spent_micros
        self.connection.execute(self._update({"spent_micros": spent_micros}).where(*less))

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

    def add(self, planned: Sequence[WorkflowTask]) -> None:
        """Store the tasks of a plan."""
        self._add([_stored({name: getattr(task, name) for name in WorkflowTask.__slots__}) for task in planned])

    def of(self, workflow_id: str) -> list[WorkflowTask]:
        """Return the tasks of a workflow, in the order of the plan."""
        return self.of_many([workflow_id])

    @prepared
    def _standing(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(tasks.c.status, tasks.c.attempts, tasks.c.parked).where(
            tasks.c.workflow_id == bindparam("workflow"), tasks.c.id == bindparam("task")
        )

    def standing(self, workflow_id: str, task_id: str) -> dict[str, Any]:
        """Return status, attempts and parked run of a task."""
        row = self._run(self._standing, workflow=workflow_id, task=task_id).one_or_none()
        if row is None:
            raise WorkflowNotFound("Task not found")
        return {"status": row.status, "attempts": row.attempts, "parked": _parked(row)}

    def of_many(self, workflow_ids: Collection[str]) -> list[WorkflowTask]:
        """Return the tasks of some workflows."""
        statement = self._select().where(tasks.c.workflow_id.in_(list(workflow_ids))).order_by(tasks.c.number)
        return [_task(row) for row in self.connection.execute(statement)]

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
        self.connection.execute(self._delete().where(tasks.c.workflow_id == workflow_id))

    def done_by(self, project_id: int, agent_id: int, since: datetime, most: int) -> list[Any]:
        """Return the last tasks that an agent has completed or failed, newest first."""
        return self._run(self._done_by, project=project_id, agent=agent_id, since=since, most=most).all()


class PlanCacheRepository(TenantRepository):
    """Plans that were made before, in one user's projects."""

    table = plan_cache

    def get(self, project_id: int, key: str, hours: float) -> dict[str, Any] | None:
        """Return the plan for a key, unless it is too old."""
        oldest = datetime.now(UTC) - timedelta(hours=hours)
        fresh = plan_cache.c.project_id == project_id, plan_cache.c.key == key, plan_cache.c.created_at > oldest
        row = self.connection.execute(self._select().where(*fresh)).one_or_none()
        plan: dict[str, Any] | None = row.plan if row else None
        return plan

    def put(self, project_id: int, key: str, plan: dict[str, Any], hours: float, most: int) -> None:
        """Store a plan; remove expired ones, and the oldest ones if there are more than `most`."""
        expired = plan_cache.c.created_at <= datetime.now(UTC) - timedelta(hours=hours)
        in_project = plan_cache.c.project_id == project_id
        self.connection.execute(self._delete().where(in_project, expired | (plan_cache.c.key == key)))
        newest_first = self._select(plan_cache.c.key).where(in_project).order_by(plan_cache.c.created_at.desc())
        surplus = list(self.connection.execute(newest_first.offset(most - 1)).scalars())
        self.connection.execute(self._delete().where(in_project, plan_cache.c.key.in_(surplus)))
        entry = {"project_id": project_id, "key": key, "plan": plan, "created_at": datetime.now(UTC)}
        self._insert_unless_exists(entry)  # the same request may be planned twice at once


def _workflow(row: Row[Any]) -> Workflow:
    values = {name: getattr(row, name) for name in Workflow.__slots__}
    return Workflow(**values | {"status": WorkflowStatus(row.status)})


def _task(row: Row[Any]) -> WorkflowTask:
    values = {name: getattr(row, name) for name in WorkflowTask.__slots__}
    return WorkflowTask(**values | {"status": TaskStatus(row.status), "parked": _parked(row)})


def _parked(row: Row[Any]) -> ParkedRun | None:
    return ParkedRun.load(row.parked) if row.parked else None


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    """Return values of a task as the database stores them."""
    parked: ParkedRun | None = values.get("parked")
    return values | {"parked": parked.dump()} if parked else values
