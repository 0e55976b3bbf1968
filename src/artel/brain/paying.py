"""Money for calls to models: what one can cost at most is reserved before it, what it did cost is counted after it."""

from dataclasses import replace

from artel.brain import prices
from artel.brain.brain import Brain, BudgetGuard, Completion, Request, TokenSink, Usage
from artel.brain.errors import ModelError
from artel.brain.estimate import estimated_tokens

# Servers count tokens by rules of their own: what we reserve is rather too much than too little.
INPUT_MARGIN = 1.3
INPUT_EXTRA = 50


class PaidBrain:
    """Another brain, each of whose calls is paid for out of a purse."""

    def __init__(self, brain: Brain, purse: BudgetGuard) -> None:
        self._brain = brain
        self._purse = purse

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the request, with as many calls as there is money for."""
        return await self._brain.complete(replace(request, purse=self._purse), stream)

    async def close(self) -> None:
        """Nothing to do: the other brain belongs to somebody else."""


async def complete_paid(brain: Brain, request: Request, stream: TokenSink | None) -> Completion:
    """Make one call, if there is enough money for it; models without a known price, and free ones, are not paid for."""
    most = None if request.purse is None else await most_expensive(request)
    if request.purse is None or not most:
        return await brain.complete(request, stream)
    name = await request.purse.reserve(most)
    spent: float | None = None  # whatever ends it unseen may have cost everything
    try:
        completion = await brain.complete(request, stream)
        spent = completion.usage.cost_usd
    except ModelError as failure:
        if failure.usage is not None:
            spent = failure.usage.cost_usd
        elif failure.unbilled:
            spent = 0.0
        else:  # it may have written all the time
            failure.usage = Usage(request.model, cost_usd=most, calls=1)
        raise
    finally:
        await request.purse.settle(name, spent)
    return completion


def may_replace(request: Request, model: str) -> bool:
    """Return whether a model may take the place of the one that is asked.

    Where money is counted, one without a known price would be outside of every limit; if the other one is too, whoever
    pays knows that.
    """
    return request.purse is None or prices.cost(model, 0, 0) is not None or prices.cost(request.model, 0, 0) is None


async def most_expensive(request: Request) -> float | None:
    """Return what a call can cost at most; None when the price is not known."""
    given, _ = await estimated_tokens(request, "", ())
    return prices.cost(request.model, int(given * INPUT_MARGIN) + INPUT_EXTRA, request.max_tokens)
