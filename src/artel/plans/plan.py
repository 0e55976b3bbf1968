"""A workflow, its tasks and their graph as the rest of the server sees them; pure data, without I/O.

Money is in millionths of a dollar. `TaskGraph.checked` rejects cycles, unknown agents and too many tasks, so every
graph can be run.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from artel.contract.chat import UsageShown
from artel.contract.estimates import StoredEstimate
from artel.contract.parked_run import ParkedRun
from artel.contract.project_settings import MAX_TASKS
from artel.text import is_storable, one_line, shorten


class WorkflowStatus(StrEnum):
    """Where a workflow stands; the ones from COMPLETED on are terminal, until somebody asks for a retry."""

    PLANNING = "planning"
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows by itself any more."""
        return self not in (WorkflowStatus.PLANNING, WorkflowStatus.AWAITING_APPROVAL, WorkflowStatus.RUNNING)


class TaskStatus(StrEnum):
    """Where a task stands; the ones from COMPLETED on are terminal."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"  # a task that it depends on has failed
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows any more."""
        return self not in (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.WAITING)


OPEN = tuple(status for status in WorkflowStatus if not status.is_terminal)
OPEN_TASKS = tuple(status for status in TaskStatus if not status.is_terminal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A request to the orchestrator, and how it goes."""

    id: str
    project_id: int
    session_id: str
    turn_id: str
    status: WorkflowStatus
    request: str
    instruction: str = ""
    plan_id: str | None = None
    planned_by: str | None = None
    estimate: StoredEstimate | None = None
    limit_micros: int | None = None
    approved_at: datetime | None = None
    spent_micros: int = 0
    price_unknown: bool = False
    answer: str | None = None
    error_code: str | None = None
    error: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkflowTask:
    """One task of a workflow; `id` is what the plan calls it."""

    workflow_id: str
    id: str
    project_id: int
    number: int
    agent_id: int | None
    agent: str
    description: str
    depends_on: list[str]
    status: TaskStatus = TaskStatus.PENDING
    attempts: int = 0
    estimate: StoredEstimate | None = None
    usage: UsageShown | None = None
    cost_micros: int | None = None
    result: str | None = None
    error_code: str | None = None
    error: str | None = None
    parked: ParkedRun | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    seconds: float | None = None  # that its agent has worked, without waiting for a person

    @property
    def approval_id(self) -> str | None:
        """The approval of a tool call that it waits for, if it does."""
        return self.parked.approval_id if self.parked else None


MAX_ID_CHARACTERS = 64
MAX_DESCRIPTION_CHARACTERS = 4_000
MAX_PROBLEMS = 10
_SHOWN = 80


class PlanInvalid(ValueError):
    """A plan that can't be run; `problems` has one sentence per problem, for the model that corrects it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task of one agent, which starts after its dependencies."""

    id: str
    agent: str
    description: str
    depends_on: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the task in the format that is stored and that the model writes."""
        return asdict(self) | {"depends_on": list(self.depends_on)}


class TaskGraph:
    """The tasks of a plan, in the order in which they were planned."""

    def __init__(self, tasks: Iterable[PlannedTask]) -> None:
        """Initialise with valid tasks; use `checked` for all others."""
        self.tasks: Mapping[str, PlannedTask] = {task.id: task for task in tasks}

    @classmethod
    def of(cls, tasks: Iterable[WorkflowTask]) -> "TaskGraph":
        """Return the graph of stored tasks, which was checked when they were stored."""
        return cls(PlannedTask(task.id, task.agent, task.description, tuple(task.depends_on)) for task in tasks)

    @classmethod
    def checked(cls, tasks: Sequence[PlannedTask], agents: Collection[str]) -> "TaskGraph":
        """Return the graph of these tasks; raise PlanInvalid with all problems if there are any."""
        problems = list(_problems(tasks, agents))
        if problems:
            raise PlanInvalid(problems[:MAX_PROBLEMS])
        return cls(replace(task, depends_on=tuple(dict.fromkeys(task.depends_on))) for task in tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The task ids in topological order."""
        sorter = TopologicalSorter({task.id: task.depends_on for task in self.tasks.values()})
        return tuple(sorter.static_order())

    def dependants(self, task_id: str) -> frozenset[str]:
        """Return the tasks that depend on this one, directly or not."""
        found: set[str] = set()
        for other_id in self.order:
            if any(needed == task_id or needed in found for needed in self.tasks[other_id].depends_on):
                found.add(other_id)
        return frozenset(found)

    def critical_path(self, seconds: Mapping[str, float]) -> float:
        """Return the duration of the longest chain of tasks: the lower bound of the plan's duration."""
        finished: dict[str, float] = {}
        for task_id in self.order:
            start = max((finished[needed] for needed in self.tasks[task_id].depends_on), default=0.0)
            finished[task_id] = start + seconds.get(task_id, 0.0)
        return max(finished.values(), default=0.0)

    def changes_from(self, old: "TaskGraph") -> list[str]:
        """Return how this plan differs from the one that it replaces, in words."""
        changes = [f"{task_id}: left out" for task_id in old.tasks if task_id not in self.tasks]
        for task in self.tasks.values():
            before = old.tasks.get(task.id)
            if before is None:
                changes.append(f"{task.id}: new, for {task.agent}")
            elif before != task:
                names = ("agent", "description", "depends_on")
                parts = [name for name in names if getattr(before, name) != getattr(task, name)]
                changes.append(f"{task.id}: other {', '.join(parts)}")
        return changes

    def text(self) -> str:
        """Return the graph as text, for terminals and models."""
        lines = []
        for task in self.tasks.values():
            after = f" (after {', '.join(task.depends_on)})" if task.depends_on else ""
            lines.append(f"{task.id}. {task.agent}: {one_line(task.description, _SHOWN)}{after}")
        return "\n".join(lines)

    def mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart; names and descriptions are escaped."""
        names = {task_id: f"t{number}" for number, task_id in enumerate(self.tasks, 1)}
        lines = ["flowchart LR"]
        for task in self.tasks.values():
            label = f"{task.agent}: {one_line(task.description, _SHOWN)}"
            escaped = "".join(char if char.isalnum() or char in " .,:-_" else f"#{ord(char)};" for char in label)
            lines.append(f'    {names[task.id]}["{escaped}"]')
        for task in self.tasks.values():
            lines += [f"    {names[needed]} --> {names[task.id]}" for needed in task.depends_on]
        return "\n".join(lines)


def _problems(tasks: Sequence[PlannedTask], agents: Collection[str]) -> Iterable[str]:
    """Yield the problems of a plan, the worst first."""
    if not tasks:
        yield "The plan has no tasks. Give it at least one."
    if len(tasks) > MAX_TASKS:
        yield f"The plan has {len(tasks):,} tasks, and {MAX_TASKS} is the most. Join some."
    tasks = tasks[: 5 * MAX_TASKS]  # bounds the work for a huge plan
    task_ids = {task.id for task in tasks}
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            yield f"There are two tasks {_name(task.id)}. Give each its own id."
        seen.add(task.id)
        yield from _problems_of(task, task_ids, agents)
    dependencies = {task.id: task_ids.intersection(task.depends_on) - {task.id} for task in tasks}
    try:
        TopologicalSorter(dependencies).prepare()
    except CycleError as cycle:
        members: list[str] = cycle.args[1]
        yield f"The tasks {' → '.join(_name(task_id) for task_id in members)} wait for each other. Break the circle."
        stuck = set(members)
        while more := {task_id for task_id, needed in dependencies.items() if task_id not in stuck and stuck & needed}:
            stuck |= more
        if blocked := [_name(task_id) for task_id in dependencies if task_id in stuck.difference(members)]:
            yield f"So these can never begin: {', '.join(blocked)}."


def _problems_of(task: PlannedTask, task_ids: Collection[str], agents: Collection[str]) -> Iterable[str]:
    name = _name(task.id)
    if not task.id.strip() or len(task.id) > MAX_ID_CHARACTERS:
        yield f"The id {name} is empty, or longer than {MAX_ID_CHARACTERS} characters."
    if not is_storable(f"{task.id}{task.agent}{task.description}"):
        yield f"Task {task.id[:_SHOWN]!a} has a NUL or half a character in it. Leave that out."
        return
    if not task.description.strip():
        yield f"Task {name} has no description. Say what is to be done."
    if len(task.description) > MAX_DESCRIPTION_CHARACTERS:
        yield f"The description of task {name} has more than {MAX_DESCRIPTION_CHARACTERS:,} characters. Shorten it."
    if task.agent not in agents:
        names = ", ".join(sorted(agents)[:MAX_TASKS]) or "none"
        yield f"Task {name} is for {_name(task.agent)}, who is no agent of this project. The agents are: {names}."
    if task.id in task.depends_on:
        yield f"Task {name} depends on itself. Leave that out."
    unknown = [needed for needed in list(dict.fromkeys(task.depends_on))[:MAX_TASKS] if needed not in task_ids]
    yield from (f"Task {name} depends on {_name(needed)}, which is no task of the plan." for needed in unknown)


def _name(text: str) -> str:
    return repr(shorten(text, _SHOWN + 1))
