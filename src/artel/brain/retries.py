"""Model calls within a deadline and a budget, with retries and a fallback model, by clients that can be replaced."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeVar

from artel.brain import prices
from artel.brain.brain import Brain, BudgetGuard, Completion, Message, Request, TokenSink, Usage
from artel.brain.demo.demo_brain import DemoBrain
from artel.brain.errors import ContextTooLarge, ModelAnswerInvalid, ModelError, ModelTimedOut
from artel.brain.images import for_model
from artel.brain.providers import ProviderAccount
from artel.brain.structured import SchemaMismatch, parsed_answer
from artel.brain.window import estimated_tokens, fit_to_model
from artel.logs import get_logger
from artel.retry import Backoff

RETRIES = 2
BACKOFF = Backoff(0.5)
# Of the remaining time: a model that hangs must leave time for its fallback.
SHARE_BEFORE_FALLBACK = 2 / 3
# Servers count tokens differently, so the reservation has a margin.
INPUT_MARGIN = 1.3
INPUT_EXTRA = 50

_REPAIR = "That is not what was asked for: {problem}. Answer again, with the JSON document only."

T = TypeVar("T")

log = get_logger(__name__)


@dataclass(slots=True)
class ModelRetries:
    """Repeats model calls after transient failures: `most` times in all, with backoff; `note` logs each."""

    backoff: Backoff
    most: int
    note: Callable[..., None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    count: int = 0

    async def run(self, call: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Return what a call returns; raise its failure if no retry is left, or none can begin before the deadline."""
        while True:
            try:
                return await call()
            except ModelError as failure:
                pause = max(self.backoff.seconds(self.count), failure.retry_after or 0)  # at least what servers demand
                if not failure.transient or self.count >= self.most or time.monotonic() + pause >= deadline:
                    raise
                self.count += 1
                self.note(error=failure.detail, retry=self.count, pause_seconds=round(pause, 3))
            await self.sleep(pause)


class PaidBrain:
    """Wraps a brain and reserves the cost of every call with a budget guard."""

    def __init__(self, brain: Brain, budget_guard: BudgetGuard) -> None:
        self._brain = brain
        self._budget_guard = budget_guard

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer, as long as the budget allows its calls."""
        return await self._brain.complete(replace(request, budget_guard=self._budget_guard), stream)

    async def close(self) -> None:
        """Do nothing: the caller closes the wrapped brain."""


class RetiringClient:
    """The model client of an account; once the account has changed, it is closed after its last call."""

    def __init__(self, brain: Brain, account: ProviderAccount) -> None:
        self.brain = brain
        self.account = account
        self._calls = 0
        self._is_retired = False

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer."""
        self._calls += 1
        try:
            return await self.brain.complete(request, stream)
        finally:
            self._calls -= 1
            await self._close_if_over()

    async def close(self) -> None:
        """Close the client at once."""
        await self.brain.close()

    async def retire(self) -> None:
        """Close the client when no call uses it any more."""
        self._is_retired = True
        await self._close_if_over()

    async def _close_if_over(self) -> None:
        if self._is_retired and not self._calls:
            await self.brain.close()


