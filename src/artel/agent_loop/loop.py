"""The agent's loop, from what it is told to its answer: each phase changes the state and returns the next phase."""

import asyncio
import importlib
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from artel.agent_loop import prompts
from artel.agent_loop.parking import Parked, Phase, State, dump_state
from artel.agent_loop.task import AgentSpec, Listener, LoopResult, Tally
from artel.brain.brain import Brain, BudgetGuard, Completion, Message, Request, Schema, ToolCall, ToolSchema, Usage
from artel.brain.errors import ModelAnswerInvalid, ModelError, ModelTimedOut
from artel.contract.parked_run import ParkedRun
from artel.errors import ArtelError, BudgetExceeded, Kind
from artel.logs import get_logger
from artel.text import shorten
from artel.tools.consent import NeedsUser
from artel.tools.tool import ToolResult
from artel.tools.toolbox import ArgumentsInvalid, parsed_arguments

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_ERROR_CHARACTERS = 500

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_loaded: dict[str, Any] = {}

log = get_logger(__name__)


class AnswerEmpty(ArtelError, kind=Kind.UNAVAILABLE, code="model_answer_empty"):
    """The model returned no text."""


class Tools(Protocol):
    """The tools of a run; `Toolbox` is one."""

    schemas: tuple[ToolSchema, ...]

    async def call(self, call: ToolCall, deadline: float) -> ToolResult:
        """Carry out a call as `Toolbox.call` does."""


@dataclass(frozen=True, slots=True)
class Run:
    """The collaborators and limits of one run."""

    spec: AgentSpec
    brain: Brain
    toolbox: Tools
    listener: Listener
    deadline: float
    tally: Tally
    budget_guard: BudgetGuard | None = None


async def run_loop(run: Run, state: State) -> LoopResult:
    """Return the answer to the last message of the state; failures are `ArtelError`s.

    What was spent is in the run's tally at every moment, also when the run fails or is cancelled. A run that must wait
    for a person ends with Parked; its state is resumed later.
    """
    try:
        if run.spec.loop.needs_graph:
            await load_graphs()
            await _loaded["graph"].go_through(state, run)
        else:
            await go_directly(state, run)
    except NeedsUser as needs:
        raise Parked(needs, ParkedRun(state=dump_state(state))) from None
    except ArtelError as failure:
        state.error = failure.detail
        raise
    return LoopResult(state.draft, run.tally.usage, state.iterations, state.tool_calls, state.phases)


async def load_graphs() -> None:
    """Import LangGraph in a thread, because it takes a second."""
    if "graph" not in _loaded:
        _loaded["graph"] = await asyncio.to_thread(importlib.import_module, "artel.agent_loop.graph")


async def go_directly(state: State, run: Run) -> None:
    """Run the phases without LangGraph, which costs more CPU time than the phases; the result is the same."""
    phase: Phase | None = "tool_call" if state.calls else run.spec.loop.first_phase
    while phase is not None:
        phase = await run_phase(phase, state, run)


async def run_phase(phase: Phase, state: State, run: Run) -> Phase | None:
    """Run one phase and return the next one."""
    state.phase = phase
    state.phases += (phase,)
    run.listener.phase(phase)
    return await _PHASES[phase](state, run)


async def _understand(state: State, run: Run) -> Phase:
    """Ask the model how it understands the task."""
    answer = await _ask_structured(state, run, prompts.UNDERSTAND, prompts.UNDERSTANDING)
    state.understanding = str((answer or {}).get("understanding", ""))
    state.notes += (prompts.quoted(prompts.UNDERSTOOD, answer),) if answer is not None else ()
    return "plan" if run.spec.loop.plan else "execute"


async def _plan(state: State, run: Run) -> Phase:
    """Ask the model for the steps of its work."""
    answer = await _ask_structured(state, run, prompts.PLAN, prompts.STEPS)
    steps = (answer or {}).get("steps")
    state.plan = tuple(str(step) for step in steps) if isinstance(steps, list) else ()
    state.notes += (prompts.quoted(prompts.PLANNED, answer),) if answer is not None else ()
    return "execute"


async def _execute(state: State, run: Run) -> Phase:
    """Ask the model for an answer or, until the limit is reached, for tool calls."""
    if state.draft:
        # The streamed text is obsolete: a rejected draft, or text before a tool call.
        run.listener.restart()
        state.draft = ""
    settings = run.spec.loop
    completion = await ask(state, run, state.sent_back)
    state.draft, state.finish_reason = completion.content, completion.finish_reason
    if completion.tool_calls and run.toolbox.schemas and _has_calls_left(state, run):
        sendable = tuple(_sendable(call) for call in completion.tool_calls)
        state.exchange += (Message("assistant", completion.content, tool_calls=sendable),)
        state.calls = completion.tool_calls
        return "tool_call"
    if settings.critique and state.iterations < settings.max_iterations and state.draft.strip():
        return "critique"
    return "finish"


