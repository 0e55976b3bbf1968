"""A brain without a model: it answers by rules, says so, and shows what the product can do."""

import asyncio
import json
import re
from itertools import takewhile

from artel.brain.brain import Completion, Message, Request, TokenSink, ToolCall, Usage
from artel.brain.deadline import before_deadline
from artel.brain.demo.chat import reply
from artel.brain.demo.results import summary
from artel.brain.demo.structures import structured_answer
from artel.brain.demo.tools import wanted_call

MODEL = "demo"
BYTES_PER_TOKEN = 4

_WORDS = re.compile(r"(?<!\s)\s*+\S++(?:\s++\Z)?")


class DemoBrain:
    """Answers at once and always the same; only what the user wrote is ever taken for a wish."""

    def __init__(self, *, pause: float = 0.0) -> None:
        self._pause = pause

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Answer the request, word by word when it is streamed."""
        async with before_deadline(request):
            if request.response_format is not None:
                value = structured_answer(request.response_format, request.messages)
                text = json.dumps(value, ensure_ascii=False)
                await self._write([text], stream)
                return Completion(text, (), "stop", _usage(request, text), parsed=value)
            call = _next_call(request)
            if call is not None:
                return Completion("", (call,), "tool_calls", _usage(request, call.arguments))
            return await self._answer(request, stream)

    async def close(self) -> None:
        """Nothing is open."""

    async def _answer(self, request: Request, stream: TokenSink | None) -> Completion:
        results = _fresh_results(request.messages)
        text = summary(request.messages, results) if results else reply(request.messages, request.tools)
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


def _next_call(request: Request) -> ToolCall | None:
    """Answer the tool call that the user's last words ask for, unless it has been made."""
    if not request.messages or request.messages[-1].role != "user":
        return None
    number = sum(len(message.tool_calls) for message in request.messages)
    return wanted_call(request.messages[-1].content, request.tools, f"call_demo_{number + 1}")


def _fresh_results(messages: tuple[Message, ...]) -> list[Message]:
    """Answer the tool messages at the end, which nobody has answered yet."""
    return list(takewhile(lambda message: message.role == "tool", reversed(messages)))[::-1]


def _usage(request: Request, written: str) -> Usage:
    given = sum(_tokens(message.content) for message in request.messages)
    return Usage(MODEL, given, _tokens(written), 0.0, calls=1)


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)
