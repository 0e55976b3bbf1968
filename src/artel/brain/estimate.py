"""How many tokens a call took, when its server does not say."""

import asyncio

from artel.brain.brain import Message, Request, ToolCall
from artel.brain.tokens import count_tokens

# What the marks around a message take, about.
TOKENS_PER_MESSAGE = 4


async def estimated_tokens(request: Request, content: str, calls: tuple[ToolCall, ...]) -> tuple[int, int]:
    """Answer the tokens given and written, counted off the event loop."""
    return await asyncio.to_thread(_count, request, content, calls)


def _count(request: Request, content: str, calls: tuple[ToolCall, ...]) -> tuple[int, int]:
    given = sum(_of_message(message) + TOKENS_PER_MESSAGE for message in request.messages)
    given += count_tokens(str(request.response_format.schema)) if request.response_format else 0
    given += sum(count_tokens(f"{tool.name}{tool.description}{tool.parameters}") for tool in request.tools)
    written = count_tokens(content) + sum(count_tokens(f"{call.name}{call.arguments}") for call in calls)
    return given, written


def _of_message(message: Message) -> int:
    """Count what was said, and the calls with what they carry: a file that was written is in there."""
    called = sum(count_tokens(f"{call.name}{call.arguments}") for call in message.tool_calls)
    return count_tokens(message.content) + called
