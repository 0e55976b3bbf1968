"""What tests of agents share: a brain that follows a script, a listener that keeps everything, tools, a memory."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from artel.brain.brain import Completion, Request, TokenSink, ToolCall, Usage
from artel.tools.consent import Decision
from artel.tools.policy import Level
from artel.tools.recall import Recollection
from artel.tools.tool import Tool, ToolResult, tool_schema

Reply = Completion | BaseException

STRUCTURED: dict[str, dict[str, Any]] = {
    "understanding": {"understanding": "They want an answer."},
    "steps": {"steps": ["Think.", "Answer."]},
    "critique": {"needs_improvement": False, "critique": "Good."},
}


def reply(text: str, *calls: ToolCall, reason: str = "stop") -> Completion:
    """Return a completion of a model."""
    return Completion(text, calls, "tool_calls" if calls else reason, Usage("gpt-4", 10, 5, 0.01, calls=1))


def structured(value: Any) -> Completion:
    return Completion(json.dumps(value), (), "stop", Usage("gpt-4", 10, 5, 0.01, calls=1), parsed=value)


def sent_back(text: str) -> Completion:
    return structured({"needs_improvement": True, "critique": text})


def wants(name: str, call_id: str = "call_1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


class ScriptedBrain:
    """Return what the script says, one by one, then "Done."; structured questions it answers well by itself."""

    def __init__(
        self, *script: Completion | BaseException, critiques: Sequence[Completion | BaseException] = ()
    ) -> None:
        self.asked: list[Request] = []
        self._script = list(script)
        self._critiques = list(critiques)

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        self.asked.append(request)
        await asyncio.sleep(0)
        answer = self._next(request)
        if isinstance(answer, BaseException):
            raise answer
        if stream is not None:
            for word in answer.content.split(" "):
                stream.token(f"{word} ")
        return answer

    async def close(self) -> None:
        pass

    @property
    def kinds(self) -> list[str]:
        """What was asked for: the names of structures, or "answer"."""
        return [request.response_format.name if request.response_format else "answer" for request in self.asked]

    def _next(self, request: Request) -> Reply:
        if request.response_format is None:
            return self._script.pop(0) if self._script else reply("Done.")
        if request.response_format.name == "critique" and self._critiques:
            return self._critiques.pop(0)
        return structured(STRUCTURED[request.response_format.name])


class SilentBrain(ScriptedBrain):
    """Never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:  # noqa: ARG002
        self.asked.append(request)
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")


@dataclass
class Heard:
    """A listener that keeps what it hears, in order."""

    events: list[tuple[str, Any]] = field(default_factory=list)
    text: str = ""
    restarts: int = 0

    def token(self, text: str) -> None:
        self.text += text

    def restart(self) -> None:
        self.text = ""
        self.restarts += 1

    def phase(self, name: str) -> None:
        self.events.append(("phase", name))

    def tool_called(self, call: ToolCall) -> None:
        self.events.append(("called", call))

    def tool_result(self, call: ToolCall, result: ToolResult) -> None:
        self.events.append(("result", (call, result)))

    def results(self) -> list[ToolResult]:
        return [what[1] for kind, what in self.events if kind == "result"]


@dataclass
class Repeat(Tool):
    """A tool that answers what it is given, and keeps it."""

    level = Level.SAFE
    name: str = "repeat"
    calls: list[Mapping[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        properties = {"text": {"type": "string", "maxLength": 20}}
        self.schema = tool_schema(self.name, "Repeats a text.", properties, ["text"])

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        self.calls.append(arguments)
        return ToolResult(success=True, data={"repeated": arguments["text"]})


@dataclass
class Broken(Repeat):
    """A tool that raises."""

    name: str = "broken"
    problem: BaseException = field(default_factory=lambda: RuntimeError("the password is hunter2"))

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        self.calls.append(arguments)
        raise self.problem


@dataclass
class Returning(Repeat):
    """A tool that returns any data."""

    name: str = "returning"
    data: Any = None

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        self.calls.append(arguments)
        return ToolResult(success=True, data=self.data)


@dataclass
class Endless(Repeat):
    """A tool that is never done."""

    name: str = "endless"
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        self.calls.append(arguments)
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")


class ListRecall:
    """A memory in a list, which finds what contains the query."""

    def __init__(self) -> None:
        self.kept: list[Recollection] = []
        self.searched: list[tuple[str, int, str | None]] = []

    async def search(self, query: str, top_k: int, type: str | None) -> list[Recollection]:  # noqa: A002
        self.searched.append((query, top_k, type))
        found = [one for one in self.kept if query in one.text and type in (None, one.type)]
        return found[:top_k]

    async def remember(self, content: str, type: str) -> str:  # noqa: A002
        self.kept.append(Recollection(content, "agent", 0.87654, type, datetime(2026, 11, 15, tzinfo=UTC)))
        return f"memory-{len(self.kept)}"
