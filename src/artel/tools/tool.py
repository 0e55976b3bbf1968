"""The base class of tools, and their result."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
        shown, left = _beginning(value, MAX_RESULT_CHARACTERS)
        if left >= 0:
            text = _dumped({"success": self.success, name: value})
            if len(text) <= MAX_RESULT_CHARACTERS:
                return text
        if isinstance(value, str):
            size = str(len(value))
        else:
            shown = _dumped(shown)
            size = str(len(shown)) if left >= 0 else f"more than {MAX_RESULT_CHARACTERS - left}"
        shown = shown[:MAX_RESULT_CHARACTERS]
        while True:
            note = f"Only the first {len(shown)} of {size} characters are shown."
            text = _dumped({"success": self.success, "cut": note, name: shown})
            if len(text) <= MAX_RESULT_CHARACTERS:
                return text
            # Escaped characters make the text longer: cut in proportion, and measure again.
            shown = shown[: min(len(shown) - 1, len(shown) * MAX_RESULT_CHARACTERS // len(text))]


class Tool(ABC):
    """A tool; the user and agent that it acts for are part of the tool, never of the arguments."""

    name: str
    schema: ToolSchema
    level = Level.CRITICAL  # unless the tool says otherwise
    records_itself = False  # whether it writes its own audit records

    def question(self, _arguments: Mapping[str, Any]) -> Question | None:
        """Return the question that the user must answer before the call, if any."""
        return None

    async def approval_details(self, _arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what an approval is bound to beyond the arguments, for the question's details."""
        return {}

    @abstractmethod
    async def call(self, arguments: Mapping[str, Any], approval: Decision | None = None) -> ToolResult:
        """Carry out a call, whose arguments match the schema; raise NeedsApproval if the user must be asked first."""


def argument(kind: str, description: str, **rules: Any) -> dict[str, Any]:
    """Return the JSON schema of one argument; `kind` is its JSON type."""
    return {"type": kind, **rules, "description": description}


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
    if isinstance(value, dict | list):
        shown = []
        for name, item in value.items() if isinstance(value, dict) else (("", item) for item in value):
            if room < 0:
                break
            start, room = _beginning(item, room - len(name))
            shown.append((name, start))
        return dict(shown) if isinstance(value, dict) else [start for _, start in shown], room
    return value, room


def _dumped(value: Any) -> str:
    return encodable(json.dumps(value, ensure_ascii=False, default=str))  # model servers refuse lone surrogates
