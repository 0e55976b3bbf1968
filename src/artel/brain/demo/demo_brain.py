"""A brain without a model: it answers by rules and shows what Artel can do."""

import asyncio
import json
import re
from dataclasses import replace
from itertools import takewhile

from pydantic import JsonValue

from artel.brain.brain import Completion, Request, Schema, TokenSink, ToolCall, Usage
from artel.brain.demo.chat import find_sum, reply, summary
from artel.brain.demo.files import acknowledgement, files_of_last
from artel.brain.demo.plans import structured_answer
from artel.brain.demo.review import Review
from artel.brain.demo.schema_values import SchemaFiller
from artel.brain.demo.theft import Theft
from artel.brain.demo.user_words import (
    DemoConversation,
    language_of,
    missing_tool,
    parse_conversation,
    wanted_call,
)
from artel.brain.demo.work import WRITE, TaskScript
from artel.text import one_line

MODEL = "demo"
BYTES_PER_TOKEN = 4
TITLE_CHARACTERS = 120
OUTPUT = "output"  # the schema of a capability's result; other schemas hold what the user said

_WORDS = re.compile(r"(?<!\s)\s*+\S++(?:\s++\Z)?")


class DemoBrain:
    """A deterministic brain without delay; only the user's own words are read as commands."""

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the answer, streamed word by word."""
        files = files_of_last(request.messages)
        if any(message.file for message in request.messages):
            request = replace(request, messages=tuple(message for message in request.messages if message.file is None))
        conversation = parse_conversation(request.messages)
        if request.response_format is not None:
            value: JsonValue = structured_answer(request.response_format, conversation.messages)
            if value is None:
                value = _filled(request.response_format, conversation)
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
        if files:
            text = f"{acknowledgement(files, language_of(conversation.last))}\n\n{text}"
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


def _script(conversation: DemoConversation, request: Request) -> Review | Theft | TaskScript | None:
    """Return the script for a request that takes several tool calls, or None."""
    tools = frozenset(tool.name for tool in request.tools)
    theft = Theft.wanted(conversation.last, tools)
    if theft is not None:
        return theft
    review = Review.wanted(conversation.last, tools)
    if review is not None or not conversation.is_part:
        return review
    is_plain = wanted_call(conversation.last, request.tools, "") or missing_tool(conversation.last, request.tools)
    return None if is_plain or find_sum(conversation.last) else TaskScript(conversation.last, tools)


def _filled(schema: Schema, conversation: DemoConversation) -> JsonValue:
    """Return a value for the schema of a capability: the result of the task, or the user's words as parameters."""
    words = conversation.last
    if schema.name != OUTPUT:
        return SchemaFiller(schema.schema, one_line(words.partition("\n")[0], TITLE_CHARACTERS), words).value()
    script = TaskScript(words, frozenset())
    calls = [call.name for message in conversation.messages for call in message.tool_calls]
    results = [message for message in conversation.messages if message.role == "tool"]
    if WRITE in calls:  # the script wrote its file, and nothing else was called
        text = script.text([result.content for result in results])
    else:
        text = script.text((), summary(conversation.messages, results))
    return SchemaFiller(schema.schema, script.subject, text).value()


def _next_call(
    script: Review | Theft | TaskScript | None, conversation: DemoConversation, request: Request
) -> ToolCall | None:
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
