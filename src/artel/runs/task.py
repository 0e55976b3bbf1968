"""A task for an agent: what it needs, what it went through while it waited, what became of it."""

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from artel.agent_loop.context import Said
from artel.agent_loop.parking import State, load_state
from artel.agent_loop.task import Tally
from artel.brain.brain import BudgetGuard, ToolCall, Usage
from artel.contract.chat import ContextItem
from artel.contract.http import Agent
from artel.contract.parked_run import ParkedRun
from artel.errors import (
    AgentInError,
    AgentNotFound,
    AgentNotRegistered,
    AgentQueueFull,
    BudgetExceeded,
    TaskStopped,
)
from artel.ids import uuid7
from artel.runs.task_events import TaskEvents
from artel.tools.consent import Decision
from artel.turns.transactions import AgentAtWork

TIMEOUT = "timeout"


class ErrorType(StrEnum):
    """How a task failed (UWS-22.3): too late, in its own work, never begun, stopped by somebody, out of money."""

    TIMEOUT = "timeout"
    EXECUTION = "execution"
    UNAVAILABLE = "unavailable"
    STOPPED = "stopped"
    BUDGET = "budget"


_ERROR_TYPES = {
    TIMEOUT: ErrorType.TIMEOUT,
    AgentInError.code: ErrorType.UNAVAILABLE,
    AgentNotFound.code: ErrorType.UNAVAILABLE,
    AgentNotRegistered.code: ErrorType.UNAVAILABLE,
    AgentQueueFull.code: ErrorType.UNAVAILABLE,
    TaskStopped.code: ErrorType.STOPPED,
    BudgetExceeded.code: ErrorType.BUDGET,
}


def error_type(code: str) -> ErrorType:
    """Return the coarse kind of a failure with this code; whatever is not known is a failure of the work itself."""
    return _ERROR_TYPES.get(code, ErrorType.EXECUTION)


@dataclass(frozen=True, slots=True)
class Start:
    """What is known once a task has its slot and its row says so."""

    agent: Agent  # as configured now
    history: Sequence[Said]
    budget_guard: BudgetGuard | None = None  # None: the cost is not limited


@dataclass(frozen=True, slots=True)
class Task:
    """Something for an agent to do. `start` stores that it begins, when it has its slot."""

    id: str
    text: str
    start: Callable[[Agent, AgentAtWork], Awaitable[Start]]
    listener: TaskEvents
    tally: Tally = field(default_factory=lambda: Tally(""))
    session_id: str = ""
    turn_id: str = ""
    waiting: "Waiting | None" = None
    deadline: float = math.inf  # in seconds of `time.monotonic()`, if the caller has less time


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that waited for a person: how far it had come, and what was decided."""

    run: ParkedRun
    decisions: Mapping[str, Decision]
    state: State | None = None
    single: ToolCall | None = None  # approved late, to be called without a model

    @classmethod
    def of(cls, parked: ParkedRun, decisions: Mapping[str, Decision]) -> "Waiting":
        """Return a parked run with the decisions that it waited for."""
        if single := parked.single:
            call = ToolCall(single.id or uuid7(), single.tool, json.dumps(single.arguments))
            return cls(parked, decisions, single=call)
        if parked.state is None:
            raise ValueError("A parked run needs the state of its loop, or a single call")
        return cls(parked, decisions, load_state(parked.state))


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What became of a task (UWS-22): the response and what was remembered for it, or an error.

    `error_type` is the coarse kind of failure, `error_code` the exact one, which HTTP and events carry.
    """

    success: bool
    response: str
    context: Sequence[ContextItem]
    usage: Usage
    seconds: float
    error: str | None = None
    error_type: ErrorType | None = None
    error_code: str | None = None

    @classmethod
    def failed(cls, error: str, code: str, usage: Usage) -> "ExecutionResult":
        """Return the result of a task that failed before it had a slot on the bus."""
        return cls(False, "", (), usage, 0, error, error_type(code), code)
