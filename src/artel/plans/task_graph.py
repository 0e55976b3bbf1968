"""Who does what after what, as pure data: no task knows how it is run, and nothing here waits for anything.

A graph that exists is a good one: `TaskGraph.checked` answers none with a cycle, an unknown agent or a task too many.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

MAX_TASKS = 20
MAX_ID_CHARACTERS = 64
MAX_DESCRIPTION_CHARACTERS = 4_000
MAX_PROBLEMS = 10
_SHOWN = 80


class PlanInvalid(ValueError):
    """A plan that can't be run; `problems` says why, one sentence each, so that a model can mend it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One piece of work for one agent, after all that it depends on."""

    id: str
    agent: str
    description: str
    depends_on: tuple[str, ...] = ()


class TaskGraph:
    """The tasks of a plan, in the order in which they were planned."""

    def __init__(self, tasks: Iterable[PlannedTask]) -> None:
        """Take tasks that were checked; use `checked` for others."""
        self.tasks: Mapping[str, PlannedTask] = {task.id: task for task in tasks}

    @classmethod
    def checked(cls, tasks: Sequence[PlannedTask], agents: Collection[str]) -> "TaskGraph":
        """Return the graph of these tasks, or raise PlanInvalid with everything that is wrong with it."""
        problems = list(_problems(tasks, agents))
        if problems:
            raise PlanInvalid(problems[:MAX_PROBLEMS])
        return cls(replace(task, depends_on=tuple(dict.fromkeys(task.depends_on))) for task in tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The ids so that each comes after all it depends on."""
        return tuple(self._sorter().static_order())

    def dependants(self, task_id: str) -> frozenset[str]:
        """Return every task that can't be done without this one."""
        found: set[str] = set()
        for one in self.order:
            if any(needed == task_id or needed in found for needed in self.tasks[one].depends_on):
                found.add(one)
        return frozenset(found)

    def critical_path(self, seconds: Mapping[str, float]) -> float:
        """Return how long the longest chain of tasks takes: no plan is faster, however many work on it."""
        finished: dict[str, float] = {}
        for task_id in self.order:
            begins = max((finished[needed] for needed in self.tasks[task_id].depends_on), default=0.0)
            finished[task_id] = begins + seconds.get(task_id, 0.0)
        return max(finished.values(), default=0.0)

    def progress(self) -> "Progress":
        """Return where a run of this graph stands that has not begun."""
        return Progress(self)

    def text(self) -> str:
        """Return the graph for people who read it in a terminal, and for models."""
        lines = []
        for task in self.tasks.values():
            after = f" (after {', '.join(task.depends_on)})" if task.depends_on else ""
            lines.append(f"{task.id}. {task.agent}: {_one_line(task.description)}{after}")
        return "\n".join(lines)

    def mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart. Names that people and models chose are quoted, never syntax."""
        names = {task_id: f"t{number}" for number, task_id in enumerate(self.tasks, 1)}
        lines = ["flowchart LR"]
        for task in self.tasks.values():
            label = _mermaid_text(f"{task.agent}: {_one_line(task.description)}")
            lines.append(f'    {names[task.id]}["{label}"]')
        for task in self.tasks.values():
            lines += [f"    {names[needed]} --> {names[task.id]}" for needed in task.depends_on]
        return "\n".join(lines)

    def _sorter(self) -> "TopologicalSorter[str]":
        return TopologicalSorter({task.id: task.depends_on for task in self.tasks.values()})


class Progress:
    """Where a run of a graph stands: what may begin, what is done, and what is not going to be."""

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._sorter = graph._sorter()  # noqa: SLF001 - two halves of one thing
        self._sorter.prepare()
        self._ended: set[str] = set()
        self._aborted: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether every task is done, failed or will not be begun."""
        return len(self._ended) + len(self._aborted) == len(self._graph)

    def ready(self) -> tuple[str, ...]:
        """Return what may begin now and was not answered before, in the order of the plan."""
        ready = set(self._sorter.get_ready()) - self._aborted
        return tuple(one for one in self._graph.tasks if one in ready)

    def done(self, task_id: str) -> None:
        """Take note that a task has its result: others may begin."""
        self._ended.add(task_id)
        self._sorter.done(task_id)

    def failed(self, task_id: str) -> tuple[str, ...]:
        """Take note that a task has none, and answer those that are not going to be begun because of it."""
        self._ended.add(task_id)
        aborted = self._graph.dependants(task_id) - self._aborted
        self._aborted |= aborted
        return tuple(one for one in self._graph.tasks if one in aborted)


def _problems(tasks: Sequence[PlannedTask], agents: Collection[str]) -> Iterable[str]:
    """Return what is wrong with a plan, the worst first; there may be many."""
    if not tasks:
        yield "The plan has no tasks. Give it at least one."
    if len(tasks) > MAX_TASKS:
        yield f"The plan has {len(tasks):,} tasks, and {MAX_TASKS} is the most. Join some."
    tasks = tasks[: 5 * MAX_TASKS]  # whoever sends more has been told enough
    known = {task.id for task in tasks}
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            yield f"There are two tasks {_name(task.id)}. Give each its own id."
        seen.add(task.id)
        yield from _problems_of(task, known, agents)
    yield from _circles(tasks)


def _problems_of(task: PlannedTask, known: Collection[str], agents: Collection[str]) -> Iterable[str]:
    name = _name(task.id)
    if not task.id.strip() or len(task.id) > MAX_ID_CHARACTERS:
        yield f"The id {name} is empty, or longer than {MAX_ID_CHARACTERS} characters."
    if not _is_text(f"{task.id}{task.agent}{task.description}"):
        yield f"Task {task.id[:_SHOWN]!a} has a NUL or half a character in it. Leave that out."
        return
    if not task.description.strip():
        yield f"Task {name} has no description. Say what is to be done."
    if len(task.description) > MAX_DESCRIPTION_CHARACTERS:
        yield f"The description of task {name} has more than {MAX_DESCRIPTION_CHARACTERS:,} characters. Shorten it."
    if task.agent not in agents:
        there = ", ".join(sorted(agents)[:MAX_TASKS]) or "none"
        yield f"Task {name} is for {_name(task.agent)}, who is no agent of this project. The agents are: {there}."
    yield from _problems_of_needs(task, known)


def _problems_of_needs(task: PlannedTask, known: Collection[str]) -> Iterable[str]:
    name = _name(task.id)
    if task.id in task.depends_on:
        yield f"Task {name} depends on itself. Leave that out."
    for needed in list(dict.fromkeys(task.depends_on))[:MAX_TASKS]:
        if needed not in known:
            yield f"Task {name} depends on {_name(needed)}, which is no task of the plan."


def _circles(tasks: Sequence[PlannedTask]) -> Iterable[str]:
    known = {task.id for task in tasks}
    needs = {task.id: {one for one in task.depends_on if one in known and one != task.id} for task in tasks}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as circle:
        members: list[str] = circle.args[1]
        yield f"The tasks {' → '.join(_name(one) for one in members)} wait for each other. Break the circle."
        waiting = _never_begun(needs, set(members))
        if waiting:
            names = ", ".join(_name(one) for one in waiting)
            yield f"So these can never begin: {names}."


def _never_begun(needs: Mapping[str, Collection[str]], stuck: set[str]) -> list[str]:
    """Return what depends, over however many steps, on tasks that wait for each other."""
    found = set(stuck)
    while more := {one for one, needed in needs.items() if one not in found and found & set(needed)}:
        found |= more
    return [one for one in needs if one in found - stuck]


def _name(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1].rstrip()}…"


def _mermaid_text(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in " .,:-_" else f"#{ord(letter)};" for letter in text)


def _is_text(text: str) -> bool:
    """Return whether a database can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
