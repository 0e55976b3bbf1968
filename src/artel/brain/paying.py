"""Budget control of model calls: reserve the maximum cost before a call, record the actual cost after it."""

from dataclasses import replace

from artel.brain import prices
from artel.brain.brain import Brain, BudgetGuard, Completion, Request, TokenSink, Usage
from artel.brain.errors import ModelError
from artel.brain.estimate import estimated_tokens

# Servers count tokens differently, so the reservation has a margin.
INPUT_MARGIN = 1.3
INPUT_EXTRA = 50


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


async def complete_paid(brain: Brain, request: Request, stream: TokenSink | None) -> Completion:
    """Make one call and count its cost; models that are free or have no known price need no budget."""
    most = None if request.budget_guard is None else await max_cost(request)
    if request.budget_guard is None or not most:
        return await brain.complete(request, stream)
    name = await request.budget_guard.reserve(most)
    spent: float | None = None  # unknown unless the call reports it
    try:
        completion = await brain.complete(request, stream)
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
        await request.budget_guard.settle(name, spent)
    return completion


def may_replace(request: Request, model: str) -> bool:
    """Return whether a fallback model may replace the model of the request.

    With a budget, a model without a known price may only replace another one without a known price.
    """
    if request.budget_guard is None:
        return True
    return prices.cost(model, 0, 0) is not None or prices.cost(request.model, 0, 0) is None


async def max_cost(request: Request) -> float | None:
    """Return the maximum cost of a call; None if the price is unknown."""
    input_tokens, _ = await estimated_tokens(request, "", ())
    return prices.cost(request.model, int(input_tokens * INPUT_MARGIN) + INPUT_EXTRA, request.max_tokens)