async def _call_tools(state: State, run: Run) -> Phase:
    """Execute the pending tool calls in order, and append a result for each."""
    while state.calls:
        call, *rest = state.calls
        if not state.is_announced:
            run.listener.tool_called(call)
            state.is_announced = True
        if _has_calls_left(state, run):
            result = await run.toolbox.call(call, run.deadline)
            state.tool_calls += 1  # not reached by a call that needs approval: it is repeated later
        else:
            limit = run.spec.loop.tool_calls
            result = ToolResult.failure(f"{call.name} was not called: all {limit} tool calls of this task are used up.")
        run.listener.tool_result(call, result)
        error = result.error and shorten(result.error, MAX_ERROR_CHARACTERS)
        state.tool_results += ({"id": call.id, "tool": call.name[:100], "success": result.success, "error": error},)
        state.exchange += (Message("tool", result.text_for_model(), tool_call_id=call.id),)
        state.calls, state.is_announced = tuple(rest), False
    return "execute"


async def _critique(state: State, run: Run) -> Phase:
    """Ask the model to review its draft; send a draft that needs improvement back to execute."""
    instruction = prompts.quoted(prompts.CRITIQUE, {"draft": state.draft})
    try:
        answer = await _ask_structured(state, run, instruction, prompts.CRITIQUE_SCHEMA)
    except ModelError as failure:
        log.warning("critique_failed", agent=run.spec.name, error=failure.detail)
        answer = None  # an unreviewed draft is better than no answer
    state.critique = str((answer or {}).get("critique", ""))
    match answer:
        case {"needs_improvement": True, "critique": str(text)}:
            state.iterations += 1
            state.sent_back = (prompts.quoted(prompts.SENT_BACK, {"draft": state.draft, "critique": text}),)
            return "execute"
    return "finish"


async def _finish(state: State, run: Run) -> None:
    """Raise AnswerEmpty if there is no answer."""
    if not state.draft.strip():
        why = "ended without an answer. Try again, or choose another model for the agent."
        if state.finish_reason == "length":
            why = f"used up its {run.spec.max_tokens} tokens before it said anything. Raise the agent's max_tokens."
        raise AnswerEmpty(f"{run.spec.model} {why}")
    state.result = state.draft


_PHASES: dict[Phase, Callable[[State, Run], Awaitable[Phase | None]]] = {
    "understand": _understand,
    "plan": _plan,
    "execute": _execute,
    "tool_call": _call_tools,
    "critique": _critique,
    "finish": _finish,
}


async def _ask_structured(
    state: State, run: Run, instruction: Message, schema: Schema
) -> "dict[str, JsonValue] | None":
    """Return a structured answer, or None if the model can't give one."""
    try:
        completion = await ask(state, run, (instruction,), schema)
    except ModelAnswerInvalid as failure:
        log.warning("phase_left_out", agent=run.spec.name, wanted=schema.name, error=failure.detail)
        return None
    return completion.parsed if isinstance(completion.parsed, dict) else None


async def ask(
    state: State,
    run: Run,
    instructions: tuple[Message, ...],
    schema: Schema | None = None,
    *,
    repair_invalid: bool = True,
) -> Completion:
    """Call the model within the limits of the run, and add the usage to the tally.

    Every model call of the loop goes through here: it may cost what the budget guard allows, it must end before the
    deadline, and it offers tools only while there are tool calls left, which bounds the number of model calls.
    """
    spec, tools = run.spec, run.toolbox.schemas if schema is None else ()
    if time.monotonic() >= run.deadline:
        raise ModelTimedOut(f"{spec.model} did not finish its answer in time.")
    if tools:
        instructions = (prompts.TOOLS, *instructions)
        if not _has_calls_left(state, run):
            tools, instructions = (), (*instructions, prompts.NO_MORE_TOOLS)
    # The instructions follow the system prompt, so that the user's message stays last.
    head = tuple(takewhile(lambda message: message.role == "system", state.messages))
    request = Request(
        model=spec.model,
        messages=head + state.notes + instructions + state.messages[len(head) :] + state.exchange,
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        deadline=run.deadline,
        tools=tools,
        response_format=schema,
        fallback_model=spec.fallback_model,
        budget_guard=run.budget_guard,
        max_context_tokens=spec.max_context_tokens,
        repair_invalid=repair_invalid,
    )
    run.tally.pending = request
    try:
        completion = await run.brain.complete(request, run.listener if schema is None else None)
    except (NeedsUser, BudgetExceeded):  # over budget: the model was not called
        run.tally.pending = None
        raise
    except ModelError as failure:
        _count(failure.usage or Usage(spec.model, calls=1), state, run)
        raise
    _count(completion.usage, state, run)
    return completion


def _count(usage: Usage, state: State, run: Run) -> None:
    run.tally.add(usage)
    state.llm_calls += usage.calls


def _has_calls_left(state: State, run: Run) -> bool:
    return state.tool_calls < run.spec.loop.tool_calls


def _sendable(call: ToolCall) -> ToolCall:
    """Return the call with invalid names and arguments replaced, because providers reject them in the history."""
    try:
        arguments = call.arguments if parsed_arguments(call.arguments) else "{}"
    except ArgumentsInvalid:
        arguments = "{}"
    call = replace(call, arguments=arguments)
    return call if _TOOL_NAME.fullmatch(call.name) else replace(call, name="unknown_tool")
