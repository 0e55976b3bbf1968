"""`python -m bench.agent_loop`: CPU time of the loop with and without LangGraph; its brain answers at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from artel.agent_loop.graph import go_through
from artel.agent_loop.loop import Run, go_directly
from artel.agent_loop.parking import State
from artel.agent_loop.task import AgentSpec, LoopSettings, Tally
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


async def cpu(paths: Sequence[Callable[[State, Run], Awaitable[None]]], run: Run) -> list[float]:
    """Return the CPU time of one run of each path in milliseconds, the best of several interleaved rounds."""
    best = [float("inf")] * len(paths)
    for _ in range(ROUNDS):
        for number, path in enumerate(paths):
            started = time.process_time()
            for _ in range(RUNS):
                await path(State(MESSAGES), run)
            best[number] = min(best[number], time.process_time() - started)
    return [seconds * 1000 / RUNS for seconds in best]


async def main() -> None:
    """Print the figures."""
    configure_logs("json", "warning")
    all_phases = LoopSettings(understand=True, plan=True, critique=True)
    no_tools, one_tool = Toolbox(), Toolbox([MemoryWrite(NullMemory())], ["memory_write"])
    cases = {
        "execute, finish": (LoopSettings(), no_tools),
        "execute, tool_call, execute, finish": (LoopSettings(), one_tool),
        "all phases": (all_phases, no_tools),
    }
    print(f"{'':44} {'direct':>11} {'graph':>11}")
    for name, (loop, toolbox) in cases.items():
        spec = AgentSpec("agent", "m", 0.0, 100, loop=loop)
        run = Run(spec, InstantBrain(), toolbox, NullListener(), time.monotonic() + 3600, Tally("m"))
        direct, by_graph = await cpu([go_directly, go_through], run)
        print(f"{name:44} {direct:8.3f} ms {by_graph:8.3f} ms")


if __name__ == "__main__":
    asyncio.run(main())
