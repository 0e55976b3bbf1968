"""What a workflow has cost so far."""

from artel.brain.brain import Usage

Spent = tuple[int, bool]  # what a workflow has cost, and whether the price of some of it is not known


class Spending:
    """Counts calls to models; a price that is not known stays known as that.

    What was used is told by the calls themselves, what it has cost by the purse that pays for them: the purse also
    knows of calls that were lost.
    """

    def __init__(self, model: str, spent_micros: int, *, price_unknown: bool) -> None:
        self.usage = Usage(model)  # of this run
        self.micros = spent_micros  # of all runs
        self.price_unknown = price_unknown

    @property
    def spent(self) -> Spent:
        """What is stored of it."""
        return self.micros, self.price_unknown

    def add(self, usage: Usage) -> None:
        """Count some calls."""
        if usage.calls:
            self.usage = plus(self.usage, usage)
            self.price_unknown = self.price_unknown or usage.cost_usd is None

    def pay(self, amount: int) -> None:
        """Count what a call has cost, in millionths."""
        self.micros += amount


def plus(before: Usage | None, more: Usage) -> Usage:
    """Answer the sum of what was used before, if anything was, and more."""
    return before.plus(more) if before is not None and before.calls else more
