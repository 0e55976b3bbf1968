"""Makes a request fit its model: what is sent and what may be written stay within the model's window.

Every call passes here right before it is made, so the limits hold for first tries, retries, the fallback model, runs
that were parked, planning and merging alike.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from artel.brain import prices
from artel.brain.brain import Message, Part, Request, ToolCall, ToolSchema
from artel.brain.errors import ContextTooLarge
from artel.brain.tokens import Counter, count_tokens, is_exact, is_ready

if TYPE_CHECKING:
    from pydantic import JsonValue

# What the marks of the chat format take, rounded up.
TOKENS_PER_MESSAGE = 4
TOKENS_PER_CALL = 8
TOKENS_PER_TOOL = 8
TOKENS_PER_REQUEST = 16
TOKENS_FOR_SCHEMA = 40  # the sentence around a schema that a server wants in the prompt

KEPT_RESULT_TOKENS = 500  # of each tool result, while there is something else to drop
GOOD_ANSWER_TOKENS = 1_024  # guidance is cut before the answer gets less
LEAST_ANSWER_TOKENS = 256
# Models of other makers are counted with a vocabulary that is not theirs, so a fifth of their window is left free.
SHARE_IF_INEXACT = 0.8
MAX_CUTS = 24
INLINE_BYTES = 16_000  # longer requests are counted off the event loop

MAX_TOOL_TEXTS = 1_000

CUT = "the middle was left out, to make room"

_tool_texts: dict[int, tuple[ToolSchema, str]] = {}  # with the tool itself, so that no other one gets its id


async def fitted(request: Request) -> Request:
    """Return the request, shortened where it would not fit its model; raise ContextTooLarge if that is impossible."""
    window = window_of(request.model)
    if window is None and request.max_context_tokens is None:
        return request
    room = min(
        request.max_context_tokens or sys.maxsize, sys.maxsize if window is None else window - request.max_tokens
    )
    size = _count_request(request, _bytes)
    if size <= room:  # a token has at least one byte, so this fits without being counted
        return request
    if is_ready(request.model) and size <= INLINE_BYTES:
        return fit(request, window, lambda text: count_tokens(text, request.model))
    return await asyncio.to_thread(fit, request, window, lambda text: count_tokens(text, request.model))


def window_of(model: str) -> int | None:
    """Return how many tokens may be sent to and written by the model together; None if nobody knows."""
    window = prices.window(model)
    return window if window is None or is_exact(model) else int(window * SHARE_IF_INEXACT)


def fit(request: Request, window: int | None, count: Counter) -> Request:
    """Return the request within `window` and its own `max_context_tokens`.

    Large tool results are shortened and the oldest history is dropped first, then memory; then the answer gets less
    room; then guidance from the user's folder is cut.
    """
    limits = [limit for limit in (window, request.max_context_tokens) if limit is not None]
    if not limits:
        return request
    # An agent may be allowed to write more than half of what its model takes: that must not cost it all history.
    wanted = request.max_tokens if window is None else min(request.max_tokens, max(window // 2, LEAST_ANSWER_TOKENS))

    def room(answer: int) -> int:
        """Return how many tokens may be sent if so many may be written."""
        return min([*limits, *([window - answer] if window is not None else [])])

    fitting = _Fitting(request, count)
    good, least = min(wanted, GOOD_ANSWER_TOKENS), min(wanted, LEAST_ANSWER_TOKENS)
    steps: list[tuple[int, Callable[[int], None]]] = [
        (wanted, lambda over: fitting.cut_exchange(over, KEPT_RESULT_TOKENS)),
        (wanted, fitting.drop_history),
        (wanted, fitting.drop_memory),
        (good, lambda over: fitting.cut_part("guidance", over)),
        (good, lambda over: fitting.cut_exchange(over, 0)),
        (good, lambda over: fitting.cut_part("note", over)),
    ]
    for answer, make_room in steps:
        over = fitting.tokens - room(answer)
        if over <= 0:
            break
        make_room(over)
    if fitting.tokens > room(least):
        raise _too_large(request, fitting.tokens, window, least)
    most = request.max_tokens if window is None else min(request.max_tokens, window - fitting.tokens)
    return replace(request, messages=tuple(fitting.messages), max_tokens=most)


def count_tools(tools: tuple[ToolSchema, ...], count: Counter) -> int:
    """Return the tokens of the tools' descriptions, as JSON, which is the longest form that models are shown."""
    return sum(count(_tool_text(tool)) + TOKENS_PER_TOOL for tool in tools)


