"""A plan as a client sees it: its tasks and who does them, what it may cost, how far it is."""

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
class PlanTask:
    """One task of a plan."""

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
        """Whether nothing more happens to it."""
        return self.status in ENDED


@dataclass(slots=True)
class Plan:
    """What is known of a plan after the events so far."""

    workflow_id: str
    tasks: dict[str, PlanTask]
    expected: float | None = None
    high: float | None = None
    seconds: float | None = None
    unknown_prices: list[str] = field(default_factory=list)

    @classmethod
    def of_event(cls, data: Mapping[str, Any]) -> "Plan":
        """Return the plan that an event tells of: one that was made, or one that the user is asked about."""
        asked = data.get("plan")
        figures = data if asked is None else data["details"]
        return cls(
            str(data["workflow_id"]),
            _tasks(data["tasks"] if asked is None else asked["tasks"]),
            figures.get("estimated_cost"),
            figures.get("estimated_cost_high"),
            figures.get("estimated_duration"),
            list(figures.get("unknown_prices") or ()),
        )

    @classmethod
    def to_retry(cls, workflow: Mapping[str, Any]) -> "Plan":
        """Return the plan of a workflow that is tried again: what is not done is to be done."""
        plan = cls.of_workflow(workflow)
        for task in list(plan.tasks.values()):
            if task.status != "completed":
                plan.tasks[task.id] = replace(task, status="pending", error=None)
        return plan

    @classmethod
    def of_workflow(cls, workflow: Mapping[str, Any]) -> "Plan":
        """Return the plan of a workflow as it stands."""
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
        """Whether what its one task says is the answer itself."""
        return len(self.tasks) == 1

    @property
    def is_over(self) -> bool:
        """Whether every task has ended, so that the answer can be written."""
        return all(task.has_ended for task in self.tasks.values())

    def take(self, event: ServerEvent) -> None:
        """Take what happens to a task."""
        task, status = self.tasks.get(str(event.data.get("task_id"))), _STATUSES.get(event.type)
        if task is None or status is None:
            return
        if task.has_ended and event.type != "task_started":  # notes may come after the end that they led to
            return
        task = replace(task, status=status)
        if task.has_ended:
            task = replace(task, error=event.data.get("error"), seconds=event.data.get("duration"))
        self.tasks[task.id] = task

    def drop(self, task_id: str) -> None:
        """Leave a task out; what depended on it depends on what that depended on."""
        gone = self.tasks.pop(task_id)
        for task in list(self.tasks.values()):
            if task_id in task.depends_on:
                needed = [one for one in task.depends_on if one != task_id]
                self.tasks[task.id] = replace(task, depends_on=tuple(dict.fromkeys([*needed, *gone.depends_on])))

    def give(self, task_id: str, agent: str) -> None:
        """Let another agent do a task."""
        self.tasks[task_id] = replace(self.tasks[task_id], agent=agent)

    def describe(self, task_id: str, text: str) -> None:
        """Say anew what a task is."""
        self.tasks[task_id] = replace(self.tasks[task_id], description=text)


def request_of(approval: Mapping[str, Any]) -> ServerEvent:
    """Return the event that asked for what is still to be decided: about a tool, a plan, or its money."""
    asked, details = approval["arguments"], approval["details"]
    same = {name: approval[name] for name in ("turn_id", "details", "expires_at")} | {"approval_id": approval["id"]}
    if approval["kind"] == "tool":
        call = {name: approval[name] for name in ("agent_id", "tool", "arguments", "risk")}
        return ServerEvent("tool_request", same | call | {"task_id": details.get("task_id")})
    plan = {"workflow_id": asked["workflow_id"], "plan": {"tasks": asked["tasks"]}}
    return ServerEvent("plan_request", same | plan)


def _tasks(told: Iterable[Mapping[str, Any]]) -> dict[str, PlanTask]:
    return {
        str(task["id"]): PlanTask(
            str(task["id"]),
            str(task["agent"]),
            str(task["description"]),
            tuple(str(one) for one in task.get("depends_on") or ()),
            task.get("estimated_cost"),
            str(task.get("status") or "pending"),
            task.get("error"),
        )
        for task in told
    }
