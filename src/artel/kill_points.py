"""Names of moments in the code at which fault tests kill a process; in the product they do nothing."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

TransactionName = Literal[
    "turn.accept",
    "turn.start",
    "turn.end",
    "turn.cancel",
    "plan.begin",
    "plan.store",
    "plan.decide",
    "plan.start",
    "plan.park",
    "plan.retry",
    "task.start",
    "task.end",
    "task.park",
    "approval.use",
    "money.reserve",
    "money.settle",
]
MomentName = Literal["turn.answered", "turn.response"]
ConnectorMomentName = Literal["call.answer"]
# Of a task of a node, in this order.
NodeMomentName = Literal[
    "node.received",
    "node.checked",
    "node.understand",
    "node.plan",
    "node.execute",
    "node.tool_call",
    "node.tool_result",
    "node.critique",
    "node.finish",
    "node.output",
    "node.stored",
    "node.replied",
]

F = TypeVar("F", bound=Callable[..., Any])


def transaction(name: TransactionName) -> Callable[[F], F]:
    """Name a transaction: tests kill the server right before its commit, or right after it."""

    def mark(function: F) -> F:
        function.__dict__["kill_point"] = name
        return function

    return mark


def reached(name: MomentName | ConnectorMomentName | NodeMomentName) -> None:
    """Mark a moment; tests replace this function with one that kills the process."""
