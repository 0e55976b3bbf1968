"""What a plan looks like while it is carried out: the plan once, then a line when a task begins or ends."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from artel.cli.output import short_id
from artel.cli.plan_text import described, duration, estimated, money
from artel.cli.visible_text import one_line

if TYPE_CHECKING:
    from artel.client.plan import Plan, PlanTask

LINE_CHARACTERS = 100
RETRY = "/retry"  # in the chat
TO_RETRY = frozenset({"partial", "failed", "timeout", "cancelled"})


class PlanScreen:
    """Says what happens to a plan, to somebody who watches; one task is the answer itself and needs no words."""

    def __init__(self, say: Callable[[str], None], *, watched: bool) -> None:
        self._say = say
        self._watched = watched
        self._seen: Plan | None = None
        self._told: dict[str, str] = {}
        self.was_shown = False

    def show(self, plan: "Plan") -> None:
        """Show a plan that is new, and what has happened to its tasks since the last time."""
        if plan is not self._seen:
            self._seen, self._told = plan, {task.id: task.status for task in plan.tasks.values()}
            if self._watched and not plan.is_single:
                self._describe(plan)
        elif self._watched and not plan.is_single:
            for task in plan.tasks.values():
                self._tell(task)

    def show_whole(self, plan: "Plan", changed: Sequence[str]) -> None:
        """Show a plan that the user is asked about, and what is different in it."""
        if not (self._watched and not plan.is_single):
            self._describe(plan)
        if changed:
            self._say("\n".join(["What is different:", *(f"  {one_line(line)}" for line in changed)]))

    def at_work(self, plan: "Plan") -> str | None:
        """Return in one line how far the tasks are; None when that is not what is waited for."""
        if plan.is_single or plan.is_over:
            return None
        tasks = list(plan.tasks.values())
        done = sum(task.has_ended for task in tasks)
        busy = ", ".join(f"{task.agent} ({task.id})" for task in tasks if task.status == "running")
        return one_line(f"{done} of {len(tasks)} tasks done{f'; at work: {busy}' if busy else ''}")

    def _describe(self, plan: "Plan") -> None:
        self.was_shown = True
        self._say(described(plan))

    def _tell(self, task: "PlanTask") -> None:
        before = self._told.get(task.id, "pending")
        if task.status == before or task.status in ("pending", "waiting"):
            return
        if task.status == "running" and before != "pending":
            return
        self._told[task.id] = task.status
        self._say(f"  {one_line(task.id)}  {_happened(task)}")


def _happened(task: "PlanTask") -> str:
    match task.status:
        case "running":
            return one_line(f"{task.agent} begins: {task.description}", LINE_CHARACTERS)
        case "completed":
            return f"{task.agent} is done{'' if task.seconds is None else f' after {duration(task.seconds)}'}"
        case status:
            return one_line(f"{status}{f': {task.error}' if task.error else ''}")


def how_it_went(workflow: dict[str, Any], *, is_in_chat: bool) -> str:
    """Return what a workflow has cost beside what was estimated, and how to go on where something is missing."""
    cost = workflow["cost"]
    spent = "What it cost is not known" if cost is None else f"It cost {money(cost)}"
    return f"[{spent}, estimated {estimated(workflow)}.{_how_to_retry(workflow, is_in_chat=is_in_chat)}]"


def _how_to_retry(workflow: dict[str, Any], *, is_in_chat: bool) -> str:
    if workflow["status"] not in TO_RETRY:
        return ""
    command = f"artel workflows retry {short_id(workflow['id'])}"
    if not is_in_chat:
        return f" To do what is missing: {command}"
    keeps = any(task["status"] == "completed" for task in workflow["tasks"])
    return f" To send it again: {RETRY}{f'; to keep what is done: {command}' if keeps else ''}"
