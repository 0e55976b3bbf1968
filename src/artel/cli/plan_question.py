"""The questions about a plan in a terminal: whether to run it, and whether it may cost more."""

from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from artel.cli.plan_text import at_most, changed_plan_text, money
from artel.cli.typed_lines import InputClosed, Settled, TypedLines
from artel.cli.visible_text import one_line
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.client.conversation import Conversation
    from artel.client.plan import Plan

RUN = "Run the plan? y(es) / i(nstruct all tasks) / c(hange it) / n(o) "
CONTINUE = "Continue? y(es) / n(o: answer with the finished tasks) "
INSTRUCTION = "Instruction for all tasks? (Enter: back) "
WHY_NOT = "Why not? (a reason makes a new plan; Enter: only reject it) "
CHANGE = "d(rop) TASK / a(gent) TASK NAME / t(ext) TASK TEXT (Enter: back) "
SETTLED = "No answer needed: it was decided elsewhere, or has expired."
# Errors after which the user can answer again.
_TRY_AGAIN = frozenset({Kind.INVALID, Kind.TOO_LARGE, Kind.TOO_MANY, Kind.UNAVAILABLE})

Say = Callable[[str], None]


def how_to_decide(approval_id: str) -> str:
    """Return how to decide about an approval outside of this terminal."""
    return f'Decide in the browser, or over HTTP: POST /my/approvals/{approval_id}/confirm {{"decision": "approve"}}'


def deadline(request: dict[str, Any]) -> str:
    """Return when an approval expires, in local time: "until 17:04:12"."""
    expires = datetime.fromisoformat(str(request["expires_at"])).astimezone()
    is_today = expires.date() == datetime.now().astimezone().date()
    return f"until {expires:%H:%M:%S}" if is_today else f"until {expires:%Y-%m-%d %H:%M}"


def is_cost_increase(request: dict[str, Any]) -> bool:
    """Return whether a running plan asks for more money; a new plan asks to be run."""
    return "spent" in request["details"]


def cost_increase(request: dict[str, Any]) -> str:
    """Return the costs of a running plan that asks for more money."""
    costs = request["details"]
    return (
        f"The plan will cost more than agreed: {money(costs['agreed_cost'])} agreed, {money(costs['spent'])} spent, "
        f"{money(costs['estimated_cost'])} needed in total."
    )


class PlanQuestion:
    """Asks until there is a decision, and sends it."""

    def __init__(self, conversation: "Conversation", request: dict[str, Any], plan: "Plan", say: Say) -> None:
        self._conversation = conversation
        self._id = str(request["approval_id"])
        self._is_cost_increase = is_cost_increase(request)
        self._deadline = deadline(request)
        self._plan = plan
        self._wanted = deepcopy(plan)
        self._changes: dict[str, dict[str, Any]] = {}
        self._say = say

    def ask(self) -> None:
        """Ask until there is a decision; if the input is closed, print how to decide elsewhere."""
        limit = None if self._is_cost_increase else self._plan.high
        self._say(f"You can decide {self._deadline}." + (f" Stops and asks at {at_most(limit)}." if limit else ""))
        lines = TypedLines(lambda: self._conversation.is_pending(self._id))
        try:
            while not self._is_decided(lines):
                pass
        except Settled:
            self._say(SETTLED)
        except InputClosed:
            self._say(how_to_decide(self._id))

    def _is_decided(self, lines: TypedLines) -> bool:
        """Ask once; return whether that was a decision the server accepted."""
        try:
            return self._ask_once(lines)
        except ArtelError as error:
            if error.kind in (Kind.CONFLICT, Kind.NOT_FOUND):
                raise Settled from error
            if error.kind not in _TRY_AGAIN:
                raise
            self._say(f"artel: {error.detail}")
            return False

    def _ask_once(self, lines: TypedLines) -> bool:
        word, _, rest = lines.ask(CONTINUE if self._is_cost_increase else RUN).partition(" ")
        match word.lower(), rest.strip():
            case (("y" | "yes"), ""):
                return self._approve()
            case (("n" | "no"), why):
                return self._reject(why if why or self._is_cost_increase else lines.ask(WHY_NOT))
            case (("i" | "instruct"), text) if not self._is_cost_increase:
                instruction = text or lines.ask(INSTRUCTION)
                return bool(instruction) and self._approve(instruction=instruction)
            case (("c" | "change"), "") if not self._is_cost_increase:
                self._change(lines)
            case _:
                self._say(f"Please answer {'y or n' if self._is_cost_increase else 'y, i, c or n'} (Ctrl-C cancels).")
        return False

    def _approve(self, **more: str) -> bool:
        changes = {"changes": {"tasks": list(self._changes.values())}} if self._changes else {}
        self._conversation.decide(self._id, {"decision": "approve"} | more | changes)
        self._plan.tasks = self._wanted.tasks
        return True

    def _reject(self, feedback: str) -> bool:
        self._conversation.decide(self._id, {"decision": "reject", "feedback": feedback})
        return True

    # Changes

    def _change(self, lines: TypedLines) -> None:
        while line := lines.ask(CHANGE):
            word, _, rest = line.partition(" ")
            task_id, _, value = rest.strip().partition(" ")
            problem = self._change_task(word.lower(), task_id, value.strip())
            self._say(problem or changed_plan_text(self._wanted))

    def _change_task(self, word: str, task_id: str, value: str) -> str | None:
        """Change a task; return an error message if that is not possible."""
        if task_id not in self._wanted.tasks:
            return f"Unknown task. Tasks: {', '.join(self._wanted.tasks)}."
        match word:
            case "d" | "drop" if self._wanted.is_single:
                return "This is the only task. To reject the plan, answer n."
            case "d" | "drop":
                self._wanted.drop(task_id)
                self._changes[task_id] = {"id": task_id, "drop": True}
            case "a" | "agent":
                return self._assign(task_id, value)
            case "t" | "text" if value:
                self._wanted.describe(task_id, value)
                self._record(task_id, description=value)
            case _:
                return "Type d, a or t, then the task, then the agent's name or the text."
        return None

    def _assign(self, task_id: str, name: str) -> str | None:
        names = [str(agent["name"]) for agent in self._conversation.agents()]
        found = name if name in names else f"agent_{name}"
        if found not in names:
            return f"There is no agent called {one_line(name)}. Agents: {', '.join(names)}."
        self._wanted.assign(task_id, found)
        self._record(task_id, agent=found)
        return None

    def _record(self, task_id: str, **change: str) -> None:
        self._changes[task_id] = self._changes.get(task_id, {"id": task_id}) | change
