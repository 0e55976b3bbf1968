"""A run that waits for a person: how far it had come, as JSON, so that any host can go on with it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from artel.agent_loop.phases import State
from artel.brain.brain import Message, ToolCall
from artel.tools.consent import Question


class Parked(Exception):
    """The run can't go on before a person has decided."""

    is_agents_fault = False

    def __init__(self, question: Question, state: dict[str, Any], inner: Mapping[str, Any] | None = None) -> None:
        super().__init__(question.tool)
        self.question = question
        # What goes on with: the state, what whoever runs it wants to have again, and a child that waits inside.
        self.kept: dict[str, Any] = {"state": state, "inner": inner}


def dump_state(state: State) -> dict[str, Any]:
    """Return the state as JSON."""
    return asdict(state)


def load_state(dumped: Mapping[str, Any]) -> State:
    """Return the state that was dumped."""
    return State(
        messages=_messages(dumped["messages"]),
        notes=_messages(dumped["notes"]),
        exchange=_messages(dumped["exchange"]),
        calls=_calls(dumped["calls"]),
        draft=dumped["draft"],
        finish_reason=dumped["finish_reason"],
        sent_back=_messages(dumped["sent_back"]),
        iterations=dumped["iterations"],
        tool_calls=dumped["tool_calls"],
        phases=tuple(dumped["phases"]),
        is_announced=dumped["is_announced"],
    )


def _messages(dumped: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(
        Message(one["role"], one["content"], _calls(one["tool_calls"]), one["tool_call_id"], one.get("part", ""))
        for one in dumped
    )


def _calls(dumped: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(one["id"], one["name"], one["arguments"]) for one in dumped)
