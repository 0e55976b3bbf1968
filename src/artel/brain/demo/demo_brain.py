"""A brain without a model: it answers by rules and shows what Artel can do."""

import asyncio
import json
import re
from itertools import takewhile

from artel.brain.brain import Completion, Request, TokenSink, ToolCall, Usage
from artel.brain.demo.chat import find_sum, reply, summary
from artel.brain.demo.plans import structured_answer
from artel.brain.demo.review import Review
from artel.brain.demo.user_words import DemoConversation, missing_tool, parse_conversation, wanted_call
from artel.brain.demo.work import TaskScript

MODEL = "demo"
BYTES_PER_TOKEN = 4

_WORDS = re.compile(r"(?<!\s)\s*+\S++(?:\s++\Z)?")


class DemoBrain:
    """A deterministic brain without delay; only the user's own words are read as commands."""

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the answer, streamed word by word."""
        conversation = parse_conversation(request.messages)
        if request.response_format is not None:
            value = structured_answer(request.response_format, conversation.messages)
            text = json.dumps(value, ensure_ascii=False)
            await _write([text], stream)
            return Completion(text, (), "stop", _usage(request, text), parsed=value)
        script = _script(conversation, request)
        call = _next_call(script, conversation, request)
        if call is not None:
            return Completion("", (call,), "tool_calls", _usage(request, call.arguments))
        if script is not None:
            text = script.text(conversation.results)
        else:
            # The tool results at the end of the conversation have no reply yet.
            results = list(takewhile(lambda message: message.role == "tool", reversed(request.messages)))[::-1]
            text = summary(request.messages, results) if results else reply(conversation.messages, request.tools)
        words = _WORDS.findall(text)
        allowed = words[: request.max_tokens]
        await _write(allowed, stream)
        text = "".join(allowed)
        return Completion(text, (), "stop" if allowed == words else "length", _usage(request, text))

    async def close(self) -> None:
        """Do nothing: no connection is open."""


async def _write(words: list[str], stream: TokenSink | None) -> None:
    if stream is not None:
        for word in words:
            stream.token(word)
            await asyncio.sleep(0)


def _script(conversation: DemoConversation, request: Request) -> Review | TaskScript | None:
    """Return the script for a request that takes several tool calls, or None."""
    tools = frozenset(tool.name for tool in request.tools)
    review = Review.wanted(conversation.last, tools)
    if review is not None or not conversation.is_part:
        return review
    is_plain = wanted_call(conversation.last, request.tools, "") or missing_tool(conversation.last, request.tools)
    return None if is_plain or find_sum(conversation.last) else TaskScript(conversation.last, tools)


def _next_call(script: Review | TaskScript | None, conversation: DemoConversation, request: Request) -> ToolCall | None:
    """Return the next tool call, if any: the script's, or the one that the user's last message asks for."""
    number = sum(len(message.tool_calls) for message in request.messages) + 1
    if script is not None:
        call = script.next_call(conversation.results)
        return call and ToolCall(f"call_demo_{number}", call[0], json.dumps(call[1], ensure_ascii=False))
    if not request.messages or request.messages[-1].role != "user":
        return None
    return wanted_call(conversation.last, request.tools, f"call_demo_{number}")


def _usage(request: Request, output: str) -> Usage:
    input_tokens = sum(_tokens(message.content) for message in request.messages)
    return Usage(MODEL, input_tokens, _tokens(output), 0.0, calls=1)


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)
