"""The agent's loop: from what it is told to its answer, by phases on LangGraph."""

import asyncio
import importlib
from typing import Any

from artel.agent_loop.parking import Parked, dump_state
from artel.agent_loop.phases import Run, State
from artel.agent_loop.task import AgentSpec, Listener, LoopResult, Tally
from artel.brain.brain import Brain, Message
from artel.contract.parked_run import ParkedRun
from artel.tools.consent import NeedsApproval
from artel.tools.toolbox import Toolbox

_loaded: dict[str, Any] = {}


async def run_loop(
    spec: AgentSpec,
    messages: tuple[Message, ...],
    brain: Brain,
    toolbox: Toolbox,
    listener: Listener,
    deadline: float,
    tally: Tally | None = None,
    resumed: State | None = None,
) -> LoopResult:
    """Return the last of the messages before `deadline`; failures are `ArtelError`s.

    What was spent is in `tally` at every moment, also when the run fails or is cancelled. A run that must wait for a
    person ends with Parked; it goes on with `resumed`.
    """
    tally = tally or Tally(spec.model)
    state = resumed or State(messages)
    await load_graphs()
    try:
        await _loaded["graph"].go_through(state, Run(spec, brain, toolbox, listener, deadline, tally))
    except NeedsApproval as asked:
        raise Parked(asked.question, ParkedRun(state=dump_state(state), child=asked.child)) from None
    return LoopResult(state.draft, tally.usage, state.iterations, state.tool_calls, state.phases)


async def load_graphs() -> None:
    """Import LangGraph in a thread, because it takes a second; a host does it when it starts."""
    if "graph" not in _loaded:
        _loaded["graph"] = await asyncio.to_thread(importlib.import_module, "artel.agent_loop.graph")
