"""Tasks of plans, and graphs of them."""

from collections.abc import Mapping

from hypothesis import strategies as st

from artel.contract.project_settings import MAX_TASKS
from artel.plans.plan import PlannedTask, TaskGraph, TaskStatus, WorkflowTask

AGENTS = ("coder", "writer")


def task(task_id: str, *depends_on: str, agent: str = "coder", description: str = "Do it.") -> PlannedTask:
    return PlannedTask(task_id, agent, description, depends_on)


def graph(needs: Mapping[str, str]) -> TaskGraph:
    """Return the graph of lines like {"c": "a b"}."""
    return TaskGraph.checked([task(name, *after.split()) for name, after in needs.items()], AGENTS)


DIAMOND = {"a": "", "b": "a", "c": "a", "d": "b c"}


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    """Draw a good graph, its tasks told in any order."""
    count = draw(st.integers(1, MAX_TASKS))
    needs = [draw(st.sets(st.integers(0, number - 1), max_size=4)) if number else set() for number in range(count)]
    tasks = [task(f"t{number}", *(f"t{one}" for one in sorted(needed))) for number, needed in enumerate(needs)]
    return TaskGraph.checked(draw(st.permutations(tasks)), AGENTS)


def completed_task(name: str, result: str | None = None, description: str = "") -> WorkflowTask:
    """Return a task of a plan that is done."""
    nothing = {"estimate": None, "usage": None, "cost_micros": None, "error_code": None, "error": None, "parked": None}
    return WorkflowTask(
        workflow_id="w",
        id=name,
        project_id=1,
        number=0,
        agent_id=1,
        agent="agent_coder",
        description=description or f"Do {name}.",
        depends_on=[],
        status=TaskStatus.COMPLETED,
        attempts=1,
        result=result,
        started_at=None,
        finished_at=None,
        **nothing,
    )
