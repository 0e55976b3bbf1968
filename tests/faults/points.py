"""The kill points of turns and plans, and which flows pass them."""

from collections.abc import Sequence
from dataclasses import dataclass

TURN_POINTS = (
    "turn.accept:committed",
    "turn.start:uncommitted",
    "turn.start:committed",
    "turn.end:uncommitted",
    "turn.end:committed",
    "turn.cancel:uncommitted",
    "turn.answered",
    "turn.response",
)


@dataclass(frozen=True)
class Point:
    """A kill point: its number of passages by these flows (0: while all wait for the user).

    Until then the user leaves some kinds of approvals alone.
    """

    name: str
    flows: Sequence[str]
    passages: int = 1
    undecided: Sequence[str] = ()


PLANNING = [
    Point("turn.accept:committed", ["single", "diamond"], 2),
    Point("plan.begin:committed", ["diamond", "wide"], 4),
    Point("plan_called", ["single", "revised"], 3),
    Point("plan.store:uncommitted", ["diamond", "revised"], 3),
    Point("plan.store:committed", ["single", "revised"], 3),
    Point("awaiting_approval", ["wide", "revised"], 0, ["plan"]),
    Point("plan.decide:uncommitted", ["wide", "revised"], 3),
    Point("plan.decide:committed", ["diamond", "revised"], 3),
    Point("plan.start:uncommitted", ["wide", "dear"], 3),
    Point("plan.start:committed", ["diamond", "dear"], 3),
]
WORKING = [
    Point("task.start:uncommitted", ["diamond", "wide"], 9),
    Point("task.start:committed", ["diamond", "wide"], 9),
    Point("money.reserve:committed", ["diamond", "wide"], 9),
    Point("model_called", ["diamond", "wide"], 9),
    Point("streaming", ["diamond", "wide"], 9),
    Point("money.settle:uncommitted", ["diamond", "wide"], 9),
    Point("task.end:uncommitted", ["diamond", "wide"], 9),
    Point("task.end:committed", ["diamond", "wide"], 9),
]
WAITING = [
    Point("task.park:uncommitted", ["asking", "dear"], 2),
    Point("task.park:committed", ["asking", "dear"], 2),
    Point("plan.park:uncommitted", ["asking", "dear"], 2, ["tool"]),
    Point("plan.park:committed", ["asking", "dear"], 2, ["tool"]),
    Point("parked_for_long", ["asking", "dear"], 0, ["tool", "budget"]),
    Point("approval.use:uncommitted", ["asking", "single"]),
    Point("approval.use:committed", ["asking", "diamond"]),
]
ENDING = [
    Point("merge_called", ["diamond", "wide"], 2),
    Point("turn.end:uncommitted", ["single", "diamond"], 2),
    Point("turn.end:committed", ["single", "diamond"], 2),
    Point("turn.cancel:uncommitted", ["cancelled", "single"]),
    Point("turn.cancel:committed", ["cancelled", "diamond"]),
    Point("plan.retry:uncommitted", ["failing", "single"]),
    Point("plan.retry:committed", ["failing", "diamond"]),
]
AT_THE_MODEL = {"plan_called", "model_called", "streaming", "merge_called"}
