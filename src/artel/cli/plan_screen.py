"""A plan in a terminal: prices and durations, the plan and its workflow as text, a line when a task starts or ends."""

import math
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from artel.cli.output import announcement, one_line, say, short_id, show, table

if TYPE_CHECKING:
    from artel.client.plan import PlanView, TaskView

LINE_CHARACTERS = 100
SHOWN_CHARACTERS = 60  # of a request or a task in a table
RETRY = "/retry"  # in the chat
TO_RETRY = frozenset({"partial", "failed", "timeout", "cancelled"})
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
    return price(workflow["estimated_cost"], workflow["estimated_cost_high"])


def is_done(task: Mapping[str, Any]) -> bool:
    """Whether a task has a result, and nothing that it wanted to do was refused or not answered in time."""
    return task["status"] == "completed" and not task.get("refused")


def task_status(task: Mapping[str, Any]) -> str:
    """Return how a task stands; what was not approved is not described as completed."""
    is_answer = task["status"] == "completed" and task.get("refused")
    return "answered, not approved" if is_answer else str(task["status"])


def workflow_status(workflow: Mapping[str, Any]) -> str:
    """Return how a workflow stands; one with a task that was not approved has answered."""
    is_answer = workflow["status"] == "completed" and not all(map(is_done, workflow["tasks"]))
    return "answered" if is_answer else str(workflow["status"])


def _in_cents(dollars: float, rounded: Callable[[float], int]) -> str:
    if dollars < LEAST_CENTS:
        return money(dollars)
    return f"${rounded(round(dollars * 100, 6)) / 100:.2f}"


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < MINUTES_FROM:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < HOURS_FROM else f"{seconds / 3600:.1f} h"


def plan_text(plan: "PlanView", *, is_changed: bool = False) -> str:
    """Return the complete plan, which the user approves: each task with its agent, dependencies and cost.

    The server has not estimated the price of a changed plan yet.
    """
    tasks, unknown = plan.tasks.values(), ", ".join(plan.unknown_prices)
    parts = ["1 task" if plan.is_single else f"{len(tasks)} tasks"]
    if is_changed:
        parts.append("price not estimated yet")
    else:
        parts.append(f"price of {unknown} unknown" if unknown else price(plan.expected, plan.high))
        parts += [f"about {duration(plan.seconds)}"] if plan.seconds else []
    lines = [one_line(f"The {'changed ' if is_changed else ''}plan: {', '.join(parts)}")]
    hidden = announcement("The plan", *(text for task in tasks for text in (task.id, task.agent, task.description)))
    lines += [hidden] if hidden else []
    wrap = textwrap.TextWrapper(initial_indent="  ", subsequent_indent="     ", break_on_hyphens=False)
    wrap.width = min(WIDEST, shutil.get_terminal_size().columns)
    for task in tasks:
        after = f", after {', '.join(task.depends_on)}" if task.depends_on else ""
        state = _STATES.get(task.status, f", {task.status}")
        cost = "" if task.estimated_cost is None else f" ({money(task.estimated_cost)})"
        text = one_line(f"{task.agent}{after}{state}: {task.description}{cost}")
        lines.append(wrap.fill(f"{one_line(task.id)}  {text}"))
    return "\n".join(lines)


class PlanScreen:
    """Prints the progress of a plan in a terminal; a plan of one task is not shown, as its result is the answer."""

    def __init__(self, say: Callable[[str], None], *, watched: bool) -> None:
        self._say = say
        self._watched = watched
        self._seen: PlanView | None = None
        self._printed_statuses: dict[str, str] = {}
        self.was_shown = False

    def show(self, plan: "PlanView") -> None:
        """Print a new plan, or the status changes of its tasks since the last call."""
        is_watched = self._watched and not plan.is_single
        if plan is not self._seen:
            self._seen = plan
            self._printed_statuses = {task.id: task.status for task in plan.tasks.values()}
            if is_watched:
                self._describe(plan)
        elif is_watched:
            for task in plan.tasks.values():
                before = self._printed_statuses.get(task.id, "pending")
                is_restart = task.status == "running" and before != "pending"
                if task.status not in (before, "pending", "waiting") and not is_restart:
                    self._printed_statuses[task.id] = task.status
                    self._say(f"  {one_line(task.id)}  {_status(task)}")

    def show_whole(self, plan: "PlanView", changed: Sequence[str]) -> None:
        """Print a plan that needs an approval, unless `show` did, and its changes since the last one."""
        if not self._watched or plan.is_single:
            self._describe(plan)
        if changed:
            self._say("\n".join(["Changes:", *(f"  {one_line(line)}" for line in changed)]))

    def progress(self, plan: "PlanView") -> str | None:
        """Return how many tasks are done and which are running; None for a plan of one task or one that is over."""
        if plan.is_single or plan.is_over:
            return None
        tasks = list(plan.tasks.values())
        done = sum(task.has_ended for task in tasks)
        busy = ", ".join(f"{task.agent} ({task.id})" for task in tasks if task.status == "running")
        return one_line(f"{done} of {len(tasks)} tasks done{f'; running: {busy}' if busy else ''}")

    def _describe(self, plan: "PlanView") -> None:
        self.was_shown = True
        self._say(plan_text(plan))


