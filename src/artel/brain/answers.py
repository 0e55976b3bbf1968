"""An answer in the OpenAI format, put together from its parts or read as a whole."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from artel.brain.brain import ToolCall
from artel.brain.errors import ModelAnswerInvalid

MAX_TOOL_CALLS = 128


@dataclass(slots=True)
class _Call:
    """A tool call while it is written."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Answer:
    """What a model has said so far. Servers differ a lot, so every field is taken with caution."""

    def __init__(self) -> None:
        # Whether there was an answer at all, be it an empty one.
        self.begun = False
        self.finish_reason: str | None = None
        self.tokens: tuple[int, int] | None = None
        self._text: list[str] = []
        self._calls: dict[int, _Call] = {}

    @property
    def content(self) -> str:
        """The text."""
        return "".join(self._text)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that the model wants to have called, in its order."""
        return tuple(
            ToolCall(call.id or f"call_{index}", call.name, "".join(call.arguments) or "{}")
            for index, call in sorted(self._calls.items())
        )

    def take(self, document: Any) -> str:
        """Take a whole answer or a piece of a streamed one; return the text that it adds."""
        choices = document.get("choices") if isinstance(document, dict) else None
        if not isinstance(document, dict) or (choices is None and "usage" not in document):
            raise ModelAnswerInvalid("The model's server answered something that is not a chat completion.")
        self._take_usage(document.get("usage"))
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return ""
        self.begun = True
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]
        part = choice.get("delta") or choice.get("message")
        if not isinstance(part, dict):
            return ""
        for call in part.get("tool_calls") or ():
            self._take_call(call)
        text = _text_of(part.get("content") or part.get("refusal"))
        if text:
            self._text.append(text)
        return text

    def _take_usage(self, usage: Any) -> None:
        match usage:
            case {"prompt_tokens": int(given), "completion_tokens": int(written)} if given > 0 and written >= 0:
                self.tokens = given, written

    def _take_call(self, delta: Any) -> None:
        if not isinstance(delta, dict) or not isinstance(delta.get("function"), dict):
            return
        call = self._calls.setdefault(self._place_of(delta), _Call())
        if len(self._calls) > MAX_TOOL_CALLS:
            raise ModelAnswerInvalid(f"The model asked for more than {MAX_TOOL_CALLS} tools at once.")
        function = delta["function"]
        # Some servers send id and name again with every piece.
        call.id = call.id or str(delta.get("id") or "")
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments:
            call.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def _place_of(self, delta: dict[str, Any]) -> int:
        """Return which call a piece belongs to; servers that send whole calls leave the index out."""
        index = delta.get("index")
        if isinstance(index, int):
            return index
        last = max(self._calls, default=-1)
        continues = last >= 0 and delta.get("id") in (None, "", self._calls[last].id)
        return last if continues else last + 1


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""
