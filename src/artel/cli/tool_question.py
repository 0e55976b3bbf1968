"""The question in `artel chat` whether an agent may use a tool."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from artel.cli.plan_question import deadline, how_to_decide
from artel.cli.typed_lines import InputClosed, Settled, TypedLines
from artel.cli.visible_text import announcement, visible
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.client.conversation import Conversation

_VERBS = {
    "tool_write_file": "write",
    "tool_edit_file": "edit",
    "tool_delete_file": "delete",
    "tool_run_command": "run",
}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_OUTCOMES = {
    "approved": "It was approved elsewhere.",
    "used": "It was approved elsewhere.",
    "rejected": "It was refused elsewhere.",
    "expired": "Nobody answered in time, so it was not done.",
}
_DONE = {
    "tool_write_file": "written",
    "tool_edit_file": "changed",
    "tool_delete_file": "deleted",
    "tool_run_command": "run",
}
NO_LONGER_NEEDED = "No longer needed."

Note = Callable[..., None]


class ToolQuestion:
    """Shows a tool call, asks until there is a decision, and sends it."""

    def __init__(self, conversation: "Conversation", request: dict[str, Any], agent: str, note: Note) -> None:
        self._conversation = conversation
        self._request = request
        self._id = str(request["approval_id"])
        self._details: dict[str, Any] = request.get("details") or {}
        self._agent = agent
        self._note = note

    def ask(self) -> None:
        """Ask until there is a decision; if the connector asks, or the input is closed, print where to decide."""
        self._show()
        if self._details.get("where") == "terminal":
            self._note("Answer in the terminal where `artel connect` runs; it asks only there.", "")
            return
        grant = self._details.get("grant")
        longer = f"s: for this session, a: always ({visible(str(grant), keep='')}), " if grant else ""
        self._note(f"y: once, {longer}n: no, n REASON: no, and why. You can decide {deadline(self._request)}.", "dim")
        lines = TypedLines(lambda: self._conversation.is_pending(self._id))
        try:
            while not self._is_decided(lines):
                pass
        except Settled:
            self._note(_OUTCOMES.get(self._conversation.approval_status(self._id), NO_LONGER_NEEDED), "")
        except InputClosed:
            self._note(how_to_decide(self._id), "")

    def _show(self) -> None:
        arguments = self._request["arguments"]
        name = arguments.get("path") or arguments.get("name") or ""
        verb = _VERBS.get(self._request["tool"])
        self._action = f"{verb or 'use'} {visible(str(name if verb else self._request['tool']), keep='')}"
        stored_diff = self._details.get("diff")
        diff = str(_whole(arguments, has_verb=verb is not None) if stored_diff is None else stored_diff)
        self._note(f"{self._agent} wants to {self._action}:", "bold")
        warnings = (self._details.get(field) for field in ("reason", "warning", "notice"))
        for warning in (*warnings, announcement("This", str(name), diff)):
            if warning:
                self._note(str(warning), "yellow")
        if stored_diff == "":
            self._note(self._without_diff(visible(str(name), keep="")), "")
        for line in visible(diff).removesuffix("\n").split("\n") if diff else ():
            self._note(line, diff_style(line), wrap=False)

    def _without_diff(self, name: str) -> str:
        """Return the effect of a write with an empty diff: none, or an empty file."""
        if self._details.get("old_sha256") == self._details.get("new_sha256"):
            return f"No change: {name} already has this content."
        return f"{name} will be empty."

    def _is_decided(self, lines: TypedLines) -> bool:
        grant = self._details.get("grant")
        word, _, rest = lines.ask(f"{self._action}? [{'y/s/a/n' if grant else 'y/n'}] ").partition(" ")
        match word.lower(), rest.strip():
            case (("y" | "yes"), ""):
                return self._decide({"decision": "approve"})
            case (("s" | "session"), "") if grant:
                return self._decide({"decision": "approve", "changes": {"holds": "session"}})
            case (("a" | "always"), "") if grant:
                return self._decide({"decision": "approve", "changes": {"holds": "always"}})
            case (("n" | "no"), why):
                return self._decide({"decision": "reject", "feedback": why}) and self._show_refusal()
        self._note(f"Please answer {'y, s, a or n' if grant else 'y or n'} (Ctrl-C cancels).", "")
        return False

    def _decide(self, decision: dict[str, Any]) -> bool:
        try:
            self._conversation.decide(self._id, decision)
        except ArtelError as error:
            if error.kind in (Kind.CONFLICT, Kind.NOT_FOUND):
                raise Settled from error
            if error.kind not in (Kind.INVALID, Kind.TOO_LARGE, Kind.TOO_MANY, Kind.UNAVAILABLE):
                raise
            self._note(f"artel: {error.detail}", "")
            return False
        return True

    def _show_refusal(self) -> bool:
        done = _DONE.get(self._request["tool"])
        self._note(f"You refused: {self._action}. {f'Nothing was {done}' if done else 'It was not done'}.", "")
        return True


def diff_style(line: str) -> str:
    """Return the style of a line of a diff."""
    return _COLOURS.get(line[:1], "")


def _whole(arguments: dict[str, Any], *, has_verb: bool) -> str:
    """Return the arguments of a call without a diff: as added and removed lines if it changes a file."""
    if not has_verb:
        return "\n".join(f"{name}: {value}" for name, value in arguments.items())
    if "content" in arguments:
        return _marked("+", str(arguments["content"]))
    if "old" not in arguments:
        return ""
    return f"{_marked('-', str(arguments['old']))}\n{_marked('+', str(arguments.get('new', '')))}"


def _marked(mark: str, text: str) -> str:
    return "\n".join(f"{mark}{line}" for line in text.split("\n"))
