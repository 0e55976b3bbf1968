"""The interfaces of tools, and their result."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from artel.brain.brain import ToolSchema
from artel.text import encodable
from artel.tools.consent import Decision, Question
from artel.tools.policy import Level

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_RESULT_CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call: `data` on success, else `error`, a text that a model can act on."""

    success: bool
    data: "JsonValue" = None
    error: str | None = None

    @classmethod
    def failure(cls, error: str) -> "ToolResult":
        """Return the result of a failed call."""
        return cls(success=False, error=error)

    def text_for_model(self) -> str:
        """Return the result as a JSON document of at most 16,000 characters, with a note if it was cut."""
        name, value = ("data", self.data) if self.success else ("error", self.error)
        # Serialize only what can be shown: a file of 10 MB takes too long.
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
            # Escaped characters make the text longer: cut in proportion, and measure again.
            shown = shown[: min(len(shown) - 1, len(shown) * MAX_RESULT_CHARACTERS // len(text))]


class Tool(Protocol):
    """A tool; the user and agent that it acts for are part of the tool, never of the arguments."""

    @property
    def name(self) -> str:
        """The name that the model uses."""

    @property
    def schema(self) -> ToolSchema:
        """The description for the model."""

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Carry out a call; the arguments have been validated against the schema."""


class AskingTool(ABC):
    """A tool whose calls may need the user's approval; with `records_itself` it writes its own audit records."""

    level: Level
    records_itself = False

    def question(self, _arguments: Mapping[str, Any]) -> Question | None:
        """Return the question that the user must answer before the call, if any."""
        return None

    async def approval_details(self, _arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what an approval is bound to beyond the arguments, for the question's details."""
        return {}

    @abstractmethod
    async def call(self, arguments: Mapping[str, Any], approval: Decision | None = None) -> ToolResult:
        """Carry out a call; raise NeedsApproval if the user must be asked first."""


def tool_schema(
    name: str, description: str, properties: Mapping[str, Any], required: Sequence[str] | None = None
) -> ToolSchema:
    """Return the schema of a tool that takes these arguments and no others."""
    parameters: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required is not None:
        parameters["required"] = list(required)
    parameters["additionalProperties"] = False
    return ToolSchema(name, description, parameters)


def _beginning(value: Any, room: int) -> tuple[Any, int]:
    """Return as much of a value as fits into `room` characters of JSON, and the room left: negative if it was cut.

    JSON's quotes, commas and escapes are not counted, so a value that is cut here would never have fit.
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
    return encodable(json.dumps(value, ensure_ascii=False, default=str))  # model servers refuse lone surrogates
