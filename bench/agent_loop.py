"""`python -m bench.agent_loop`: CPU time of the agent loop itself, with a brain that answers at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from artel.agent_loop.loop import load_graphs, run_loop
from artel.agent_loop.task import AgentSpec, LoopSettings
from artel.brain.brain import Completion, Message, Request, TokenSink, ToolCall, Usage
from artel.logs import configure_logs
from artel.tools.recall import MemoryWrite, Recollection
from artel.tools.tool import ToolResult
from artel.tools.toolbox import Toolbox

ROUNDS, RUNS = 5, 500
MESSAGES = (Message("system", "You help."), Message("user", "Hello."))
CALL = ToolCall("call_1", "memory_write", '{"content": "x"}')


class InstantBrain:
    """A brain that answers at once: with a tool call if tools are offered, then with a word."""

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:  # noqa: ARG002
        usage = Usage("m", 1, 1, 0.0, calls=1)
        if request.response_format:
            parsed = {"needs_improvement": False, "critique": "", "understanding": "", "steps": []}
            return Completion("{}", (), "stop", usage, parsed)  # type: ignore[arg-type]
        if request.tools and request.messages[-1].role == "user":
            return Completion("", (CALL,), "tool_calls", usage)
        return Completion("Hi.", (), "stop", usage)

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class NullListener:
    """A listener that does nothing."""

    def token(self, text: str) -> None: ...
    def restart(self) -> None: ...
    def phase(self, name: str) -> None: ...
    def tool_called(self, call: ToolCall) -> None: ...
    def tool_result(self, call: ToolCall, result: ToolResult) -> None: ...


class NullMemory:
    """A memory that stores nothing."""

    async def search(self, query: str, top_k: int, type: str | None) -> list[Recollection]:  # noqa: A002, ARG002
        return []

    async def remember(self, content: str, type: str) -> str:  # noqa: A002, ARG002
        return "1"


async def cpu(work: Callable[[], Awaitable[Any]]) -> float:
    """Return the CPU time of one call in milliseconds, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(RUNS):
            await work()
        best = min(best, time.process_time() - started)
    return best * 1000 / RUNS


async def pause(work: Awaitable[Any]) -> tuple[float, float]:
    """Return the duration of the work, and the longest time it blocked the event loop, in seconds."""
    task = asyncio.ensure_future(work)
    started = last = time.perf_counter()
    worst = 0.0
    while not task.done():
        await asyncio.wait([task], timeout=0.001)
        now = time.perf_counter()
        worst, last = max(worst, now - last), now
    return time.perf_counter() - started, worst


async def main() -> None:
    """Print the figures."""
    configure_logs("json", "warning")
    seconds, worst = await pause(load_graphs())
    print(f"{'import of LangGraph, in a thread':44} {seconds:8.2f} s    longest pause {worst * 1000:.0f} ms")
    deadline = time.monotonic() + 3600
    all_phases = LoopSettings(understand=True, plan=True, critique=True)
    no_tools, one_tool = Toolbox(), Toolbox([MemoryWrite(NullMemory())], ["memory_write"])
    cases = {
        "execute, finish": (LoopSettings(), no_tools, "target < 0.8 ms"),
        "execute, tool_call, execute, finish": (LoopSettings(), one_tool, ""),
        "all phases": (all_phases, no_tools, ""),
    }
    for name, (loop, toolbox, note) in cases.items():
        spec = AgentSpec("agent", "m", 0.0, 100, loop=loop)
        milliseconds = await cpu(lambda: run_loop(spec, MESSAGES, InstantBrain(), toolbox, NullListener(), deadline))  # noqa: B023
        print(f"{name:44} {milliseconds:8.2f} ms   {note}")


if __name__ == "__main__":
    asyncio.run(main())
