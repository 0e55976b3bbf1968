"""What a tool is, and what it answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from artel.brain.brain import ToolSchema
from artel.tools.consent import Decision, Question
from artel.tools.policy import Level

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_RESULT_CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call: `data` when it went well, else `error`, in words that a model can act on."""

    success: bool
    data: "JsonValue" = None
    error: str | None = None

    @classmethod
    def failure(cls, error: str) -> "ToolResult":
        """Return the result of a call that did not go well."""
        return cls(success=False, error=error)

    def text_for_model(self) -> str:
        """Return the result as one JSON document of at most 16,000 characters, which says so when it was cut."""
        name, value = ("data", self.data) if self.success else ("error", self.error)
        # A file of 10 MB takes too long to be written as JSON: only what can be shown is.
        start, left = _beginning(value, MAX_RESULT_CHARACTERS)
        if left >= 0:
            text = _dumped({"success": self.success, name: value})
            if len(text) <= MAX_RESULT_CHARACTERS:
                return text
        if isinstance(value, str):
            return self._cut(name, start, str(len(value)))
        written = _dumped(start)
        size = str(len(written)) if left >= 0 else f"more than {MAX_RESULT_CHARACTERS - left}"
        return self._cut(name, written, size)

    def _cut(self, name: str, start: str, size: str) -> str:
        shown = start[:MAX_RESULT_CHARACTERS]
        while True:
            note = f"Only the first {len(shown)} of {size} characters are shown."
            text = _dumped({"success": self.success, "cut": note, name: shown})
            over = len(text) - MAX_RESULT_CHARACTERS
            if over <= 0:
                return text
            # Marks that JSON writes longer than they are make the text grow: cut in proportion, and look again.
            shown = shown[: min(len(shown) - 1, len(shown) * MAX_RESULT_CHARACTERS // len(text))]


class Tool(Protocol):
    """Something that an agent can do; who it does it for sits in the tool, never in the arguments."""

    @property
    def name(self) -> str:
        """What the model calls it by."""

    @property
    def schema(self) -> ToolSchema:
        """How it is described to the model."""

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Do it; the arguments have been checked against the schema."""


@runtime_checkable
class AskingTool(Protocol):
    """A tool about which a person may have to be asked first."""

    level: Level
    notes_itself: bool

    def question(self, arguments: Mapping[str, Any]) -> Question | None:
        """Return what a person must be asked before the call, if anything."""

    async def seen(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what an approval of the call is to be bound to beyond the arguments, for the question's details."""

    async def call(self, arguments: Mapping[str, Any], approval: Decision | None = None) -> ToolResult:
        """Do it; raise NeedsApproval if it turns out that a person must be asked."""


def _beginning(value: Any, room: int) -> tuple[Any, int]:
    """Return as much of a value as `room` characters of JSON can show, and the room left: negative if it was cut.

    Marks that JSON adds are not counted, so that what is cut never fits.
    """
    if isinstance(value, str):
        return value[: max(room, 0)], room - len(value)
    room -= 1
    if isinstance(value, dict):
        fields = {}
        for name, item in value.items():
            if room < 0:
                break
            fields[name], room = _beginning(item, room - len(name))
        return fields, room
    if isinstance(value, list):
        items = []
        for item in value:
            if room < 0:
                break
            start, room = _beginning(item, room)
            items.append(start)
        return items, room
    return value, room


def _dumped(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    # Half a character, which no model's server takes.
    return text if text.isascii() else text.encode(errors="replace").decode()
