"""The phases of an agent's loop: each changes the state of a run and returns the next phase."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from artel.agent_loop import prompts
from artel.agent_loop.task import AgentSpec, Listener, Tally
from artel.brain.brain import Brain, Completion, Message, Request, Schema, TokenSink, ToolCall, ToolSchema, Usage
from artel.brain.errors import ModelAnswerInvalid, ModelError
from artel.errors import ArtelError, BudgetExceeded, Kind
from artel.logs import get_logger
from artel.tools.consent import NeedsApproval
from artel.tools.tool import ToolResult
from artel.tools.toolbox import ArgumentsInvalid, Toolbox, parsed_arguments

if TYPE_CHECKING:
    from pydantic import JsonValue

Phase = Literal["understand", "plan", "execute", "tool_call", "critique", "finish"]

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

log = get_logger(__name__)


class AnswerEmpty(ArtelError):
    """The model returned no text."""

    kind = Kind.UNAVAILABLE
    code = "model_answer_empty"


@dataclass(slots=True)
class State:
    """The state of a run: only plain data, because it is serialized when the run is parked."""

    messages: tuple[Message, ...]
    # The results of understand and plan.
    notes: tuple[Message, ...] = ()
    # The model's tool calls with their results, and then the calls without a result.
    exchange: tuple[Message, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    draft: str = ""
    finish_reason: str = ""
    # The last rejected draft, with its critique.
    sent_back: tuple[Message, ...] = ()
    iterations: int = 0
    tool_calls: int = 0
    phases: tuple[Phase, ...] = ()
    # Whether the event of the first pending call was sent: a run that is parked there sends it once.
    is_announced: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """The collaborators and limits of one run."""

    spec: AgentSpec
    brain: Brain
    toolbox: Toolbox
    listener: Listener
    deadline: float
    tally: Tally


PhaseFunction = Callable[[State, Run], Awaitable[Phase | None]]


async def understand(state: State, run: Run) -> Phase:
    """Ask the model how it understands the task."""
    answer = await _structured(state, run, prompts.UNDERSTAND, prompts.UNDERSTANDING)
    if answer is not None:
        state.notes += (prompts.quoted(prompts.UNDERSTOOD, answer),)
    return "plan" if run.spec.loop.plan else "execute"


async def plan(state: State, run: Run) -> Phase:
    """Ask the model for the steps of its work."""
    answer = await _structured(state, run, prompts.PLAN, prompts.STEPS)
    if answer is not None:
        state.notes += (prompts.quoted(prompts.PLANNED, answer),)
    return "execute"


async def execute(state: State, run: Run) -> Phase:
    """Ask the model for an answer or, until the limit is reached, for tool calls."""
    if state.draft:
        # The streamed text is obsolete: a rejected draft, or text before a tool call.
        run.listener.restart()
        state.draft = ""
    settings, tools = run.spec.loop, run.toolbox.schemas
    instructions = (prompts.TOOLS, *state.sent_back) if tools else state.sent_back
    if tools and state.tool_calls >= settings.tool_calls:
        tools, instructions = (), (*instructions, prompts.NO_MORE_TOOLS)
    completion = await _ask(state, run, instructions, tools=tools, stream=run.listener)
    state.draft, state.finish_reason = completion.content, completion.finish_reason
    if completion.tool_calls and tools:
        sendable = tuple(_sendable(call) for call in completion.tool_calls)
        state.exchange += (Message("assistant", completion.content, tool_calls=sendable),)
        state.calls = completion.tool_calls
        return "tool_call"
    if settings.critique and state.iterations < settings.max_iterations and state.draft.strip():
        return "critique"
    return "finish"


async def tool_call(state: State, run: Run) -> Phase:
    """Execute the pending tool calls in order, and append a result for each."""
    while state.calls:
        call, *rest = state.calls
        if not state.is_announced:
            run.listener.tool_called(call)
            state.is_announced = True
        result = await _call_tool(call, state, run)
        run.listener.tool_result(call, result)
        state.exchange += (Message("tool", result.text_for_model(), tool_call_id=call.id),)
        state.calls, state.is_announced = tuple(rest), False
    return "execute"


async def critique(state: State, run: Run) -> Phase:
    """Ask the model to review its draft; send a draft that needs improvement back to execute."""
    instruction = prompts.quoted(prompts.CRITIQUE, {"draft": state.draft})
    try:
        answer = await _structured(state, run, instruction, prompts.CRITIQUE_SCHEMA)
    except ModelError as failure:
        log.warning("critique_failed", agent=run.spec.name, error=failure.detail)
        answer = None  # an unreviewed draft is better than no answer
    match answer:
        case {"needs_improvement": True, "critique": str(text)}:
            state.iterations += 1
            state.sent_back = (prompts.quoted(prompts.SENT_BACK, {"draft": state.draft, "critique": text}),)
            return "execute"
    return "finish"


async def finish(state: State, run: Run) -> None:
    """Raise AnswerEmpty if there is no answer."""
    if not state.draft.strip():
        why = "ended without an answer. Try again, or choose another model for the agent."
        if state.finish_reason == "length":
            why = f"used up its {run.spec.max_tokens} tokens before it said anything. Raise the agent's max_tokens."
        raise AnswerEmpty(f"{run.spec.model} {why}")


async def _call_tool(call: ToolCall, state: State, run: Run) -> ToolResult:
    limit = run.spec.loop.tool_calls
    if state.tool_calls >= limit:
        return ToolResult.failure(f"{call.name} was not called: all {limit} tool calls of this task are used up.")
    result = await run.toolbox.call(call, run.deadline)
    state.tool_calls += 1  # not reached by a call that needs approval: it is repeated later
    return result


async def _structured(state: State, run: Run, instruction: Message, schema: Schema) -> "dict[str, JsonValue] | None":
    """Return a structured answer, or None if the model can't give one."""
    try:
        completion = await _ask(state, run, (instruction,), schema=schema)
    except ModelAnswerInvalid as failure:
        log.warning("phase_left_out", agent=run.spec.name, wanted=schema.name, error=failure.detail)
        return None
    return completion.parsed if isinstance(completion.parsed, dict) else None


