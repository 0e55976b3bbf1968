"""The state of the agent loop, as it is saved when a run must wait for the user."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from artel.brain.brain import AttachedFile, Message, ToolCall
from artel.contract.parked_run import ParkedCall, ParkedMessage, ParkedRun, ParkedState
from artel.tools.consent import NeedsUser

Phase = Literal["understand", "plan", "execute", "tool_call", "critique", "finish"]


class Parked(Exception):
    """The run must wait for what it needs of the user; `run` is what it is resumed with."""

    is_agents_fault = False

    def __init__(self, needs: NeedsUser, run: ParkedRun) -> None:
        super().__init__(str(needs))
        self.needs = needs
        self.run = run.model_copy(update={"child": needs.child})


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
    phases: tuple[str, ...] = ()
    # Whether the event of the first pending call was sent: a run that is parked there sends it once.
    is_announced: bool = False
    # The command: what is done, with which parameters, and as part of what.
    action: str = ""
    params: dict[str, JsonValue] = field(default_factory=dict)
    context: dict[str, JsonValue] | None = None
    # What the phases found out.
    phase: str = ""
    understanding: str = ""
    plan: tuple[str, ...] = ()
    tool_results: tuple[dict[str, JsonValue], ...] = ()  # without the data, which is in `exchange`
    critique: str = ""
    result: JsonValue = None
    error: str | None = None
    llm_calls: int = 0
    start_time: float = field(default_factory=time.time, compare=False)


def dump_state(state: State) -> ParkedState:
    """Return the state in its stored form."""
    return ParkedState.model_validate(state, from_attributes=True)


def load_state(stored: ParkedState) -> State:
    """Return the state that was stored."""
    fields = dict(stored) | {"calls": _calls(stored.calls)}
    for name in ("messages", "notes", "exchange", "sent_back"):
        fields[name] = tuple(_message(message) for message in fields[name])
    return State(**fields)


def _message(stored: ParkedMessage) -> Message:
    file = AttachedFile(**dict(stored.file)) if stored.file else None
    return Message(**dict(stored) | {"tool_calls": _calls(stored.tool_calls), "file": file})


def _calls(stored: Iterable[ParkedCall]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(**dict(call)) for call in stored)
