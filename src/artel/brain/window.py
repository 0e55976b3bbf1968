"""Shortens a request so that its input and its answer fit into the model's context window.

Every call is fitted right before it is made, so the limits also hold for retries, the fallback model, resumed runs,
planning and merging.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from artel.brain import prices
from artel.brain.brain import Message, Part, Request, ToolCall, ToolSchema
from artel.brain.errors import ContextTooLarge
from artel.brain.images import image_tokens
from artel.brain.tokens import Counter, count_tokens, is_exact, is_ready

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

# Overhead of the chat format, rounded up.
TOKENS_PER_MESSAGE = 4
TOKENS_PER_CALL = 8
TOKENS_PER_TOOL = 8
TOKENS_PER_REQUEST = 16
TOKENS_FOR_SCHEMA = 40  # the sentence around a schema that is sent in the prompt

MIN_RESULT_TOKENS = 500  # of each tool result, while there is something else to drop
GOOD_ANSWER_TOKENS = 1_024  # guidance is cut before the answer gets fewer tokens
LEAST_ANSWER_TOKENS = 256
# Tokens of other vendors' models are counted with OpenAI's vocabulary, so a fifth of their window stays free.
SHARE_IF_INEXACT = 0.8
MAX_CUTS = 24
INLINE_BYTES = 16_000  # longer requests are counted in a thread

MAX_TOOL_TEXTS = 1_000

CUT = "the middle was left out, to make room"

_tool_texts: dict[int, tuple[ToolSchema, str]] = {}  # holds the tool, so that its id is not reused


async def fit_to_model(request: Request) -> Request:
    """Return the request, shortened to fit its model; raise ContextTooLarge if that is impossible."""
    window = window_of(request.model)
    if window is None and request.max_context_tokens is None:
        return request
    room = min(
        request.max_context_tokens or sys.maxsize, sys.maxsize if window is None else window - request.max_tokens
    )
    size = _count_request(request, _bytes)
    if size <= room:  # a token has at least one byte, so this fits without being counted
        return request
    return await _counted(partial(fit, request, window), request.model, size)


async def estimated_tokens(request: Request, content: str, calls: tuple[ToolCall, ...]) -> tuple[int, int]:
    """Return input and output tokens of a call whose server does not report them."""
    size = _count_request(request, _bytes) + len(content) + sum(len(call.arguments) for call in calls)
    return await _counted(partial(_estimate, request, content, calls), request.model, size)


async def _counted(work: Callable[[Counter], T], model: str, size: int) -> T:
    """Return the result of work that counts tokens; long texts, and the first ones of a model, take a thread."""
    counter = partial(count_tokens, model=model)
    return work(counter) if size <= INLINE_BYTES and is_ready(model) else await asyncio.to_thread(work, counter)


def _estimate(request: Request, content: str, calls: tuple[ToolCall, ...], count: Counter) -> tuple[int, int]:
    def count_calls(calls: tuple[ToolCall, ...]) -> int:
        return sum(count(f"{call.name}{call.arguments}") for call in calls)  # they can hold a whole file

    tokens = TOKENS_PER_MESSAGE * len(request.messages)
    tokens += sum(count(message.content) + count_calls(message.tool_calls) for message in request.messages)
    tokens += sum(image_tokens(message.file, request.model) for message in request.messages)
    tokens += count(str(request.response_format.schema)) if request.response_format else 0
    tokens += sum(count(f"{tool.name}{tool.description}{tool.parameters}") for tool in request.tools)
    return tokens, count(content) + count_calls(calls)


def window_of(model: str) -> int | None:
    """Return the usable context window of a model in tokens (input and output); None if unknown."""
    window = prices.window(model)
    return window if window is None or is_exact(model) else int(window * SHARE_IF_INEXACT)


def fit(request: Request, window: int | None, count: Counter) -> Request:
    """Return the request, shortened to fit `window` and its own `max_context_tokens`.

    Order: shorten large tool results, drop the oldest history, drop memory, reduce the room for the answer, cut the
    guidance from the user's folder, cut attached texts.
    """
    limits = [limit for limit in (window, request.max_context_tokens) if limit is not None]
    if not limits:
        return request
    # The answer gets at most half of the window, so that a large max_tokens does not drop the whole history.
    wanted = request.max_tokens if window is None else min(request.max_tokens, max(window // 2, LEAST_ANSWER_TOKENS))

    def room(answer: int) -> int:
        """Return the maximum number of input tokens for an answer of so many tokens."""
        return min([*limits, *([window - answer] if window is not None else [])])

    fitting = _Fitting(request, count)
    good, least = min(wanted, GOOD_ANSWER_TOKENS), min(wanted, LEAST_ANSWER_TOKENS)
    steps: list[tuple[int, Callable[[int], None]]] = [
        (wanted, lambda over: fitting.cut_exchange(over, MIN_RESULT_TOKENS)),
        (wanted, fitting.drop_history),
        (wanted, fitting.drop_memory),
        (good, lambda over: fitting.cut_part("guidance", over)),
        (good, lambda over: fitting.cut_exchange(over, 0)),
        (good, lambda over: fitting.cut_part("note", over)),
        (good, fitting.cut_files),
    ]
    for answer, make_room in steps:
        over = fitting.tokens - room(answer)
        if over <= 0:
            break
        make_room(over)
    if fitting.tokens > room(least):
        if window is not None and window - least <= (request.max_context_tokens or window):
            limit = f"{request.model} takes {window:,} tokens, of which the answer needs at least {least}"
        else:
            limit = f"the limit is {request.max_context_tokens:,} tokens (setting max_context_tokens)"
        raise ContextTooLarge(
            f"The message, the agent's prompt and its tools have about {fitting.tokens:,} tokens, but {limit}. "
            "Shorten the message, attach less, or choose a model with a larger window."
        )
    most = request.max_tokens if window is None else min(request.max_tokens, window - fitting.tokens)
    return replace(request, messages=tuple(fitting.messages), max_tokens=most)


def count_tools(tools: tuple[ToolSchema, ...], count: Counter) -> int:
    """Return the tokens of the tools' descriptions as JSON, which is the longest form that servers use."""
    return sum(count(_tool_text(tool)) + TOKENS_PER_TOOL for tool in tools)


