"""Paying for calls: reserved before, counted after, and never a call without money for it."""

import asyncio
import time
from dataclasses import dataclass, field, replace

import pytest

from artel.brain import prices
from artel.brain.brain import Brain, Completion, Message, Request, TokenSink, ToolCall, Usage
from artel.brain.errors import (
    ModelAnswerCut,
    ModelAnswerInvalid,
    ModelError,
    ModelRateLimited,
    ModelRefused,
    ModelTimedOut,
    ModelUnavailable,
)
from artel.brain.paying import PaidBrain
from artel.brain.retries import RetryingBrain
from artel.errors import BudgetExceeded

pytestmark = pytest.mark.anyio

MODEL = "gpt-4o"


@dataclass
class Wallet:
    """A purse with so much in it."""

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
    """A model whose calls end as they are told to."""

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


def paid(model: Brain, wallet: Wallet) -> PaidBrain:
    return PaidBrain(RetryingBrain(lambda _: model, sleep=_at_once), wallet)


def request(model: str = MODEL, seconds: float = 30) -> Request:
    return Request(model, (Message("user", "Hello there"),), 0.0, 1_000, time.monotonic() + seconds)


def most() -> float:
    """What a thousand tokens cost: a call may cost at least that."""
    cost = prices.cost(MODEL, 0, 1_000)
    assert cost
    return cost


async def test_what_a_call_can_cost_is_reserved_and_what_it_cost_is_counted() -> None:
    wallet = Wallet(1.0)

    await paid(Scripted([0.002]), wallet).complete(request())

    [(reserved, spent)] = wallet.settled
    assert most() < reserved < 1.5 * most()
    assert spent == 0.002
    assert wallet.left == pytest.approx(0.998)


async def test_a_call_that_could_cost_more_than_is_left_is_not_made() -> None:
    model, wallet = Scripted([0.0]), Wallet(most())

    with pytest.raises(BudgetExceeded):
        await paid(model, wallet).complete(request())

    assert model.calls == 0
    assert wallet.settled == []


async def test_every_try_is_paid_for_by_itself() -> None:
    counted = ModelAnswerCut("cut", usage=Usage(MODEL, 10, 5, 0.003, calls=1))
    model, wallet = Scripted([counted, ModelAnswerCut("cut"), 0.001]), Wallet(1.0)

    usage = (await paid(model, wallet).complete(request())).usage

    assert [spent for _, spent in wallet.settled] == [0.003, None, 0.001]
    [(lost, _)] = [one for one in wallet.settled if one[1] is None]
    assert usage.cost_usd == pytest.approx(0.004 + lost)  # what is told is what was counted
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
async def test_a_call_of_which_nobody_knows_what_it_cost_counts_as_all_it_had_reserved(
    outcome: Exception | None,
) -> None:
    wallet = Wallet(1.0)

    try:
        await paid(Scripted([outcome]), wallet).complete(request(seconds=0.1))
    except BaseException as raised:  # noqa: BLE001
        assert raised is outcome  # noqa: PT017

    [(reserved, spent)] = wallet.settled
    assert spent is None
    assert wallet.left == pytest.approx(1.0 - reserved)


@pytest.mark.parametrize("failure", [ModelRefused("no"), ModelRateLimited("429", retry_after=3600)])
async def test_a_call_that_the_server_did_not_take_costs_nothing(failure: ModelError) -> None:
    wallet = Wallet(1.0)

    with pytest.raises(type(failure)):
        await paid(Scripted([failure]), wallet).complete(request())

    assert wallet.left == 1.0


@pytest.mark.parametrize("model", ["ollama/llama3", "demo", "somebody/unknown-model"])
async def test_what_is_free_or_has_no_known_price_is_not_paid_for(model: str) -> None:
    wallet = Wallet(0.0)

    completion = await paid(Scripted([None]), wallet).complete(request(model))

    assert completion.content == "Well."
    assert wallet.settled == []


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
async def test_where_money_is_counted_no_model_without_a_price_takes_the_place_of_one_with_it(
    own: str, fallback: str, answers: bool
) -> None:
    model, wallet = Scripted([ModelRefused("no"), 0.001]), Wallet(1.0)
    asked = replace(request(own), fallback_model=fallback)

    if answers:
        assert (await paid(model, wallet).complete(asked)).usage.model == fallback
    else:
        with pytest.raises(ModelRefused):
            await paid(model, wallet).complete(asked)

    assert model.calls == (2 if answers else 1)


async def test_where_no_money_is_counted_any_model_may_take_another_s_place() -> None:
    model = Scripted([ModelRefused("no"), None])

    completion = await RetryingBrain(lambda _: model).complete(replace(request(), fallback_model="somebody/new"))

    assert completion.usage.model == "somebody/new"


async def test_what_calls_of_tools_carried_is_paid_for_too() -> None:
    wallet = Wallet(100.0)
    asked = request()
    written = Message("assistant", "", tool_calls=(ToolCall("1", "write_file", "word " * 8_000),))

    await paid(Scripted([0.0]), wallet).complete(replace(asked, messages=(*asked.messages, written)))

    [(reserved, _)] = wallet.settled
    cost = prices.cost(MODEL, 8_000, 1_000)
    assert cost
    assert reserved >= cost
