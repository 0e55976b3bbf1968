"""A task for an agent: what it needs, what it went through while it waited, what became of it."""

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from artel.agent_loop.context import ConversationMessage
from artel.agent_loop.parking import State, load_state
from artel.agent_loop.task import Tally
from artel.brain.brain import ToolCall, Usage
from artel.budgets.guard import TurnBudgetGuard
from artel.contract.chat import ContextItem
from artel.contract.http import Agent
from artel.contract.parked_run import ParkedNodeRun, ParkedRun
from artel.errors import (
    AccountBudgetExceeded,
    AgentInError,
    AgentNotFound,
    AgentNotRegistered,
    AgentQueueFull,
    AgentUnavailable,
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
    AgentUnavailable.code: ErrorType.UNAVAILABLE,
    TaskStopped.code: ErrorType.STOPPED,
    BudgetExceeded.code: ErrorType.BUDGET,
    AccountBudgetExceeded.code: ErrorType.BUDGET,
}


def error_type(code: str) -> ErrorType:
    """Return the coarse kind of a failure with this code; whatever is not known is a failure of the work itself."""
    return _ERROR_TYPES.get(code, ErrorType.EXECUTION)


@dataclass(frozen=True, slots=True)
class Start:
    """What is known once a task has its slot and its row says so."""

    agent: Agent  # as configured now
    history: Sequence[ConversationMessage]
    budget_guard: TurnBudgetGuard | None = None  # None: the cost is not limited
    memory_version: int | None = None  # of the agent's memory, if the transaction of the start has read it


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

    @property
    def is_unprompted(self) -> bool:
        """Whether its agent was told nothing yet: it is new, or it waited before its node was asked."""
        waiting = self.waiting
        return waiting is None or (waiting.node is not None and not waiting.node.state)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that waited for a person: how far it had come, and what was decided."""

    run: ParkedRun
    decisions: Mapping[str, Decision]
    state: State | None = None
    single: ToolCall | None = None  # approved late, to be called without a model
    node: ParkedNodeRun | None = None

    @classmethod
    def of(cls, parked: ParkedRun, decisions: Mapping[str, Decision]) -> "Waiting":
        """Return a parked run with the decisions that it waited for."""
        if single := parked.single:
            call = ToolCall(single.id or uuid7(), single.tool, json.dumps(single.arguments))
            return cls(parked, decisions, single=call)
        if parked.node is not None:
            return cls(parked, decisions, node=parked.node)
        if parked.state is None:
            raise ValueError("A parked run needs the state of its loop or of its node, or a single call")
        return cls(parked, decisions, load_state(parked.state))

    @property
    def first_call(self) -> ToolCall | None:
        """The call that the run goes on with, if it waited in one."""
        if self.node is not None:
            return next((ToolCall(call.id, call.name, call.arguments) for call in self.node.calls), None)
        return self.single or (self.state.calls[0] if self.state and self.state.calls else None)


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