class _Fitting:
    """A request's messages while they are shortened, and the tokens of all that is sent."""

    def __init__(self, request: Request, count: Counter) -> None:
        self.messages = list(request.messages)
        self._count = count
        self._sizes = [_of_message(message, count) for message in self.messages]
        self._fixed = _fixed(request, count)

    @property
    def tokens(self) -> int:
        return self._fixed + sum(self._sizes)

    def drop_history(self, over: int) -> None:
        """Drop the oldest messages of the conversation before this one."""
        while over > 0 and (place := self._first("history")) is not None:
            over -= self._drop(place)

    def drop_memory(self, over: int) -> None:
        """Drop memories, the least similar first: they are the last lines."""
        place = self._first("memory")
        while place is not None and over > 0:
            before = self._sizes[place]
            head, *lines = self.messages[place].content.split("\n")
            if len(lines) <= 1:
                self._drop(place)
                return
            self._put(place, replace(self.messages[place], content="\n".join([head, *lines[:-1]])))
            over -= before - self._sizes[place]

    def cut_part(self, part: Part, over: int) -> None:
        """Shorten messages of one part, or drop them if a shorter one would not help."""
        place = self._first(part)
        while place is not None and over > 0:
            before = self._sizes[place]
            message = self.messages[place]
            wanted = before - TOKENS_PER_MESSAGE - over
            text = _cut_text(message.content, wanted, self._count) if wanted > 0 else ""
            if text:
                self._put(place, replace(message, content=text))
                over -= before - self._sizes[place]
                place = self._first(part, place + 1)
            else:
                over -= self._drop(place)
                place = self._first(part, place)

    def cut_exchange(self, over: int, kept: int) -> None:
        """Shorten tool calls and their results, the oldest first, each to no less than `kept` tokens."""
        for place, message in enumerate(self.messages):
            if over <= 0:
                return
            if message.role != "tool" and not message.tool_calls:
                continue
            before = self._sizes[place]
            self._put(place, _shortened(message, max(kept, before - over), before, self._count))
            over -= before - self._sizes[place]

    def _first(self, part: Part, start: int = 0) -> int | None:
        return next((place for place in range(start, len(self.messages)) if self.messages[place].part == part), None)

    def _drop(self, place: int) -> int:
        del self.messages[place]
        return self._sizes.pop(place)

    def _put(self, place: int, message: Message) -> None:
        self.messages[place], self._sizes[place] = message, _of_message(message, self._count)


def _shortened(message: Message, tokens: int, before: int, count: Counter) -> Message:
    """Return a tool call or result with about so many tokens; never more than it had."""
    if message.role == "tool":
        own = count(message.content)
        return replace(message, content=_cut_json(message.content, max(0, tokens - (before - own)), own, count))
    calls = message.tool_calls
    share = max(0, tokens - count(message.content)) // len(calls)
    shorter = replace(message, tool_calls=tuple(_cut_call(call, share, count) for call in calls))
    over = _of_message(shorter, count) - tokens
    if over > 0 and message.content:
        text = _cut_text(message.content, count(message.content) - over, count)
        shorter = replace(shorter, content=text)
    return shorter


def _cut_json(text: str, tokens: int, of_tokens: int, count: Counter) -> str:
    """Return the beginning and the end of a text, as JSON that says so, or the text if that is no shorter."""
    if of_tokens <= tokens:
        return text
    kept = int(len(text) * tokens / max(1, of_tokens)) // 2
    for _ in range(MAX_CUTS):
        cut = {"cut": CUT} | ({"begin": text[:kept], "end": text[-kept:]} if kept else {})
        shorter = json.dumps(cut, ensure_ascii=False)
        size = count(shorter)
        if size <= tokens or not kept:
            return shorter if size < of_tokens else text
        kept = min(int(kept * tokens / size), kept - 1)
    return text


def _cut_text(text: str, tokens: int, count: Counter) -> str:
    """Return as much of the beginning of a text as has so many tokens, with a mark where it was cut."""
    kept = len(text)
    for _ in range(MAX_CUTS):
        shorter = text if kept == len(text) else f"{text[:kept]} …"
        size = count(shorter)
        if size <= tokens:
            return shorter
        kept = min(int(kept * max(0, tokens) / size), kept - 1)
        if kept <= 0:
            return ""
    return ""


def _cut_call(call: ToolCall, tokens: int, count: Counter) -> ToolCall:
    """Return a call whose long arguments (a file that was written) are shortened; they stay valid JSON."""
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
    return _fixed(request, count) + sum(_of_message(message, count) for message in request.messages)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _fixed(request: Request, count: Counter) -> int:
    """Return the tokens of what is sent beside the messages."""
    schema = request.response_format
    asked = count(json.dumps(schema.schema)) + TOKENS_FOR_SCHEMA if schema else 0
    return TOKENS_PER_REQUEST + asked + count_tools(request.tools, count)


def _of_message(message: Message, count: Counter) -> int:
    tokens = count(message.content) + TOKENS_PER_MESSAGE
    if message.tool_call_id:
        tokens += count(message.tool_call_id)
    return tokens + sum(count(f"{call.id}{call.name}{call.arguments}") + TOKENS_PER_CALL for call in message.tool_calls)


def _tool_text(tool: ToolSchema) -> str:
    """Return a tool's description as JSON; made once, because the same tools are sent with every call."""
    known = _tool_texts.get(id(tool))
    if known is None:
        if len(_tool_texts) >= MAX_TOOL_TEXTS:
            _tool_texts.clear()
        described = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        known = _tool_texts[id(tool)] = tool, json.dumps(described)
    return known[1]


def _too_large(request: Request, tokens: int, window: int | None, least: int) -> ContextTooLarge:
    if window is not None and window - least <= (request.max_context_tokens or window):
        limit = f"{request.model} takes {window:,} tokens, of which the answer needs at least {least}"
    else:
        limit = f"an agent may be sent {request.max_context_tokens:,} tokens (setting max_context_tokens)"
    return ContextTooLarge(
        f"The message and the agent's prompt and tools together have about {tokens:,} tokens, and {limit}. "
        "Shorten the message, or choose a model with a larger window."
    )
