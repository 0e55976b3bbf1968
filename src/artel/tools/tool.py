"""The base classes of tools, and their result."""

import asyncio
import inspect
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from artel.brain.brain import ToolSchema
from artel.logs import get_logger
from artel.text import encodable
from artel.tools.consent import Decision, Question
from artel.tools.policy import Level

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_RESULT_CHARACTERS = 16_000
MAX_BLOCKING_CALLS = 16

_blocking_calls = threading.BoundedSemaphore(MAX_BLOCKING_CALLS)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call: `data` on success, else `error`, a text that a model can act on."""

    success: bool
    data: "JsonValue" = None
    error: str | None = None

    @classmethod
    def failure(cls, error: str) -> "ToolResult":
        """Return the result of a failed call."""
        return cls(success=False, error=error)

    def text_for_model(self) -> str:
        """Return the result as a JSON document of at most 16,000 characters, with a note if it was cut."""
        try:
            return self._text()
        except Exception as problem:  # noqa: BLE001 - of foreign code: the data may contain themselves, or raise anything
            log.warning("tool_result_unusable", error=type(problem).__name__)
            return ToolResult.failure("The tool was called, but its result can't be written as JSON.").text_for_model()

    def _text(self) -> str:
        name, value = ("data", self.data) if self.success else ("error", self.error)
        # Serialize only what can be shown: a file of 10 MB takes too long.
        shown, left = beginning(value, MAX_RESULT_CHARACTERS)
        if left >= 0:
            text = _dumped({"success": self.success, name: value})
            if len(text) <= MAX_RESULT_CHARACTERS:
                return text
        if isinstance(value, str):
            size = str(len(value))
        else:
            shown = _dumped(shown)
            size = str(len(shown)) if left >= 0 else f"more than {MAX_RESULT_CHARACTERS - left}"
        shown = shown[:MAX_RESULT_CHARACTERS]
        while True:
            note = f"Only the first {len(shown)} of {size} characters are shown."
            text = _dumped({"success": self.success, "cut": note, name: shown})
            if len(text) <= MAX_RESULT_CHARACTERS:
                return text
            # Escaped characters make the text longer: cut in proportion, and measure again.
            shown = shown[: min(len(shown) - 1, len(shown) * MAX_RESULT_CHARACTERS // len(text))]


class Tool(ABC):
    """A tool; the user and agent that it acts for are part of the tool, never of the arguments."""

    name: str
    schema: ToolSchema
    level = Level.CRITICAL  # unless the tool says otherwise
    records_itself = False  # whether it writes its own audit records
    is_checked_elsewhere = False  # whether its schema is not ours, and who gave it checks the arguments

    @property
    def description(self) -> str:
        """What the model is told about the tool."""
        return self.schema.description

    @property
    def parameters_schema(self) -> Mapping[str, Any]:
        """The JSON schema of the arguments."""
        return self.schema.parameters

    def to_openai_schema(self) -> dict[str, Any]:
        """Return the tool in the format of OpenAI's function calling."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters_schema)}
        return {"type": "function", "function": function}

    def execute(self, *args: Any, **arguments: Any) -> "ToolResult | Awaitable[ToolResult]":
        """Call the tool with its arguments by name: for code that has checked them itself."""
        if args:
            raise TypeError(f"{self.name} takes its arguments by name")
        return self.call(arguments)

    def question(self, _arguments: Mapping[str, Any]) -> Question | None:
        """Return the question that the user must answer before the call, if any."""
        return None

    async def approval_details(self, _arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what an approval is bound to beyond the arguments, for the question's details."""
        return {}

    @abstractmethod
    async def call(self, arguments: Mapping[str, Any], approval: Decision | None = None) -> ToolResult:
        """Carry out a call, whose arguments match the schema; raise NeedsApproval if the user must be asked first."""


class BaseTool(Tool):
    """Base class of tools in other packages: a name, a description, a schema and `execute`.

    `execute` gets the arguments by name and may be a coroutine; otherwise it runs in a thread. It returns a ToolResult,
    or a value that becomes the data of one. Its limits are those of the toolbox: schema, policy, deadline, audit.
    """

    name: str
    description: str = ""
    parameters_schema: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    level = Level.RESTRICTED

    @cached_property
    def schema(self) -> ToolSchema:  # type: ignore[override]  # made on first use
        """The tool as the model sees it."""
        return ToolSchema(self.name, self.description, self.parameters_schema)

    @abstractmethod
    def execute(self, *args: Any, **arguments: Any) -> Any:
        """Carry out a call."""

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        """Execute the tool, and return its result or value as a ToolResult."""
        if inspect.iscoroutinefunction(self.execute):
            value = await self.execute(**arguments)
        else:
            value = await in_thread(lambda: self.execute(**arguments))
            if inspect.isawaitable(value):
                value = await value
        return value if isinstance(value, ToolResult) else ToolResult(success=True, data=value)


async def in_thread(call: Callable[[], Any], slots: threading.BoundedSemaphore | None = None) -> Any:
    """Return the result of a blocking call, of foreign code unless it has `slots` of its own.

    A thread can't be stopped. So it is a daemon, which does not keep the process alive, and there are only so many of
    them: calls that never return use up their own threads and not those of the event loop.
    """
    slots = slots or _blocking_calls
    if not slots.acquire(blocking=False):
        return ToolResult.failure("Too many calls of this kind are running. Try again later.")
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def finish(value: Any, failure: Exception | None) -> None:
        if done.done():  # cancelled meanwhile
            return
        if failure is None:
            done.set_result(value)
        else:
            done.set_exception(failure)

    def run() -> None:
        value: Any = None
        failure: Exception | None = None
        try:
            value = call()
        except BaseException as problem:  # noqa: BLE001 - foreign code; it is raised again where the call was made
            failure = RuntimeError(f"it raised {type(problem).__name__}")
            if isinstance(problem, Exception) and not isinstance(problem, StopIteration):
                failure = problem  # others can't be raised in a coroutine, or end more than the call
        finally:
            slots.release()
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(finish, value, failure)

    threading.Thread(target=run, name="tool", daemon=True).start()
    return await done


def argument(kind: str, description: str, **rules: Any) -> dict[str, Any]:
    """Return the JSON schema of one argument; `kind` is its JSON type."""
    return {"type": kind, **rules, "description": description}


def tool_schema(
    name: str, description: str, properties: Mapping[str, Any], required: Sequence[str] | None = None
) -> ToolSchema:
    """Return the schema of a tool that takes these arguments and no others."""
    parameters: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required is not None:
        parameters["required"] = list(required)
    parameters["additionalProperties"] = False
    return ToolSchema(name, description, parameters)


def beginning(value: Any, room: int) -> tuple[Any, int]:
    """Return as much of a value as fits into `room` characters of JSON, and the room left: negative if it was cut.

    JSON's quotes, commas and escapes are not counted, so a value that is cut here would never have fit.
    """
    if isinstance(value, str):
        return value[: max(room, 0)], room - len(value)
    room -= 1
    if isinstance(value, dict | list):
        shown = []
        for name, item in value.items() if isinstance(value, dict) else (("", item) for item in value):
            if room < 0:
                break
            start, room = beginning(item, room - len(str(name)))
            shown.append((name, start))
        return dict(shown) if isinstance(value, dict) else [start for _, start in shown], room
    return value, room


def _dumped(value: Any) -> str:
    return encodable(json.dumps(value, ensure_ascii=False, default=str))  # model servers refuse lone surrogates
