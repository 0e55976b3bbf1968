"""The phases of an agent's loop: each does one thing to the state of a run and answers which phase comes next."""

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
    """The model ended without having said anything."""

    kind = Kind.UNAVAILABLE
    code = "model_answer_empty"


@dataclass(slots=True)
class State:
    """How far a run has come. Only plain data, so that it can be written down and read again."""

    messages: tuple[Message, ...]
    # What understand and plan found out.
    notes: tuple[Message, ...] = ()
    # The model's tool calls and their answers, since the task was given, and the calls that have no answer yet.
    exchange: tuple[Message, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    draft: str = ""
    finish_reason: str = ""
    # The draft that was sent back last, with the critique.
    sent_back: tuple[Message, ...] = ()
    iterations: int = 0
    tool_calls: int = 0
    phases: tuple[Phase, ...] = ()
    # Whether it was told that the first of the calls is made: a run that parks there tells it once.
    is_announced: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """What the phases of one run work with."""

    spec: AgentSpec
    brain: Brain
    toolbox: Toolbox
    listener: Listener
    deadline: float
    tally: Tally


PhaseFunction = Callable[[State, Run], Awaitable[Phase | None]]


async def understand(state: State, run: Run) -> Phase:
    """Have the model say what is wanted."""
    answer = await _structured(state, run, prompts.UNDERSTAND, prompts.UNDERSTANDING)
    if answer is not None:
        state.notes += (prompts.quoted(prompts.UNDERSTOOD, answer),)
    return "plan" if run.spec.loop.plan else "execute"


async def plan(state: State, run: Run) -> Phase:
    """Have the model say in which steps it will work."""
    answer = await _structured(state, run, prompts.PLAN, prompts.STEPS)
    if answer is not None:
        state.notes += (prompts.quoted(prompts.PLANNED, answer),)
    return "execute"


async def execute(state: State, run: Run) -> Phase:
    """Have the model answer, or ask for tools as long as it may still call some."""
    if state.draft:
        # What was streamed is void: it was sent back, or said on the way to a tool.
        run.listener.restart()
        state.draft = ""
    settings, tools = run.spec.loop, run.toolbox.schemas
    told = (prompts.TOOLS, *state.sent_back) if tools else state.sent_back
    if tools and state.tool_calls >= settings.tool_calls:
        tools, told = (), (*told, prompts.NO_MORE_TOOLS)
    completion = await _ask(state, run, told, tools=tools, stream=run.listener)
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
    """Make the calls that the model asked for, in its order, and keep one answer for each."""
    while state.calls:
        call, *rest = state.calls
        if not state.is_announced:
            run.listener.tool_called(call)
            state.is_announced = True
        result = await _called(call, state, run)
        run.listener.tool_result(call, result)
        state.exchange += (Message("tool", result.text_for_model(), tool_call_id=call.id),)
        state.calls, state.is_announced = tuple(rest), False
    return "execute"


async def critique(state: State, run: Run) -> Phase:
    """Have the model judge its draft; a draft that needs improvement goes back, with the critique."""
    told = prompts.quoted(prompts.CRITIQUE, {"draft": state.draft})
    try:
        answer = await _structured(state, run, told, prompts.CRITIQUE_SCHEMA)
    except ModelError as failure:
        log.warning("critique_failed", agent=run.spec.name, error=failure.detail)
        answer = None  # the draft is there: better than no answer at all
    match answer:
        case {"needs_improvement": True, "critique": str(text)}:
            state.iterations += 1
            state.sent_back = (prompts.quoted(prompts.SENT_BACK, {"draft": state.draft, "critique": text}),)
            return "execute"
    return "finish"


async def finish(state: State, run: Run) -> None:
    """Make sure that there is an answer; nothing comes next."""
    if not state.draft.strip():
        why = "ended without an answer. Try again, or choose another model for the agent."
        if state.finish_reason == "length":
            why = f"used up its {run.spec.max_tokens} tokens before it said anything. Raise the agent's max_tokens."
        raise AnswerEmpty(f"{run.spec.model} {why}")


async def _called(call: ToolCall, state: State, run: Run) -> ToolResult:
    limit = run.spec.loop.tool_calls
    if state.tool_calls >= limit:
        return ToolResult.failure(f"{call.name} was not called: all {limit} tool calls of this task are used up.")
    result = await run.toolbox.call(call, run.deadline)
    state.tool_calls += 1  # not one that must wait for a person: it is made later
    return result


async def _structured(state: State, run: Run, told: Message, wanted: Schema) -> "dict[str, JsonValue] | None":
    """Ask for a structured answer; a model that can't give one goes on without it."""
    try:
        completion = await _ask(state, run, (told,), wanted=wanted)
    except ModelAnswerInvalid as failure:
        log.warning("phase_left_out", agent=run.spec.name, wanted=wanted.name, error=failure.detail)
        return None
    return completion.parsed if isinstance(completion.parsed, dict) else None


async def _ask(
    state: State,
    run: Run,
    told: tuple[Message, ...],
    *,
    tools: tuple[ToolSchema, ...] = (),
    wanted: Schema | None = None,
    stream: TokenSink | None = None,
) -> Completion:
    """Ask the model: the only place that does, and that counts what it takes."""
    spec = run.spec
    request = Request(
        model=spec.model,
        messages=_messages(state, told),
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        deadline=run.deadline,
        tools=tools,
        response_format=wanted,
        fallback_model=spec.fallback_model,
        max_context_tokens=spec.max_context_tokens,
    )
    run.tally.begin(request)
    try:
        completion = await run.brain.complete(request, stream)
    except (NeedsApproval, BudgetExceeded):  # there was no money for it: the model was not asked
        run.tally.pending = None
        raise
    except ModelError as failure:
        run.tally.add(failure.usage or Usage(spec.model, calls=1))
        raise
    run.tally.add(completion.usage)
    return completion


def _messages(state: State, told: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return what to send: what we tell goes behind the system prompt, so that the user's own words stay the last."""
    notes = state.notes + told
    if not notes:
        return state.messages + state.exchange
    head = tuple(takewhile(lambda message: message.role == "system", state.messages))
    return head + notes + state.messages[len(head) :] + state.exchange


def _sendable(call: ToolCall) -> ToolCall:
    """Return the call in a form that every model's server takes back; the tool's answer says what was wrong with it."""
    try:
        arguments = call.arguments if parsed_arguments(call.arguments) else "{}"
    except ArgumentsInvalid:
        arguments = "{}"
    call = replace(call, arguments=arguments)
    return call if _TOOL_NAME.fullmatch(call.name) else replace(call, name="unknown_tool")
