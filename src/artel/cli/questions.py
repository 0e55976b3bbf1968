"""Questions in a terminal about plans and tool calls, which may be decided elsewhere at the same time, or expire."""

import os
import select
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from artel.cli.output import announcement, json_text, one_line, visible
from artel.cli.plan_screen import at_most, how_to_decide, plan_text
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.client.conversation import Conversation
    from artel.client.plan import PlanView

POLL_SECONDS = 2.0
MAX_BYTES = 4096  # the longest line of a terminal
RUN = "Run the plan? y(es) / i(nstruct all tasks) / c(hange it) / n(o) "
CONTINUE = "Continue? y(es) / n(o: answer with the finished tasks) "
INSTRUCTION = "Instruction for all tasks? (Enter: back) "
WHY_NOT = "Why not? (a reason makes a new plan; Enter: only reject it) "
CHANGE = "d(rop) TASK / a(gent) TASK NAME / t(ext) TASK TEXT (Enter: back) "
# Errors after which the user can answer again.
_TRY_AGAIN = frozenset({Kind.INVALID, Kind.TOO_LARGE, Kind.TOO_MANY, Kind.UNAVAILABLE})
MORE = "\n  | "  # before further lines of an argument, so that none looks like another argument
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
# How a tool is named in a question, and what was not done after a refusal.
_VERBS = {
    "tool_write_file": ("write", "written"),
    "tool_edit_file": ("edit", "changed"),
    "tool_delete_file": ("delete", "deleted"),
    "tool_run_command": ("run", "run"),
}
_OUTCOMES = {
    "approved": "It was approved elsewhere.",
    "used": "It was approved elsewhere.",
    "rejected": "It was refused elsewhere.",
    "expired": "Nobody answered in time, so it was not done.",
}

Note = Callable[..., None]  # prints a text, with a style and `wrap`


class Settled(Exception):
    """The question was decided elsewhere, or has expired."""


