"""Saving the state of the agent loop when a run must wait for the user, and restoring it."""

from collections.abc import Iterable
from typing import cast

from artel.agent_loop.phases import Phase, State
from artel.brain.brain import Message, Part, ToolCall
from artel.contract.parked_run import ParkedCall, ParkedMessage, ParkedRun, ParkedState
from artel.tools.consent import Question


class Parked(Exception):
    """The run must wait for the user's decision; `run` is what it is resumed with."""

    is_agents_fault = False

    def __init__(self, question: Question, run: ParkedRun) -> None:
        super().__init__(question.tool)
        self.question = question
        self.run = run


def dump_state(state: State) -> ParkedState:
    """Return the state in its stored form."""
    return ParkedState(
        messages=_dump_messages(state.messages),
        notes=_dump_messages(state.notes),
        exchange=_dump_messages(state.exchange),
        calls=_dump_calls(state.calls),
        draft=state.draft,
        finish_reason=state.finish_reason,
        sent_back=_dump_messages(state.sent_back),
        iterations=state.iterations,
        tool_calls=state.tool_calls,
        phases=state.phases,
        is_announced=state.is_announced,
    )


def load_state(stored: ParkedState) -> State:
    """Return the state that was stored."""
    return State(
        messages=_load_messages(stored.messages),
        notes=_load_messages(stored.notes),
        exchange=_load_messages(stored.exchange),
        calls=_load_calls(stored.calls),
        draft=stored.draft,
        finish_reason=stored.finish_reason,
        sent_back=_load_messages(stored.sent_back),
        iterations=stored.iterations,
        tool_calls=stored.tool_calls,
        phases=cast("tuple[Phase, ...]", stored.phases),
        is_announced=stored.is_announced,
    )


def _dump_messages(messages: Iterable[Message]) -> tuple[ParkedMessage, ...]:
    return tuple(
        ParkedMessage(
            role=message.role,
            content=message.content,
            tool_calls=_dump_calls(message.tool_calls),
            tool_call_id=message.tool_call_id,
            part=message.part,
        )
        for message in messages
    )


def _load_messages(stored: Iterable[ParkedMessage]) -> tuple[Message, ...]:
    return tuple(
        Message(
            message.role,
            message.content,
            _load_calls(message.tool_calls),
            message.tool_call_id,
            cast("Part", message.part),
        )
        for message in stored
    )


def _dump_calls(calls: Iterable[ToolCall]) -> tuple[ParkedCall, ...]:
    return tuple(ParkedCall(id=call.id, name=call.name, arguments=call.arguments) for call in calls)


def _load_calls(stored: Iterable[ParkedCall]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(call.id, call.name, call.arguments) for call in stored)
