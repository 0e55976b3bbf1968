"""The questions about a plan in a terminal: may it be carried out, as it is or otherwise; may it cost more."""

from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from artel.cli.plan_text import at_most, described_changed, money
from artel.cli.typed_lines import NobodyAnswers, Settled, TypedLines
from artel.cli.visible_text import one_line
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.client.conversation import Conversation
    from artel.client.plan import Plan

CARRY_OUT = "Carry it out? y(es) / i(nstruct everybody) / c(hange it) / n(o) "
GO_ON = "Go on? y(es) / n(o: what is done is the answer) "
INSTRUCTION = "What should everybody know? (Enter: back) "
WHY_NOT = "Why not? (it is planned anew; Enter: nothing is done) "
CHANGE = "d(rop) TASK / a(gent) TASK NAME / t(ext) TASK WORDS (Enter: back) "
SETTLED = "No answer is needed any more: it was decided elsewhere, or too late."
# After these the user can say something else; after others the plan can't be decided about.
_TRY_AGAIN = frozenset({Kind.INVALID, Kind.TOO_LARGE, Kind.TOO_MANY, Kind.UNAVAILABLE})

Say = Callable[[str], None]


def elsewhere(approval_id: str) -> str:
    """Say how somebody decides who is not asked here."""
    return f'Decide in the browser, or over HTTP: POST /my/approvals/{approval_id}/confirm {{"decision": "approve"}}'


def until(request: dict[str, Any]) -> str:
    """Return until when somebody can decide, by the clock of this machine."""
    expires = datetime.fromisoformat(str(request["expires_at"])).astimezone()
    is_today = expires.date() == datetime.now().astimezone().date()
    return f"until {expires:%H:%M:%S}" if is_today else f"until {expires:%Y-%m-%d %H:%M}"


def is_about_money(request: dict[str, Any]) -> bool:
    """Return whether a plan that runs asks for more, rather than to begin."""
    return "spent" in request["details"]


def what_it_asks(request: dict[str, Any]) -> str:
    """Return the figures of a plan that asks for more."""
    told = request["details"]
    return (
        f"The plan is about to cost more than agreed: {money(told['agreed_cost'])} agreed, {money(told['spent'])} "
        f"spent. It asks for {money(told['estimated_cost'])} in all."
    )


class PlanQuestion:
    """Asks until there is a decision, and sends it."""

    def __init__(self, conversation: "Conversation", request: dict[str, Any], plan: "Plan", say: Say) -> None:
        self._conversation = conversation
        self._id = str(request["approval_id"])
        self._is_about_money = is_about_money(request)
        self._until = until(request)
        self._plan = plan
        self._wanted = deepcopy(plan)
        self._changes: dict[str, dict[str, Any]] = {}
        self._say = say

    def ask(self) -> None:
        """Ask; where nobody answers, say how it can be decided elsewhere."""
        limit = None if self._is_about_money else self._plan.high
        self._say(f"You can decide {self._until}." + (f" Stops and asks at {at_most(limit)}." if limit else ""))
        lines = TypedLines(lambda: self._conversation.is_asked(self._id))
        try:
            while not self._is_decided(lines):
                pass
        except Settled:
            self._say(SETTLED)
        except NobodyAnswers:
            self._say(elsewhere(self._id))

    def _is_decided(self, lines: TypedLines) -> bool:
        """Ask once; say whether that was a decision. What the server refuses can be said otherwise."""
        try:
            return self._answered(lines)
        except ArtelError as error:
            if error.kind in (Kind.CONFLICT, Kind.NOT_FOUND):
                raise Settled from error
            if error.kind not in _TRY_AGAIN:
                raise
            self._say(f"artel: {error.detail}")
            return False

    def _answered(self, lines: TypedLines) -> bool:
        word, _, rest = lines.ask(GO_ON if self._is_about_money else CARRY_OUT).partition(" ")
        match word.lower(), rest.strip():
            case (("y" | "yes"), ""):
                return self._approve()
            case (("n" | "no"), why):
                return self._reject(why if why or self._is_about_money else lines.ask(WHY_NOT))
            case (("i" | "instruct"), told) if not self._is_about_money:
                instruction = told or lines.ask(INSTRUCTION)
                return bool(instruction) and self._approve(instruction=instruction)
            case (("c" | "change"), "") if not self._is_about_money:
                self._change(lines)
            case _:
                self._say(f"Please answer {'y or n' if self._is_about_money else 'y, i, c or n'} (Ctrl-C cancels).")
        return False

    def _approve(self, **more: str) -> bool:
        changes = {"changes": {"tasks": list(self._changes.values())}} if self._changes else {}
        self._conversation.decide(self._id, {"decision": "approve"} | more | changes)
        self._plan.tasks = self._wanted.tasks
        return True

    def _reject(self, feedback: str) -> bool:
        self._conversation.decide(self._id, {"decision": "reject", "feedback": feedback})
        return True

    # Changing it

    def _change(self, lines: TypedLines) -> None:
        while line := lines.ask(CHANGE):
            word, _, rest = line.partition(" ")
            task_id, _, value = rest.strip().partition(" ")
            problem = self._changed(word.lower(), task_id, value.strip())
            self._say(problem or described_changed(self._wanted))

    def _changed(self, word: str, task_id: str, value: str) -> str | None:
        """Change a task; return what is wrong with that."""
        if task_id not in self._wanted.tasks:
            return f"Say which task: {', '.join(self._wanted.tasks)}."
        match word:
            case "d" | "drop" if self._wanted.is_single:
                return "This is the last task. To do nothing, say n."
            case "d" | "drop":
                self._wanted.drop(task_id)
                self._changes[task_id] = {"id": task_id, "drop": True}
            case "a" | "agent":
                return self._give(task_id, value)
            case "t" | "text" if value:
                self._wanted.describe(task_id, value)
                self._note(task_id, description=value)
            case _:
                return "Say d, a or t, then the task, then the agent's name or the words."
        return None

    def _give(self, task_id: str, name: str) -> str | None:
        names = [str(agent["name"]) for agent in self._conversation.agents()]
        found = name if name in names else f"agent_{name}"
        if found not in names:
            return f"There is no agent called {one_line(name)}. There are: {', '.join(names)}."
        self._wanted.give(task_id, found)
        self._note(task_id, agent=found)
        return None

    def _note(self, task_id: str, **change: str) -> None:
        self._changes[task_id] = self._changes.get(task_id, {"id": task_id}) | change