class _Fitting:
    """The messages of a request while they are shortened, and the total number of input tokens."""

    def __init__(self, request: Request, count: Counter) -> None:
        self.messages = list(request.messages)
        self._count = count
        self._model = request.model
        self._sizes = [_message_tokens(message, count, self._model) for message in self.messages]
        self._other_tokens = _other_tokens(request, count)

    @property
    def tokens(self) -> int:
        return self._other_tokens + sum(self._sizes)

    def drop_history(self, over: int) -> None:
        """Drop the oldest messages of the history."""
        while over > 0 and (index := self._first("history")) is not None:
            over -= self._drop(index)

    def drop_memory(self, over: int) -> None:
        """Drop memories, the last lines first, because they are the least similar."""
        index = self._first("memory")
        while index is not None and over > 0:
            before = self._sizes[index]
            head, *lines = self.messages[index].content.split("\n")
            if len(lines) <= 1:
                self._drop(index)
                return
            self._replace(index, replace(self.messages[index], content="\n".join([head, *lines[:-1]])))
            over -= before - self._sizes[index]

    def cut_part(self, part: Part, over: int) -> None:
        """Shorten messages of one part, or drop those that can't be short enough."""
        index = self._first(part)
        while index is not None and over > 0:
            before = self._sizes[index]
            message = self.messages[index]
            wanted = before - TOKENS_PER_MESSAGE - over
            text = _cut_text(message.content, wanted, self._count) if wanted > 0 else ""
            if text:
                self._replace(index, replace(message, content=text))
                over -= before - self._sizes[index]
                index = self._first(part, index + 1)
            else:
                over -= self._drop(index)
                index = self._first(part, index)

    def cut_files(self, over: int) -> None:
        """Cut the ends of texts that are attached to the last message, the longest first."""
        texts = [
            index
            for index, message in enumerate(self.messages)
            if message.part == "attachment" and message.file is not None and not message.file.is_image
        ]
        for index in sorted(texts, key=lambda index: -self._sizes[index]):
            if over <= 0:
                return
            before = self._sizes[index]
            self._replace(index, cut_file(self.messages[index], before - TOKENS_PER_MESSAGE - over, self._count))
            over -= before - self._sizes[index]

    def cut_exchange(self, over: int, min_tokens: int) -> None:
        """Shorten tool calls and their results, the oldest first, each to no less than `min_tokens`."""
        for index, message in enumerate(self.messages):
            if over <= 0:
                return
            if message.role != "tool" and not message.tool_calls:
                continue
            before = self._sizes[index]
            tokens = max(min_tokens, before - over)
            own = self._count(message.content)
            if message.role == "tool":
                text = _cut_json(message.content, max(0, tokens - (before - own)), own, self._count)
                self._replace(index, replace(message, content=text))
            else:
                share = max(0, tokens - own) // len(message.tool_calls)
                calls = tuple(_cut_call(call, share, self._count) for call in message.tool_calls)
                self._replace(index, replace(message, tool_calls=calls))
                excess = self._sizes[index] - tokens
                if excess > 0 and message.content:
                    text = _cut_text(message.content, own - excess, self._count)
                    self._replace(index, replace(message, tool_calls=calls, content=text))
            over -= before - self._sizes[index]

    def _first(self, part: Part, start: int = 0) -> int | None:
        return next((index for index in range(start, len(self.messages)) if self.messages[index].part == part), None)

    def _drop(self, index: int) -> int:
        del self.messages[index]
        return self._sizes.pop(index)

    def _replace(self, index: int, message: Message) -> None:
        self.messages[index], self._sizes[index] = message, _message_tokens(message, self._count, self._model)