class InputClosed(Exception):
    """The user pressed Ctrl-D, to decide elsewhere."""


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def discard_typed() -> None:
    """Discard input that was typed before a question was shown."""
    import termios  # not available on every system

    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def diff_lines(diff: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a diff with hidden characters escaped, each with its style."""
    for line in visible(diff).removesuffix("\n").split("\n") if diff else ():
        yield line, _COLOURS.get(line[:1], "")


class ToolAnswer(NamedTuple):
    approved: bool
    holds: Literal["once", "session", "always"] = "once"
    feedback: str = ""


def parse_answer(line: str, *, can_grant: bool) -> ToolAnswer | None:
    """Return the answer that a typed line is: y, n, n REASON, and s and a if a grant is offered; None if it is none."""
    word, _, rest = line.partition(" ")
    match word.lower(), rest.strip():
        case (("n" | "no"), reason):
            return ToolAnswer(False, feedback=reason)
        case (("y" | "yes"), ""):
            return ToolAnswer(True)
        case (("s" | "session"), "") if can_grant:
            return ToolAnswer(True, "session")
        case (("a" | "always"), "") if can_grant:
            return ToolAnswer(True, "always")
    return None


def deadline(request: dict[str, Any]) -> str:
    """Return when an approval expires, in local time: "until 17:04:12"."""
    expires = datetime.fromisoformat(str(request["expires_at"])).astimezone()
    is_today = expires.date() == datetime.now().astimezone().date()
    return f"until {expires:%H:%M:%S}" if is_today else f"until {expires:%Y-%m-%d %H:%M}"


class _ApprovalQuestion(ABC):
    """Asks about an approval until there is a decision, and sends it."""

    def __init__(self, conversation: "Conversation", request: dict[str, Any], note: Note) -> None:
        self._conversation = conversation
        self._request = request
        self._id = str(request["approval_id"])
        self._note = note
        self._lines: deque[str] = deque()  # typed and not read yet

    def _ask_until_decided(self) -> None:
        """Ask until there is a decision; if the input is closed, print how to decide elsewhere."""
        discard_typed()
        is_decided = False
        while not is_decided:
            try:
                is_decided = self._ask_once()
            except Settled:
                self._note(self._outcome())
                return
            except InputClosed:
                self._note(how_to_decide(self._id))
                return
            except ArtelError as error:
                is_decided = error.kind in (Kind.CONFLICT, Kind.NOT_FOUND)
                if not is_decided and error.kind not in _TRY_AGAIN:
                    raise
                self._note(self._outcome() if is_decided else f"artel: {error.detail}")

    def _typed(self, prompt: str) -> str:
        """Ask on standard error and return the next line; raise Settled or InputClosed if there is none."""
        try:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            while not self._lines:
                self._wait()
        except (Settled, InputClosed, KeyboardInterrupt):
            sys.stderr.write("\n")  # end the line of the prompt
            raise
        return self._lines.popleft()

    def _wait(self) -> None:
        if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            data = os.read(sys.stdin.fileno(), MAX_BYTES)
            if not data:
                raise InputClosed
            self._lines.extend(visible(line).strip() for line in data.decode(errors="replace").splitlines())
        elif self._conversation.approval_status(self._id) not in ("pending", ""):  # "": the server can't be reached
            raise Settled

    @abstractmethod
    def _ask_once(self) -> bool:
        """Ask once; return whether there was a decision."""

    @abstractmethod
    def _outcome(self) -> str:
        """Return the text for a question that was decided elsewhere."""


# Plans


def is_cost_increase(request: dict[str, Any]) -> bool:
    """Return whether a running plan asks for more money; a new plan asks to be run."""
    return "spent" in request["details"]


class PlanQuestion(_ApprovalQuestion):
    """Asks whether to run a plan, or whether it may cost more."""

    def __init__(self, conversation: "Conversation", request: dict[str, Any], plan: "PlanView", note: Note) -> None:
        super().__init__(conversation, request, note)
        self._is_cost_increase = is_cost_increase(request)
        self._plan = plan
        self._wanted = deepcopy(plan)
        self._changes: dict[str, dict[str, Any]] = {}

    def ask(self) -> None:
        limit = None if self._is_cost_increase else self._plan.high
        stops = f" Stops and asks at {at_most(limit)}." if limit else ""
        self._note(f"You can decide {deadline(self._request)}.{stops}")
        self._ask_until_decided()

    def _outcome(self) -> str:
        return "No answer needed: it was decided elsewhere, or has expired."

    def _ask_once(self) -> bool:
        word, _, rest = self._typed(CONTINUE if self._is_cost_increase else RUN).partition(" ")
        match word.lower(), rest.strip():
            case (("y" | "yes"), ""):
                return self._approve()
            case (("n" | "no"), why):
                feedback = why if why or self._is_cost_increase else self._typed(WHY_NOT)
                self._conversation.decide(self._id, {"decision": "reject", "feedback": feedback})
                return True
            case (("i" | "instruct"), text) if not self._is_cost_increase:
                instruction = text or self._typed(INSTRUCTION)
                return bool(instruction) and self._approve(instruction=instruction)
            case (("c" | "change"), "") if not self._is_cost_increase:
                while line := self._typed(CHANGE):
                    self._note(self._change(line) or plan_text(self._wanted, is_changed=True))
            case _:
                self._note(f"Please answer {'y or n' if self._is_cost_increase else 'y, i, c or n'} (Ctrl-C cancels).")
        return False

    def _approve(self, **more: str) -> bool:
        changes = {"changes": {"tasks": list(self._changes.values())}} if self._changes else {}
        self._conversation.decide(self._id, {"decision": "approve"} | more | changes)
        self._plan.tasks = self._wanted.tasks
        return True

    def _change(self, line: str) -> str | None:
        """Change a task as typed; return an error message if that is not possible."""
        word, _, rest = line.partition(" ")
        task_id, _, value = rest.strip().partition(" ")
        if task_id not in self._wanted.tasks:
            return f"Unknown task. Tasks: {', '.join(self._wanted.tasks)}."
        change: dict[str, Any]
        match word.lower(), value.strip():
            case (("d" | "drop"), _) if self._wanted.is_single:
                return "This is the only task. To reject the plan, answer n."
            case (("d" | "drop"), _):
                self._wanted.drop(task_id)
                self._changes[task_id] = {"id": task_id, "drop": True}
                return None
            case (("a" | "agent"), name):
                names = [str(agent["name"]) for agent in self._conversation.agents()]
                change = {"agent": name if name in names else f"agent_{name}"}
                if change["agent"] not in names:
                    return f"There is no agent called {one_line(name)}. Agents: {', '.join(names)}."
            case (("t" | "text"), text) if text:
                change = {"description": text}
            case _:
                return "Type d, a or t, then the task, then the agent's name or the text."
        self._wanted.tasks[task_id] = replace(self._wanted.tasks[task_id], **change)
        self._changes[task_id] = self._changes.get(task_id, {"id": task_id}) | change
        return None


# Tool calls


class ToolQuestion(_ApprovalQuestion):
    """Shows a tool call, and asks whether the agent may make it."""

    def __init__(self, conversation: "Conversation", request: dict[str, Any], agent: str, note: Note) -> None:
        super().__init__(conversation, request, note)
        self._details: dict[str, Any] = request.get("details") or {}
        self._grant = self._details.get("grant")
        self._agent = agent
        arguments = request["arguments"]
        self._verb, self._done = _VERBS.get(request["tool"], ("", ""))
        self._name = str(arguments.get("path") or arguments.get("name") or "")
        self._action = f"{self._verb or 'use'} {visible(self._name if self._verb else str(request['tool']), keep='')}"

    def ask(self) -> None:
        """Show the call and ask until there is a decision; if the connector asks, print where to decide."""
        stored_diff = self._details.get("diff")
        diff = str(self._whole_arguments() if stored_diff is None else stored_diff)
        self._note(f"{self._agent} wants to {self._action}:", "bold")
        warnings = (self._details.get(field) for field in ("reason", "warning", "notice"))
        for warning in (*warnings, announcement("This", self._name, diff)):
            if warning:
                self._note(str(warning), "yellow")
        if stored_diff == "":
            name = visible(self._name, keep="")
            is_same = self._details.get("old_sha256") == self._details.get("new_sha256")
            self._note(f"No change: {name} already has this content." if is_same else f"{name} will be empty.")
        for line, style in diff_lines(diff):
            self._note(line, style, wrap=False)
        if self._details.get("where") == "terminal":
            self._note("Answer in the terminal where `artel connect` runs; it asks only there.")
            return
        longer = f"s: for this session, a: always ({visible(str(self._grant), keep='')}), " if self._grant else ""
        self._note(f"y: once, {longer}n: no, n REASON: no, and why. You can decide {deadline(self._request)}.", "dim")
        self._ask_until_decided()

    def _outcome(self) -> str:
        return _OUTCOMES.get(self._conversation.approval_status(self._id), "No longer needed.")

    def _whole_arguments(self) -> str:
        """Return the arguments of a call without a diff: as added and removed lines if it changes a file."""
        arguments = self._request["arguments"]
        if not self._verb:
            texts = [
                f"{visible(name, keep='')}: {value if isinstance(value, str) else json_text(value, None)}"
                for name, value in arguments.items()
            ]
            return "\n".join(text.replace("\n", MORE) for text in sorted(texts, key=len))
        lines = {"+": arguments["content"]} if "content" in arguments else {}
        if "old" in arguments and not lines:
            lines = {"-": arguments["old"], "+": arguments.get("new", "")}
        return "\n".join(f"{mark}{line}" for mark, text in lines.items() for line in str(text).split("\n"))

    def _ask_once(self) -> bool:
        line = self._typed(f"{self._action}? [{'y/s/a/n' if self._grant else 'y/n'}] ")
        answer = parse_answer(line, can_grant=bool(self._grant))
        if answer is None:
            self._note(f"Please answer {'y, s, a or n' if self._grant else 'y or n'} (Ctrl-C cancels).")
            return False
        if answer.approved:
            changes = {} if answer.holds == "once" else {"changes": {"holds": answer.holds}}
            self._conversation.decide(self._id, {"decision": "approve"} | changes)
        else:
            self._conversation.decide(self._id, {"decision": "reject", "feedback": answer.feedback})
            outcome = f"Nothing was {self._done}" if self._done else "It was not done"
            self._note(f"You refused: {self._action}. {outcome}.")
        return True
