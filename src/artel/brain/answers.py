"""Parses an answer in the OpenAI format, whole or streamed in chunks."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from artel.brain.brain import ToolCall
from artel.brain.errors import ModelAnswerInvalid

MAX_TOOL_CALLS = 128


@dataclass(slots=True)
class _Call:
    """A tool call whose chunks are still arriving."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Answer:
    """The answer received so far. Servers differ a lot, so every field is validated."""

    def __init__(self) -> None:
        # Whether the server sent a choice, even an empty one.
        self.begun = False
        self.finish_reason: str | None = None
        self.tokens: tuple[int, int] | None = None
        self._text: list[str] = []
        self._calls: dict[int, _Call] = {}

    @property
    def content(self) -> str:
        """The text received so far."""
        return "".join(self._text)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that the model requests, in its order."""
        return tuple(
            ToolCall(call.id or f"call_{index}", call.name, "".join(call.arguments) or "{}")
            for index, call in sorted(self._calls.items())
        )

    def take(self, document: Any) -> str:
        """Add a whole answer or one chunk of a stream; return the text that it adds."""
        choices = document.get("choices") if isinstance(document, dict) else None
        if not isinstance(document, dict) or (choices is None and "usage" not in document):
            raise ModelAnswerInvalid("The model's server sent a response that is not a chat completion.")
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
            case {"prompt_tokens": int(input_tokens), "completion_tokens": int(output_tokens)} if (
                input_tokens > 0 and output_tokens >= 0
            ):
                self.tokens = input_tokens, output_tokens

    def _take_call(self, delta: Any) -> None:
        if not isinstance(delta, dict) or not isinstance(delta.get("function"), dict):
            return
        call = self._calls.setdefault(self._index_of(delta), _Call())
        if len(self._calls) > MAX_TOOL_CALLS:
            raise ModelAnswerInvalid(f"The model requested more than {MAX_TOOL_CALLS} tool calls at once.")
        function = delta["function"]
        # Some servers repeat id and name in every chunk.
        call.id = call.id or str(delta.get("id") or "")
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments:
            call.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def _index_of(self, delta: dict[str, Any]) -> int:
        """Return the index of the call that a chunk belongs to; servers that send whole calls omit it."""
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