def cut_file(message: Message, tokens: int, count: Counter) -> Message:
    """Return the message of an attached text with so many tokens, or few more: the end of the text is left out."""
    head, _, rest = message.content.partition("\n<<<")
    mark, _, rest = rest.partition("\n")
    whole, separator, end = rest.rpartition("\n")
    if not separator or message.file is None:  # a note, which is short
        return message
    note = f"[The rest of {message.file.name} is left out here, because it is too long.]"
    whole = whole.removesuffix(f"\n{note}")
    frame = f"{head}\n<<<{mark}\n{note}\n{end}"
    text = _cut_text(whole, tokens - count(frame) - 1, count)
    return replace(message, content=f"{head}\n<<<{mark}\n{text}\n{note}\n{end}")


def _cut_json(text: str, tokens: int, of_tokens: int, count: Counter) -> str:
    """Return JSON with the beginning and the end of a text, or the text itself if that is no shorter."""
    if of_tokens <= tokens:
        return text
    length = int(len(text) * tokens / max(1, of_tokens)) // 2
    for _ in range(MAX_CUTS):
        cut = {"cut": CUT} | ({"begin": text[:length], "end": text[-length:]} if length else {})
        shorter = json.dumps(cut, ensure_ascii=False)
        size = count(shorter)
        if size <= tokens or not length:
            return shorter if size < of_tokens else text
        length = min(int(length * tokens / size), length - 1)
    return text


def _cut_text(text: str, tokens: int, count: Counter) -> str:
    """Return the beginning of a text that has so many tokens, with an ellipsis, or "" if nothing fits."""
    length = len(text)
    for _ in range(MAX_CUTS):
        shorter = text if length == len(text) else f"{text[:length]} …"
        size = count(shorter)
        if size <= tokens:
            return shorter
        length = min(int(length * max(0, tokens) / size), length - 1)
        if length <= 0:
            return ""
    return ""


def _cut_call(call: ToolCall, tokens: int, count: Counter) -> ToolCall:
    """Return a call with its long arguments (such as a written file) shortened; they stay valid JSON."""
    if count(call.arguments) <= tokens:
        return call
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = {}
    most = 2_000
    while most >= 1:
        shorter = json.dumps({name: _cut_value(value, most) for name, value in arguments.items()}, ensure_ascii=False)
        if count(shorter) <= tokens:
            return replace(call, arguments=shorter)
        most //= 4
    left = json.dumps({"cut": CUT})
    return replace(call, arguments=left) if len(left) < len(call.arguments) else call


def _cut_value(value: "JsonValue", most: int) -> "JsonValue":
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]} … ({len(value) - most:,} characters left out)"
    text = json.dumps(value)
    return value if len(text) <= most else "(left out)"


def _count_request(request: Request, count: Counter) -> int:
    own = sum(_message_tokens(message, count, request.model) for message in request.messages)
    return _other_tokens(request, count) + own


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _other_tokens(request: Request, count: Counter) -> int:
    """Return the tokens of everything but the messages."""
    schema = request.response_format
    schema_tokens = count(json.dumps(schema.schema)) + TOKENS_FOR_SCHEMA if schema else 0
    return TOKENS_PER_REQUEST + schema_tokens + count_tools(request.tools, count)


def _message_tokens(message: Message, count: Counter, model: str) -> int:
    tokens = count(message.content) + TOKENS_PER_MESSAGE
    if message.file is not None:
        tokens += image_tokens(message.file, model)
    if message.tool_call_id:
        tokens += count(message.tool_call_id)
    return tokens + sum(count(f"{call.id}{call.name}{call.arguments}") + TOKENS_PER_CALL for call in message.tool_calls)


def _tool_text(tool: ToolSchema) -> str:
    """Return a tool's description as JSON; cached, because the same tools are sent with every call."""
    cached = _tool_texts.get(id(tool))
    if cached is None:
        if len(_tool_texts) >= MAX_TOOL_TEXTS:
            _tool_texts.clear()
        described = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        cached = _tool_texts[id(tool)] = tool, json.dumps(described)
    return cached[1]
