"""Estimates of the cost (in millionths of a dollar) and duration of a plan.

The expected cost assumes the usual output of the agents; the high one assumes their maximum, and is the plan's budget.
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
MOST_RESULT_TOKENS = 1_000  # of each dependency, in the prompt of the dependent task
TOOL_CALLS = 3  # extra model calls of an agent with tools


@dataclass(frozen=True, slots=True)
class Habits:
    """Statistics of an agent's past tasks: averages per task, and the success rate."""

    tasks: int = 0
    output_tokens: float = USUAL_TOKENS
    calls: float = 1.0
    seconds: float | None = None
    success_rate: float | None = None
    average_cost_usd: float | None = None

    def of_one_call(self) -> "Habits":
        """Return the statistics scaled to a single model call."""
        return replace(self, output_tokens=self.output_tokens / self.calls, calls=1.0)


@dataclass(frozen=True, slots=True)
class Worker:
    """The data of an agent that its estimate needs.

    `prompt_tokens` is the prompt without the task; `phases` is the number of optional phases of its loop, which call
    the model once each, or twice if a draft is sent back.
    """

    model: str
    max_tokens: int
    prompt_tokens: int
    has_tools: bool = False
    habits: Habits = Habits()
    phases: int = 0


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """The estimate of one task; its costs are None if the price of the model is unknown."""

    model: str
    input_tokens: int
    output_tokens: int
    low_micros: int | None
    expected_micros: int | None
    high_micros: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """The estimate of a plan: the sum of its tasks and of merging their results."""

    tasks: Mapping[str, TaskEstimate]
    low_micros: int
    expected_micros: int
    high_micros: int
    seconds: float
    unknown_models: tuple[str, ...] = ()

    def plus(self, spent_micros: int) -> "PlanEstimate":
        """Return the estimate plus what is already spent: the user approves the total."""
        return replace(
            self,
            low_micros=self.low_micros + spent_micros,
            expected_micros=self.expected_micros + spent_micros,
            high_micros=self.high_micros + spent_micros,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the totals, as they are stored with the workflow."""
        totals = asdict(self)
        del totals["tasks"]
        return totals | {"unknown_models": list(self.unknown_models)}


def estimate(
    graph: TaskGraph, workers: Mapping[str, Worker], tokens: Mapping[str, int], merger: Worker | None
) -> PlanEstimate:
    """Return the estimate of a plan, given the tokens of each task; `merger` is None if nothing has to be merged."""
    written: dict[str, int] = {}
    priced: dict[str, TaskEstimate] = {}
    for task_id in graph.order:
        task = graph.tasks[task_id]
        worker = workers[task.agent]
        written[task_id] = _usual_tokens(worker)
        priced[task_id] = _task(worker, tokens[task_id] + _dependency_tokens(task, written))
    total = [*priced.values()]
    if merger is not None:
        total.append(_task(merger, sum(min(count, MOST_RESULT_TOKENS) for count in written.values())))
    seconds = graph.critical_path({task_id: task_estimate.seconds for task_id, task_estimate in priced.items()})
    return PlanEstimate(
        tasks={task_id: priced[task_id] for task_id in graph.tasks},
        low_micros=sum(item.low_micros or 0 for item in total),
        expected_micros=sum(item.expected_micros or 0 for item in total),
        high_micros=sum(item.high_micros or 0 for item in total),
        seconds=round(seconds + (total[-1].seconds if merger is not None else 0.0), 1),
        unknown_models=tuple(sorted({item.model for item in total if item.expected_micros is None})),
    )


def habits_of(done: Sequence[Mapping[str, Any]]) -> Habits:
    """Return the statistics of past tasks, each with usage, seconds, success and cost_usd."""
    if not done:
        return Habits()
    succeeded = [task for task in done if task["success"] and task.get("usage")]
    costs = [task["cost_usd"] for task in succeeded if task.get("cost_usd") is not None]
    durations = [task["seconds"] for task in succeeded if task.get("seconds") is not None]
    return Habits(
        tasks=len(done),
        output_tokens=_mean([task["usage"].get("output_tokens", 0) for task in succeeded]) or USUAL_TOKENS,
        calls=max(1.0, _mean([task["usage"].get("calls", 1) for task in succeeded]) or 1.0),
        seconds=_mean(durations),
        success_rate=round(sum(task["success"] for task in done) / len(done), 2),
        average_cost_usd=_mean(costs),
    )


def _task(worker: Worker, own_tokens: int) -> TaskEstimate:
    given, usual = worker.prompt_tokens + own_tokens, _usual_tokens(worker)
    calls = worker.habits.calls if worker.habits.tasks else 1 + worker.phases
    most_calls = 1 + 2 * worker.phases + (TOOL_CALLS if worker.has_tools else 0)
    if worker.habits.tasks:
        most_calls = max(most_calls, math.ceil(2 * worker.habits.calls))
    # Every call before the last one writes about the usual output, which the later calls are sent too.
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


def _dependency_tokens(task: PlannedTask, written: Mapping[str, int]) -> int:
    return sum(min(written[task_id], MOST_RESULT_TOKENS) for task_id in task.depends_on)


def _usual_tokens(worker: Worker) -> int:
    return max(1, min(worker.max_tokens, round(worker.habits.output_tokens)))


def _price(model: str, given: int, written: int) -> int | None:
    cost = prices.cost(model, given, written)
    return None if cost is None else micros(cost)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
