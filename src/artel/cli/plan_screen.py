"""The terminal output of a plan: the plan once, then a line when a task starts or ends."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from artel.cli.output import short_id
from artel.cli.plan_text import duration, estimated, money, plan_text
from artel.cli.visible_text import one_line

if TYPE_CHECKING:
    from artel.client.plan import Plan, PlanTask

LINE_CHARACTERS = 100
RETRY = "/retry"  # in the chat
TO_RETRY = frozenset({"partial", "failed", "timeout", "cancelled"})


class PlanScreen:
    """Prints the progress of a plan in a terminal; a plan of one task is not shown, as its result is the answer."""

    def __init__(self, say: Callable[[str], None], *, watched: bool) -> None:
        self._say = say
        self._watched = watched
        self._seen: Plan | None = None
        self._printed_statuses: dict[str, str] = {}
        self.was_shown = False

    def show(self, plan: "Plan") -> None:
        """Print a new plan, or the status changes of its tasks since the last call."""
        if plan is not self._seen:
            self._seen = plan
            self._printed_statuses = {task.id: task.status for task in plan.tasks.values()}
            if self._watched and not plan.is_single:
                self._describe(plan)
        elif self._watched and not plan.is_single:
            for task in plan.tasks.values():
                self._show_status(task)

    def show_whole(self, plan: "Plan", changed: Sequence[str]) -> None:
        """Print a plan that needs an approval, unless `show` did, and its changes since the last one."""
        if not (self._watched and not plan.is_single):
            self._describe(plan)
        if changed:
            self._say("\n".join(["Changes:", *(f"  {one_line(line)}" for line in changed)]))

    def progress(self, plan: "Plan") -> str | None:
        """Return how many tasks are done and which are running; None for a plan of one task or one that is over."""
        if plan.is_single or plan.is_over:
            return None
        tasks = list(plan.tasks.values())
        done = sum(task.has_ended for task in tasks)
        busy = ", ".join(f"{task.agent} ({task.id})" for task in tasks if task.status == "running")
        return one_line(f"{done} of {len(tasks)} tasks done{f'; running: {busy}' if busy else ''}")

    def _describe(self, plan: "Plan") -> None:
        self.was_shown = True
        self._say(plan_text(plan))

    def _show_status(self, task: "PlanTask") -> None:
        before = self._printed_statuses.get(task.id, "pending")
        if task.status == before or task.status in ("pending", "waiting"):
            return
        if task.status == "running" and before != "pending":
            return
        self._printed_statuses[task.id] = task.status
        self._say(f"  {one_line(task.id)}  {_status(task)}")


def _status(task: "PlanTask") -> str:
    match task.status:
        case "running":
            return one_line(f"{task.agent} started: {task.description}", LINE_CHARACTERS)
        case "completed":
            return f"{task.agent} is done{'' if task.seconds is None else f' after {duration(task.seconds)}'}"
        case status:
            return one_line(f"{status}{f': {task.error}' if task.error else ''}")


def cost_summary(workflow: dict[str, Any], *, is_in_chat: bool) -> str:
    """Return the cost of a workflow, its estimate, and how to retry it if it is incomplete."""
    retry = _how_to_retry(workflow, is_in_chat=is_in_chat)
    return f"[Cost: {money(workflow['cost'])}, estimated: {estimated(workflow)}.{retry}]"


def _how_to_retry(workflow: dict[str, Any], *, is_in_chat: bool) -> str:
    if workflow["status"] not in TO_RETRY:
        return ""
    command = f"artel workflows retry {short_id(workflow['id'])}"
    if not is_in_chat:
        return f" To run the missing tasks: {command}"
    has_results = any(task["status"] == "completed" for task in workflow["tasks"])
    return f" To send it again: {RETRY}{f'; to keep the finished tasks: {command}' if has_results else ''}"