def _status(task: "TaskView") -> str:
    match task.status:
        case "running":
            return one_line(f"{task.agent} started: {task.description}", LINE_CHARACTERS)
        case "completed":
            return f"{task.agent} is done{'' if task.seconds is None else f' after {duration(task.seconds)}'}"
        case status:
            return one_line(f"{status}{f': {task.error}' if task.error else ''}")


def cost_summary(workflow: dict[str, Any], *, is_in_chat: bool) -> str:
    """Return the cost of a workflow, its estimate, and how to retry it if it is incomplete."""
    command, retry = f"artel workflows retry {short_id(workflow['id'])}", ""
    if workflow["status"] in TO_RETRY and not is_in_chat:
        retry = f" To run the missing tasks: {command}"
    elif workflow["status"] in TO_RETRY:
        has_results = any(task["status"] == "completed" for task in workflow["tasks"])
        retry = f" To send it again: {RETRY}{f'; to keep the finished tasks: {command}' if has_results else ''}"
    return f"[Cost: {money(workflow['cost'])}, estimated: {estimated(workflow)}.{retry}]"


# The workflow of a plan


def how_to_decide(approval_id: str) -> str:
    """Return how to decide about an approval outside of this terminal."""
    return f'Decide in the browser, or over HTTP: POST /my/approvals/{approval_id}/confirm {{"decision": "approve"}}'


def print_workflow(workflow: dict[str, Any], *, as_json: bool) -> None:
    """Print a workflow: the request, the price, the tasks and the answer."""
    if as_json:
        show(workflow, as_json)
        return
    cost, agreed, approval_id = money(workflow["cost"]), workflow["agreed_cost"], workflow["approval_id"]
    waits = f"for your decision: artel workflows follow {workflow['id']}. {how_to_decide(approval_id)}"
    about = f" (about {duration(workflow['estimated_duration'])})" if workflow["estimated_duration"] else ""
    agreement = "nothing agreed" if agreed is None else f"{money(agreed)} agreed"
    estimate = f"{estimated(workflow)} estimated{about}, {agreement}, " if workflow["tasks"] else ""
    facts = {
        "id": workflow["id"],
        "project": str(workflow["project_id"]),
        "session": workflow["session_id"],
        "status": workflow_status(workflow),
        "request": one_line(workflow["request"]),
        "instruction": one_line(workflow["instruction"]),
        "price": f"{estimate}{cost} spent",
        "waits": waits if approval_id else "",
        "error": one_line(workflow["error"] or ""),
    }
    for name, value in facts.items():
        if value:
            say(f"{name:12} {value}", below=13)
    if workflow["tasks"]:
        typer.echo("")
        rows = [
            {
                "task": one_line(task["id"]),
                "status": task_status(task),
                "agent": task["agent"],
                "after": one_line(", ".join(task["depends_on"])),
                "estimated": "" if task["estimated_cost"] is None else money(task["estimated_cost"]),
                "cost": "" if task["cost"] is None else money(task["cost"]),
                "what": one_line(task["description"], SHOWN_CHARACTERS),
            }
            for task in workflow["tasks"]
        ]
        table(rows, ("task", "status", "agent", "after", "estimated", "cost", "what"), False, "")
        for task in workflow["tasks"]:
            if task["error"]:
                say(one_line(f"{task['id']} {task['status']}: {task['error']}"))
    if workflow["answer"] is not None:
        say(f"\n{workflow['answer']}")
