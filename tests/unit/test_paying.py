"""Budget control of model calls: reserve before, record after, and no call without budget."""

import asyncio
import time
from dataclasses import dataclass, field, replace

import pytest

from artel.brain import prices
from artel.brain.brain import Brain, Completion, Message, Request, TokenSink, ToolCall, Usage
from artel.brain.demo.demo_brain import DemoBrain
from artel.brain.errors import (
    ModelAnswerCut,
    ModelAnswerInvalid,
    ModelError,
    ModelRateLimited,
    ModelRefused,
    ModelTimedOut,
    ModelUnavailable,
)
from artel.brain.retries import PaidBrain, RetryingBrain
from artel.errors import BudgetExceeded

pytestmark = pytest.mark.anyio

MODEL = "gpt-4o"


@dataclass
class FakeBudget:
    """A budget guard with a limited amount."""

    left: float
    reserved: dict[str, float] = field(default_factory=dict)
    settled: list[tuple[float, float | None]] = field(default_factory=list)

    async def reserve(self, amount: float) -> str:
        if amount > self.left:
            raise BudgetExceeded("empty")
        self.left -= amount
        name = str(len(self.reserved))
        self.reserved[name] = amount
        return name

    async def settle(self, name: str, amount: float | None) -> None:
        self.settled.append((self.reserved[name], amount))
        self.left += self.reserved[name] - (self.reserved[name] if amount is None else amount)


@dataclass
class Scripted:
    """A model whose calls end with scripted outcomes."""

    outcomes: list[Exception | float | None]
    calls: int = 0

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:  # noqa: ARG002
        outcome = self.outcomes[self.calls]
        self.calls += 1
        if isinstance(outcome, BaseException):
            raise outcome
        return Completion("Well.", (), "stop", Usage(request.model, 10, 10, outcome, calls=1))

    async def close(self) -> None: ...


async def _at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


def paid(model: Brain, budget: FakeBudget) -> PaidBrain:
    return PaidBrain(RetryingBrain(lambda _: model, sleep=_at_once), budget)


def request(model: str = MODEL, seconds: float = 30) -> Request:
    return Request(model, (Message("user", "Hello there"),), 0.0, 1_000, time.monotonic() + seconds)


def min_reservation() -> float:
    """Return the cost of a thousand output tokens, a lower bound of the reservation."""
    cost = prices.cost(MODEL, 0, 1_000)
    assert cost
    return cost


async def test_maximum_cost_is_reserved_and_actual_cost_is_recorded() -> None:
    budget = FakeBudget(1.0)

    await paid(Scripted([0.002]), budget).complete(request())

    [(reserved, spent)] = budget.settled
    assert min_reservation() < reserved < 1.5 * min_reservation()
    assert spent == 0.002
    assert budget.left == pytest.approx(0.998)


async def test_call_that_could_exceed_the_budget_is_not_made() -> None:
    model, budget = Scripted([0.0]), FakeBudget(min_reservation())

    with pytest.raises(BudgetExceeded):
        await paid(model, budget).complete(request())

    assert model.calls == 0
    assert budget.settled == []


async def test_every_attempt_is_reserved_and_settled() -> None:
    counted = ModelAnswerCut("cut", usage=Usage(MODEL, 10, 5, 0.003, calls=1))
    model, budget = Scripted([counted, ModelAnswerCut("cut"), 0.001]), FakeBudget(1.0)

    usage = (await paid(model, budget).complete(request())).usage

    assert [spent for _, spent in budget.settled] == [0.003, None, 0.001]
    [lost] = [reserved for reserved, spent in budget.settled if spent is None]
    assert usage.cost_usd == pytest.approx(0.004 + lost)  # usage and budget agree
    assert usage.calls == 3


@pytest.mark.parametrize(
    "outcome",
    [
        ModelTimedOut("late"),
        ModelAnswerCut("cut"),
        ModelAnswerInvalid("no JSON"),
        ModelUnavailable("502"),
        asyncio.CancelledError(),
        RuntimeError("boom"),
        None,
    ],
)
async def test_call_with_unknown_cost_counts_the_whole_reservation(
    outcome: Exception | None,
) -> None:
    budget = FakeBudget(1.0)

    try:
        await paid(Scripted([outcome]), budget).complete(request(seconds=0.1))
    except BaseException as raised:  # noqa: BLE001
        assert raised is outcome  # noqa: PT017

    [(reserved, spent)] = budget.settled
    assert spent is None
    assert budget.left == pytest.approx(1.0 - reserved)


@pytest.mark.parametrize("failure", [ModelRefused("no"), ModelRateLimited("429", retry_after=3600)])
async def test_rejected_call_costs_nothing(failure: ModelError) -> None:
    budget = FakeBudget(1.0)

    with pytest.raises(type(failure)):
        await paid(Scripted([failure]), budget).complete(request())

    assert budget.left == 1.0


@pytest.mark.parametrize("model", ["ollama/llama3", "demo", "somebody/unknown-model"])
async def test_models_without_a_price_need_no_budget(model: str) -> None:
    budget = FakeBudget(0.0)

    completion = await paid(Scripted([None]), budget).complete(request(model))

    assert completion.content == "Well."
    assert budget.settled == []


@pytest.mark.parametrize(
    ("own", "fallback", "answers"),
    [
        (MODEL, "gpt-4", True),
        (MODEL, "ollama/llama3", True),
        (MODEL, "somebody/new", False),
        ("ollama/llama3", "somebody/new", False),
        ("somebody/old", "somebody/new", True),
    ],
)
async def test_with_a_budget_an_unpriced_fallback_replaces_only_an_unpriced_model(
    own: str, fallback: str, answers: bool
) -> None:
    model, budget = Scripted([ModelRefused("no"), 0.001]), FakeBudget(1.0)
    with_fallback = replace(request(own), fallback_model=fallback)

    if answers:
        assert (await paid(model, budget).complete(with_fallback)).usage.model == fallback
    else:
        with pytest.raises(ModelRefused):
            await paid(model, budget).complete(with_fallback)

    assert model.calls == (2 if answers else 1)


async def test_without_a_budget_any_fallback_may_answer() -> None:
    model = Scripted([ModelRefused("no"), None])

    completion = await RetryingBrain(lambda _: model).complete(replace(request(), fallback_model="somebody/new"))

    assert completion.usage.model == "somebody/new"


async def test_arguments_of_tool_calls_count_for_the_reservation() -> None:
    budget = FakeBudget(100.0)
    plain = request()
    written = Message("assistant", "", tool_calls=(ToolCall("1", "write_file", "word " * 8_000),))

    await paid(Scripted([0.0]), budget).complete(replace(plain, messages=(*plain.messages, written)))

    [(reserved, _)] = budget.settled
    cost = prices.cost(MODEL, 8_000, 1_000)
    assert cost
    assert reserved >= cost


@pytest.mark.req("MOD-01.1")
async def test_demo_brain_reserves_nothing_also_for_models_with_a_price() -> None:
    budget = FakeBudget(0)
    request = Request("gpt-4o", (Message("user", "Hello"),), 0.5, 50, time.monotonic() + 60, budget_guard=budget)

    completion = await RetryingBrain(lambda _: DemoBrain()).complete(request)

    assert completion.usage.model == "demo"
    assert budget.reserved == {}
