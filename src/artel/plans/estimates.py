"""What a plan will cost and how long it will take, before anything is done; in millionths of a dollar.

Expected is what the agents usually write; the upper end is what they may write at most, and what the plan is held to.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from artel.brain import prices
from artel.brain.paying import INPUT_EXTRA, INPUT_MARGIN
from artel.budgets.money import micros
from artel.plans.task_graph import PlannedTask, TaskGraph

USUAL_TOKENS = 500  # of an answer, before an agent has a history
SHARE_LOW = 0.5
TOKENS_PER_SECOND = 40
FIRST_SECONDS = 2.0
MOST_RESULT_TOKENS = 1_000  # of each task that another one depends on, as it is handed on
TOOL_CALLS = 3  # more calls to the model that an agent with tools may make


@dataclass(frozen=True, slots=True)
class Habits:
    """What an agent has shown so far: how much it writes and calls, how long it takes, what it costs, how it ends."""

    tasks: int = 0
    output_tokens: float = USUAL_TOKENS
    calls: float = 1.0
    seconds: float | None = None
    success_rate: float | None = None
    average_cost_usd: float | None = None

    def of_one_call(self) -> "Habits":
        """Return the habits of an answer that takes a single call to the model, without tools."""
        return replace(self, output_tokens=self.output_tokens / self.calls, calls=1.0)


@dataclass(frozen=True, slots=True)
class Worker:
    """An agent as an estimate sees it.

    `prompt_tokens` is everything that it is sent beside the task; `phases` are the optional ones of its loop, which
    call the model once each, or twice if a draft is sent back.
    """

    model: str
    max_tokens: int
    prompt_tokens: int
    has_tools: bool = False
    habits: Habits = Habits()
    phases: int = 0


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """The cost of one task: None when nobody knows what its model costs."""

    model: str
    input_tokens: int
    output_tokens: int
    low_micros: int | None
    expected_micros: int | None
    high_micros: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """The cost of a plan: the sum of its tasks, and of what it takes to merge their results."""

    tasks: Mapping[str, TaskEstimate]
    low_micros: int
    expected_micros: int
    high_micros: int
    seconds: float
    unknown_models: tuple[str, ...] = ()

    def plus(self, spent_micros: int) -> "PlanEstimate":
        """Return the estimate with what was spent before: all of it is what the user agrees to."""
        return replace(
            self,
            low_micros=self.low_micros + spent_micros,
            expected_micros=self.expected_micros + spent_micros,
            high_micros=self.high_micros + spent_micros,
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is kept of it with the workflow."""
        kept = asdict(self)
        del kept["tasks"]
        return kept | {"unknown_models": list(self.unknown_models)}


def estimate(
    graph: TaskGraph, workers: Mapping[str, Worker], tokens: Mapping[str, int], merger: Worker | None
) -> PlanEstimate:
    """Price a plan: each task by its agent, with so many tokens of its own; `merger` writes the answer, if needed."""
    written: dict[str, int] = {}
    priced: dict[str, TaskEstimate] = {}
    for task_id in graph.order:
        task = graph.tasks[task_id]
        worker = workers[task.agent]
        written[task_id] = _usual(worker)
        priced[task_id] = _task(worker, tokens[task_id] + _handed_on(task, written))
    total = [*priced.values()]
    if merger is not None:
        total.append(_task(merger, sum(min(one, MOST_RESULT_TOKENS) for one in written.values())))
    seconds = graph.critical_path({task_id: one.seconds for task_id, one in priced.items()})
    return PlanEstimate(
        tasks={task_id: priced[task_id] for task_id in graph.tasks},
        low_micros=sum(one.low_micros or 0 for one in total),
        expected_micros=sum(one.expected_micros or 0 for one in total),
        high_micros=sum(one.high_micros or 0 for one in total),
        seconds=round(seconds + (total[-1].seconds if merger is not None else 0.0), 1),
        unknown_models=tuple(sorted({one.model for one in total if one.expected_micros is None})),
    )


def habits_of(done: Sequence[Mapping[str, Any]]) -> Habits:
    """Return what an agent usually does, of what it did: rows with usage, seconds, success and cost_usd."""
    if not done:
        return Habits()
    well = [one for one in done if one["success"] and one.get("usage")]
    costs = [one["cost_usd"] for one in well if one.get("cost_usd") is not None]
    timed = [one["seconds"] for one in well if one.get("seconds") is not None]
    return Habits(
        tasks=len(done),
        output_tokens=_mean([one["usage"].get("output_tokens", 0) for one in well]) or USUAL_TOKENS,
        calls=max(1.0, _mean([one["usage"].get("calls", 1) for one in well]) or 1.0),
        seconds=_mean(timed),
        success_rate=round(sum(one["success"] for one in done) / len(done), 2),
        average_cost_usd=_mean(costs),
    )


def _task(worker: Worker, own_tokens: int) -> TaskEstimate:
    given, usual = worker.prompt_tokens + own_tokens, _usual(worker)
    calls = worker.habits.calls if worker.habits.tasks else 1 + worker.phases
    most_calls = 1 + 2 * worker.phases + (TOOL_CALLS if worker.has_tools else 0)
    if worker.habits.tasks:
        most_calls = max(most_calls, math.ceil(2 * worker.habits.calls))
    # Calls on the way to the answer write about as much as usual, and the later ones are sent that too.
    most_given = given * most_calls + usual * (most_calls - 1) * most_calls // 2
    return TaskEstimate(
        worker.model,
        given,
        usual,
        low_micros=_price(worker.model, given, math.ceil(usual * SHARE_LOW)),
        expected_micros=_price(worker.model, round(given * calls), usual),
        high_micros=_price(
            worker.model,
            math.ceil(most_given * INPUT_MARGIN) + INPUT_EXTRA * most_calls,
            worker.max_tokens * most_calls,
        ),
        seconds=round(worker.habits.seconds or FIRST_SECONDS + usual / TOKENS_PER_SECOND, 1),
    )


def _handed_on(task: PlannedTask, written: Mapping[str, int]) -> int:
    return sum(min(written[one], MOST_RESULT_TOKENS) for one in task.depends_on)


def _usual(worker: Worker) -> int:
    return max(1, min(worker.max_tokens, round(worker.habits.output_tokens)))


def _price(model: str, given: int, written: int) -> int | None:
    cost = prices.cost(model, given, written)
    return None if cost is None else micros(cost)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
