"""Estimates the tokens of a call whose server does not report them."""

import asyncio
from functools import partial

from artel.brain.brain import Message, Request, ToolCall
from artel.brain.tokens import Counter, count_tokens

# Approximate overhead of the chat format.
TOKENS_PER_MESSAGE = 4


async def estimated_tokens(request: Request, content: str, calls: tuple[ToolCall, ...]) -> tuple[int, int]:
    """Return input and output tokens, counted in a thread."""
    return await asyncio.to_thread(_count, request, content, calls)


def _count(request: Request, content: str, calls: tuple[ToolCall, ...]) -> tuple[int, int]:
    count = partial(count_tokens, model=request.model)
    input_tokens = sum(_of_message(message, count) + TOKENS_PER_MESSAGE for message in request.messages)
    input_tokens += count(str(request.response_format.schema)) if request.response_format else 0
    input_tokens += sum(count(f"{tool.name}{tool.description}{tool.parameters}") for tool in request.tools)
    return input_tokens, count(content) + sum(count(f"{call.name}{call.arguments}") for call in calls)


def _of_message(message: Message, count: Counter) -> int:
    # The arguments of calls count too: they can hold a whole file.
    return count(message.content) + sum(count(f"{call.name}{call.arguments}") for call in message.tool_calls)
