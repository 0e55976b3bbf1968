"""The tools that one agent has. Whatever goes wrong with a call is told to the model, which may try another way."""

import asyncio
import json
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from artel.brain.brain import ToolCall, ToolSchema
from artel.brain.structured import load_jsonschema
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.tools.tool import Tool, ToolResult

SHOWN_CHARACTERS = 500

log = get_logger(__name__)


class ArgumentsInvalid(ValueError):
    """The arguments are no JSON object, or not the one that the tool takes."""


class NotCalled(Exception):
    """The tool was not called at all; the text says why, to the model."""


class Toolbox:
    """Calls the tools that are both there and allowed, and no others."""

    def __init__(self, tools: Iterable[Tool] = (), allowed: Collection[str] = ()) -> None:
        there = {tool.name: tool for tool in tools}
        self._tools = {name: tool for name, tool in there.items() if name in allowed}
        self._forbidden = there.keys() - self._tools.keys()
        self._validators: dict[str, Any] = {}
        self.schemas: tuple[ToolSchema, ...] = tuple(tool.schema for tool in self._tools.values())

    async def call(self, call: ToolCall, deadline: float) -> ToolResult:
        """Make the call before `deadline` (seconds of `time.monotonic()`); only a cancellation is ever raised."""
        begun = time.monotonic()
        result = await self._result(call, deadline)
        log.info(
            "tool_called",
            tool=call.name[:SHOWN_CHARACTERS],
            success=result.success,
            duration_ms=round((time.monotonic() - begun) * 1000, 1),
            error=result.error and result.error[:SHOWN_CHARACTERS],
        )
        return result

    async def _result(self, call: ToolCall, deadline: float) -> ToolResult:
        try:
            async with asyncio.timeout(deadline - time.monotonic()) as limit:
                return await self._called(call, deadline)
        except NotCalled as problem:
            error = str(problem)
        except ArtelError as problem:
            error = problem.detail
        except (Exception, asyncio.CancelledError) as problem:
            if isinstance(problem, asyncio.CancelledError) and _is_cancelled():
                raise
            if isinstance(problem, TimeoutError) and limit.expired():
                error = f"{call.name} was stopped: it was not done in time."
            else:
                log.warning("tool_failed", tool=call.name, exc_info=True)
                error = f"{call.name} failed because of an error inside it. Try another way."
        return ToolResult.failure(error)

    async def _called(self, call: ToolCall, deadline: float) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            raise NotCalled(self._refusal(call.name))
        if deadline <= time.monotonic():
            raise NotCalled(f"{call.name} was not called: there is no time left.")
        try:
            arguments = parsed_arguments(call.arguments)
            await self._check(tool, arguments)
        except ArgumentsInvalid as problem:
            raise NotCalled(
                f"{call.name} was not called: {problem}. Correct the arguments and call it again."
            ) from None
        return await tool.call(arguments)

    def _refusal(self, name: str) -> str:
        yours = f"Your tools: {', '.join(self._tools)}." if self._tools else "You have no tools."
        if name in self._forbidden:
            return f"You may not use {name}. {yours}"
        return f"There is no tool {name[:SHOWN_CHARACTERS]!r}. {yours}"

    async def _check(self, tool: Tool, arguments: dict[str, Any]) -> None:
        jsonschema = await load_jsonschema()
        validator = self._validators.get(tool.name)
        if validator is None:
            validator = self._validators[tool.name] = jsonschema.Draft202012Validator(tool.schema.parameters)
        wrong = jsonschema.exceptions.best_match(validator.iter_errors(arguments))
        if wrong is not None:
            place = ".".join(str(step) for step in wrong.absolute_path) or "the arguments"
            raise ArgumentsInvalid(f"{place}: {wrong.message[:SHOWN_CHARACTERS]}")


def parsed_arguments(text: str) -> dict[str, Any]:
    """Answer the arguments that a model wrote, or raise `ArgumentsInvalid`; none at all are no arguments."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        raise ArgumentsInvalid(f"its arguments are not JSON ({problem})") from None
    if not isinstance(value, Mapping):
        raise ArgumentsInvalid("its arguments must be one JSON object")
    return dict(value)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_cancelled() -> bool:
    """Answer whether it is this task that is cancelled, and not something that a tool was waiting for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
