"""How many tokens a call took, when its server does not say."""

import asyncio
from functools import partial

from artel.brain.brain import Message, Request, ToolCall
from artel.brain.tokens import Counter, count_tokens

# What the marks around a message take, about.
TOKENS_PER_MESSAGE = 4


async def estimated_tokens(request: Request, content: str, calls: tuple[ToolCall, ...]) -> tuple[int, int]:
    """Return the tokens given and written, counted off the event loop."""
    return await asyncio.to_thread(_count, request, content, calls)


def _count(request: Request, content: str, calls: tuple[ToolCall, ...]) -> tuple[int, int]:
    count = partial(count_tokens, model=request.model)
    given = sum(_of_message(message, count) + TOKENS_PER_MESSAGE for message in request.messages)
    given += count(str(request.response_format.schema)) if request.response_format else 0
    given += sum(count(f"{tool.name}{tool.description}{tool.parameters}") for tool in request.tools)
    return given, count(content) + sum(count(f"{call.name}{call.arguments}") for call in calls)


def _of_message(message: Message, count: Counter) -> int:
    """Count what was said, and the calls with what they carry: a file that was written is in there."""
    return count(message.content) + sum(count(f"{call.name}{call.arguments}") for call in message.tool_calls)
