"""Plans, prices and durations as text for a terminal."""

import math
import shutil
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from artel.cli.visible_text import announcement, one_line

if TYPE_CHECKING:
    from artel.client.plan import Plan, PlanTask

LEAST_SHOWN = 0.0001
LEAST_CENTS = 0.01
WIDEST = 120
_STATES = {"pending": "", "completed": ", already done", "running": ", running", "waiting": ", waits for you"}
MINUTES_FROM, HOURS_FROM = 90.0, 5400.0


def money(dollars: float | None) -> str:
    """Return an amount such as "$1.23"; amounts under $1 have up to four decimals."""
    if dollars is None:
        return "unknown"
    if 0 < dollars < LEAST_SHOWN:
        return f"under ${LEAST_SHOWN}"
    whole, _, cents = f"{dollars:.4f}".partition(".")
    return f"${whole}.{cents[:2]}" if dollars >= 1 else f"${whole}.{cents[:2]}{cents[2:].rstrip('0')}"


def price(expected: float | None, high: float | None) -> str:
    """Return the price of a plan: "about $0.03, at most $0.10"."""
    if expected is None or high is None:
        return "price unknown"
    if high == 0:
        return "$0"
    return f"about {_in_cents(expected, round)}, at most {at_most(high)}"


def at_most(dollars: float) -> str:
    """Return an amount rounded up to cents, for a maximum."""
    return _in_cents(dollars, math.ceil)


def estimated(workflow: Mapping[str, Any]) -> str:
    """Return the estimated cost of a workflow."""
    return price(workflow["estimated_cost"], workflow["estimated_cost_high"])


def _in_cents(dollars: float, rounded: Callable[[float], int]) -> str:
    if dollars < LEAST_CENTS:
        return money(dollars)
    return f"${rounded(round(dollars * 100, 6)) / 100:.2f}"


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < MINUTES_FROM:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < HOURS_FROM else f"{seconds / 3600:.1f} h"


def plan_text(plan: "Plan") -> str:
    """Return the complete plan, which the user approves: each task with its agent, dependencies and cost."""
    unknown = ", ".join(plan.unknown_prices)
    parts = [_count(plan), f"price of {unknown} unknown" if unknown else price(plan.expected, plan.high)]
    if plan.seconds:
        parts.append(f"about {duration(plan.seconds)}")
    return _with_tasks(one_line(f"The plan: {', '.join(parts)}"), plan)


def changed_plan_text(plan: "Plan") -> str:
    """Return a plan that the user changed; the server has not estimated its price yet."""
    return _with_tasks(f"The changed plan: {_count(plan)}, price not estimated yet", plan)


def _with_tasks(title: str, plan: "Plan") -> str:
    tasks = plan.tasks.values()
    hidden = announcement("The plan", *(text for task in tasks for text in (task.id, task.agent, task.description)))
    return "\n".join([title, *([hidden] if hidden else []), *map(_task, tasks)])


def _count(plan: "Plan") -> str:
    return "1 task" if plan.is_single else f"{len(plan.tasks)} tasks"


def _task(task: "PlanTask") -> str:
    after = f", after {', '.join(task.depends_on)}" if task.depends_on else ""
    state = _STATES.get(task.status, f", {task.status}")
    cost = "" if task.estimated_cost is None else f" ({money(task.estimated_cost)})"
    return textwrap.fill(
        f"{one_line(task.id)}  " + one_line(f"{task.agent}{after}{state}: {task.description}{cost}"),
        width=min(WIDEST, shutil.get_terminal_size().columns),
        initial_indent="  ",
        subsequent_indent="     ",
        break_on_hyphens=False,
    )
