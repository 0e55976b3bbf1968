"""The client's view of a plan: tasks, agents, estimated cost and progress."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from artel.client.sse import ServerEvent

_STATUSES = {
    "task_started": "running",
    "task_progress": "running",
    "tool_called": "running",
    "tool_result": "running",
    "tool_request": "waiting",
    "task_completed": "completed",
    "task_failed": "failed",
    "task_cancelled": "cancelled",
}
ENDED = frozenset({"completed", "failed", "aborted", "cancelled", "timeout"})


@dataclass(frozen=True, slots=True)
class TaskView:
    id: str
    agent: str
    description: str
    depends_on: tuple[str, ...] = ()
    estimated_cost: float | None = None
    status: str = "pending"
    error: str | None = None
    seconds: float | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


@dataclass(slots=True)
class PlanView:
    """The state of a plan after the events so far."""

    workflow_id: str
    tasks: dict[str, TaskView]
    expected: float | None = None
    high: float | None = None
    seconds: float | None = None
    unknown_prices: list[str] = field(default_factory=list)

    @classmethod
    def of_event(cls, data: Mapping[str, Any]) -> "PlanView":
        """Return the plan in a `task_plan_created` or `plan_request` event."""
        plan, figures = (data["plan"], data["details"]) if data.get("plan") is not None else (data, data)
        return cls(
            str(data["workflow_id"]),
            _tasks(plan["tasks"]),
            figures.get("estimated_cost"),
            figures.get("estimated_cost_high"),
            figures.get("estimated_duration"),
            list(figures.get("unknown_prices") or ()),
        )

    @classmethod
    def to_retry(cls, workflow: Mapping[str, Any]) -> "PlanView":
        """Return the plan of a workflow that is retried, with unfinished tasks reset to pending."""
        plan = cls.of_workflow(workflow)
        for task in list(plan.tasks.values()):
            if task.status != "completed":
                plan.tasks[task.id] = replace(task, status="pending", error=None)
        return plan

    @classmethod
    def of_workflow(cls, workflow: Mapping[str, Any]) -> "PlanView":
        is_known = workflow["estimated_cost"] is not None
        return cls(
            str(workflow["id"]),
            _tasks(workflow["tasks"]),
            workflow["estimated_cost"],
            workflow["estimated_cost_high"] if is_known else None,
            workflow["estimated_duration"],
        )

    @property
    def is_single(self) -> bool:
        """Whether the plan has one task, whose result is the answer."""
        return len(self.tasks) == 1

    @property
    def is_over(self) -> bool:
        return all(task.has_ended for task in self.tasks.values())

    def apply(self, event: ServerEvent) -> None:
        """Update the task that the event is about."""
        task, status = self.tasks.get(str(event.data.get("task_id"))), _STATUSES.get(event.type)
        if task is None or status is None or (task.has_ended and event.type != "task_started"):
            return  # a late event of a task that has ended, or not about a task
        task = replace(task, status=status)
        if task.has_ended:
            task = replace(task, error=event.data.get("error"), seconds=event.data.get("duration"))
        self.tasks[task.id] = task

    def drop(self, task_id: str) -> None:
        """Remove a task; tasks that depended on it inherit its dependencies."""
        dropped = self.tasks.pop(task_id)
        for task in list(self.tasks.values()):
            if task_id in task.depends_on:
                needed = [other for other in task.depends_on if other != task_id]
                self.tasks[task.id] = replace(task, depends_on=tuple(dict.fromkeys([*needed, *dropped.depends_on])))


def approval_event(approval: Mapping[str, Any]) -> ServerEvent:
    """Return the `tool_request` or `plan_request` event of a pending approval."""
    arguments, details = approval["arguments"], approval["details"]
    common = {name: approval[name] for name in ("turn_id", "details", "expires_at")} | {"approval_id": approval["id"]}
    if approval["kind"] == "tool":
        call = {name: approval[name] for name in ("agent_id", "tool", "arguments", "risk")}
        return ServerEvent("tool_request", common | call | {"task_id": details.get("task_id")})
    plan = {"workflow_id": arguments["workflow_id"], "plan": {"tasks": arguments["tasks"]}}
    return ServerEvent("plan_request", common | plan)


def _tasks(tasks: Iterable[Mapping[str, Any]]) -> dict[str, TaskView]:
    return {
        str(task["id"]): TaskView(
            str(task["id"]),
            str(task["agent"]),
            str(task["description"]),
            tuple(str(task_id) for task_id in task.get("depends_on") or ()),
            task.get("estimated_cost"),
            str(task.get("status") or "pending"),
            task.get("error"),
        )
        for task in tasks
    }