class RetryingBrain:
    """A brain that calls each model up to three times, then the fallback model, all before the deadline."""

    def __init__(
        self,
        choose: Callable[[str], Brain],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        takes_images: Callable[[str], bool] = lambda _model: True,
    ) -> None:
        self._choose = choose
        self._sleep = sleep
        self._takes_images = takes_images

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer; its usage, or that of the error, is the total of all attempts."""
        usages: list[Usage] = []  # of all attempts
        try:
            completion = await self._ask_each_model(request, stream, usages)
        except ModelError as failure:
            failure.usage = reduce(Usage.plus, usages, Usage(request.model))
            raise
        return completion if len(usages) == 1 else replace(completion, usage=reduce(Usage.plus, usages))

    async def close(self) -> None:
        """Do nothing: the owner of the brains closes them."""

    async def _ask_each_model(self, request: Request, stream: TokenSink | None, usages: list[Usage]) -> Completion:
        fallback, is_unlimited = request.fallback_model, request.budget_guard is None
        # With a budget, a model without a known price may only replace another one without a known price.
        if fallback is None or not (is_unlimited or _has_price(fallback) or not _has_price(request.model)):
            return await self._ask(request, stream, usages)
        sooner = request.deadline - _seconds_left(request) * (1 - SHARE_BEFORE_FALLBACK)
        try:
            return await self._ask(replace(request, deadline=sooner), stream, usages)
        except ModelError as error:
            if _seconds_left(request) <= 0:
                raise
            failure = error
            log.warning("model_replaced", model=request.model, by=fallback, error=failure.detail)
        try:
            return await self._ask(replace(request, model=fallback), stream, usages)
        except ContextTooLarge:  # the fallback was not called: report the error of the first model
            raise failure from None

    async def _ask(self, request: Request, stream: TokenSink | None, usages: list[Usage]) -> Completion:
        """Call one model; an invalid structured answer may be repaired once."""
        completion = await self._complete_with_retries(request, stream, usages)
        if request.response_format is None or completion.tool_calls:
            return completion
        if request.repair_invalid:
            try:
                return await parsed_answer(completion, request.response_format)
            except SchemaMismatch as problem:
                invalid = (Message("assistant", completion.content, part="note"),) if completion.content else ()
                demand = Message("user", _REPAIR.format(problem=problem))
                repair = replace(request, messages=(*request.messages, *invalid, demand))
                completion = await self._complete_with_retries(repair, stream, usages)
        try:
            return await parsed_answer(completion, request.response_format)
        except SchemaMismatch as problem:
            name = request.response_format.name
            raise ModelAnswerInvalid(f"{request.model} sent an invalid {name}: {problem.location}.") from None

    async def _complete_with_retries(
        self, request: Request, stream: TokenSink | None, usages: list[Usage]
    ) -> Completion:
        brain = self._choose(request.model)
        request = for_model(request, self._takes_images)
        request = await fit_to_model(request)

        async def attempt() -> Completion:
            if usages and stream is not None:
                stream.restart()  # discard what an earlier attempt has streamed
            try:
                completion = await _complete_paid(brain, request, stream)
            except ModelError as failure:
                usages.append(failure.usage or Usage(request.model, calls=1))
                raise
            usages.append(completion.usage)
            return completion

        retries = ModelRetries(
            BACKOFF, RETRIES, partial(log.warning, "model_retried", model=request.model), self._sleep
        )
        return await retries.run(attempt, request.deadline)


async def _complete_paid(brain: Brain, request: Request, stream: TokenSink | None) -> Completion:
    """Reserve the maximum cost of a call, make it, and record its actual cost."""
    guard, most = request.budget_guard, None
    # Decided for each call: models can be configured while a run that began with the demo brain goes on.
    is_free = isinstance(brain, DemoBrain)
    if guard is not None and not is_free and prices.cost(request.model, 1, 1):
        input_tokens, _ = await estimated_tokens(request, "", ())
        most = prices.cost(request.model, int(input_tokens * INPUT_MARGIN) + INPUT_EXTRA, request.max_tokens)
    if guard is None or not most:  # models that are free or have no known price need no budget
        return await _complete_in_time(brain, request, stream)
    name = await guard.reserve(most)
    spent: float | None = None  # unknown unless the call reports it
    try:
        completion = await _complete_in_time(brain, request, stream)
        spent = completion.usage.cost_usd
    except ModelError as failure:
        if failure.usage is not None:
            spent = failure.usage.cost_usd
        elif failure.unbilled:
            spent = 0.0
        else:  # the model may have written up to max_tokens
            failure.usage = Usage(request.model, cost_usd=most, calls=1)
        raise
    finally:
        await guard.settle(name, spent)
    return completion


async def _complete_in_time(brain: Brain, request: Request, stream: TokenSink | None) -> Completion:
    """Make one call; cancel it and raise ModelTimedOut when the deadline passes."""
    late = ModelTimedOut(f"{request.model} did not finish its answer in time.")
    left = _seconds_left(request)
    if left <= 0:
        late.unbilled = True  # no request was sent
        raise late
    try:
        async with asyncio.timeout(left) as limit:
            return await brain.complete(request, stream)
    except TimeoutError:
        if not limit.expired():
            raise
        raise late from None


def _seconds_left(request: Request) -> float:
    return request.deadline - time.monotonic()


def _has_price(model: str) -> bool:
    return prices.cost(model, 0, 0) is not None
