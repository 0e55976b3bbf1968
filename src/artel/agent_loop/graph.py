"""The loop as a LangGraph graph, for agents with optional phases; imported lazily, because the import takes seconds.

Measured overhead of LangGraph for a run of execute and finish: 0.6 ms if a node returns its successor (`Command`), 0.9
with a conditional edge. The number of channels, and passing the run as context or as a channel, make no difference;
`astream` without a stream mode is a little cheaper than `ainvoke`.
"""

import os
from functools import lru_cache
from typing import Protocol, TypedDict

import langsmith
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from artel.agent_loop.loop import Run, run_phase
from artel.agent_loop.parking import Phase, State
from artel.agent_loop.task import LoopSettings

# Environment variables could make LangChain upload every conversation, or fail each run because they are outdated.
langsmith.configure(enabled=False)
for _variable in ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER"):
    os.environ.pop(_variable, None)


class Channels(TypedDict):
    """The LangGraph state: one object, which the phases change in place."""

    state: State


Graph = CompiledStateGraph[Channels, Run, Channels, Channels]


async def go_through(state: State, run: Run) -> None:
    """Run the phases of the agent on the state."""
    settings = run.spec.loop
    graph = compiled(
        understand=settings.understand, plan=settings.plan, critique=settings.critique, resumed=bool(state.calls)
    )
    # More steps than a run can take, so that only our own limits end it.
    steps = 10 + 2 * (max(0, settings.tool_calls) + max(0, settings.max_iterations))
    config: RunnableConfig = {"recursion_limit": steps}
    async for _ in graph.astream({"state": state}, config, context=run, stream_mode=[]):
        pass


@lru_cache(maxsize=16)  # all combinations
def compiled(*, understand: bool, plan: bool, critique: bool, resumed: bool = False) -> Graph:
    """Return the compiled graph with these phases; it has no state of a run, so that agents share it.

    A parked run resumes at `tool_call`.
    """
    successors: dict[Phase, tuple[Phase, ...]] = {
        "understand": ("plan" if plan else "execute",),
        "plan": ("execute",),
        "execute": ("tool_call", "critique", "finish") if critique else ("tool_call", "finish"),
        "tool_call": ("execute",),
        "critique": ("execute", "finish"),
        "finish": (),
    }
    optional: dict[Phase, bool] = {"understand": understand, "plan": plan, "critique": critique}
    graph = StateGraph(Channels, context_schema=Run)
    for name, destinations in successors.items():
        if optional.get(name, True):
            graph.add_node(name, _node(name), destinations=destinations)
    first = LoopSettings(understand=understand, plan=plan).first_phase
    graph.add_edge(START, "tool_call" if resumed else first)
    return graph.compile()


class GraphNode(Protocol):
    """A node as LangGraph calls it."""

    async def __call__(self, state: Channels, *, runtime: Runtime[Run]) -> Command[str]: ...


def _node(name: Phase) -> GraphNode:
    async def node(state: Channels, *, runtime: Runtime[Run]) -> Command[str]:
        return Command(goto=await run_phase(name, state["state"], runtime.context) or END)

    return node
