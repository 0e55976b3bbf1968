"""A brain without a model: it answers by rules, says so, and shows what the product can do."""

import asyncio
import json
import re
from itertools import takewhile

from artel.brain.brain import Completion, Message, Request, TokenSink, ToolCall, Usage
from artel.brain.deadline import before_deadline
from artel.brain.demo.arithmetic import find_sum
from artel.brain.demo.chat import reply
from artel.brain.demo.results import summary
from artel.brain.demo.review import Review
from artel.brain.demo.structures import structured_answer
from artel.brain.demo.tools import missing_tool, wanted_call
from artel.brain.demo.user_words import Said, said_in
from artel.brain.demo.work import Work

MODEL = "demo"
BYTES_PER_TOKEN = 4

_WORDS = re.compile(r"(?<!\s)\s*+\S++(?:\s++\Z)?")


class DemoBrain:
    """Return at once and always the same; only what the user wrote is ever taken for a wish."""

    def __init__(self, *, pause: float = 0.0) -> None:
        self._pause = pause

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the request, word by word when it is streamed."""
        async with before_deadline(request):
            said = said_in(request.messages)
            if request.response_format is not None:
                value = structured_answer(request.response_format, said.messages)
                text = json.dumps(value, ensure_ascii=False)
                await self._write([text], stream)
                return Completion(text, (), "stop", _usage(request, text), parsed=value)
            script = _script(said, request)
            call = _next_call(script, said, request)
            if call is not None:
                return Completion("", (call,), "tool_calls", _usage(request, call.arguments))
            text = script.text(said.results) if script else _text(said, request)
            return await self._answer(text, request, stream)

    async def close(self) -> None:
        """Nothing is open."""

    async def _answer(self, text: str, request: Request, stream: TokenSink | None) -> Completion:
        words = _WORDS.findall(text)
        kept = words[: request.max_tokens]
        await self._write(kept, stream)
        text = "".join(kept)
        return Completion(text, (), "stop" if kept == words else "length", _usage(request, text))

    async def _write(self, words: list[str], stream: TokenSink | None) -> None:
        if stream is None:
            return
        for word in words:
            stream.token(word)
            await asyncio.sleep(self._pause)


def _script(said: Said, request: Request) -> Review | Work | None:
    """Return how what was asked for is worked on, if it takes more than one call of a tool."""
    tools = frozenset(tool.name for tool in request.tools)
    review = Review.wanted(said.last, tools)
    if review is not None or not said.is_part:
        return review
    is_plain = wanted_call(said.last, request.tools, "") or missing_tool(said.last, request.tools)
    return None if is_plain or find_sum(said.last) else Work(said.last, tools)


def _next_call(script: Review | Work | None, said: Said, request: Request) -> ToolCall | None:
    """Return the tool call that comes next, if any: one of the script's, else what the user's last words ask for."""
    number = sum(len(message.tool_calls) for message in request.messages) + 1
    if script is not None:
        call = script.next_call(said.results)
        return call and ToolCall(f"call_demo_{number}", call[0], json.dumps(call[1], ensure_ascii=False))
    if not request.messages or request.messages[-1].role != "user":
        return None
    return wanted_call(said.last, request.tools, f"call_demo_{number}")


def _text(said: Said, request: Request) -> str:
    results = _fresh_results(request.messages)
    return summary(request.messages, results) if results else reply(said.messages, request.tools)


def _fresh_results(messages: tuple[Message, ...]) -> list[Message]:
    """Return the tool messages at the end, which nobody has answered yet."""
    return list(takewhile(lambda message: message.role == "tool", reversed(messages)))[::-1]


def _usage(request: Request, written: str) -> Usage:
    given = sum(_tokens(message.content) for message in request.messages)
    return Usage(MODEL, given, _tokens(written), 0.0, calls=1)


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)