async def _ask(
    state: State,
    run: Run,
    instructions: tuple[Message, ...],
    *,
    tools: tuple[ToolSchema, ...] = (),
    schema: Schema | None = None,
    stream: TokenSink | None = None,
) -> Completion:
    """Call the model and add the usage to the tally; every model call of the loop goes through here."""
    spec = run.spec
    request = Request(
        model=spec.model,
        messages=_messages(state, instructions),
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        deadline=run.deadline,
        tools=tools,
        response_format=schema,
        fallback_model=spec.fallback_model,
        max_context_tokens=spec.max_context_tokens,
    )
    run.tally.begin(request)
    try:
        completion = await run.brain.complete(request, stream)
    except (NeedsApproval, BudgetExceeded):  # over budget: the model was not called
        run.tally.pending = None
        raise
    except ModelError as failure:
        run.tally.add(failure.usage or Usage(spec.model, calls=1))
        raise
    run.tally.add(completion.usage)
    return completion


def _messages(state: State, instructions: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages; the instructions follow the system prompt, so that the user's message stays last."""
    notes = state.notes + instructions
    if not notes:
        return state.messages + state.exchange
    head = tuple(takewhile(lambda message: message.role == "system", state.messages))
    return head + notes + state.messages[len(head) :] + state.exchange


def _sendable(call: ToolCall) -> ToolCall:
    """Return the call with invalid names and arguments replaced, because providers reject them in the history."""
    try:
        arguments = call.arguments if parsed_arguments(call.arguments) else "{}"
    except ArgumentsInvalid:
        arguments = "{}"
    call = replace(call, arguments=arguments)
    return call if _TOOL_NAME.fullmatch(call.name) else replace(call, name="unknown_tool")
