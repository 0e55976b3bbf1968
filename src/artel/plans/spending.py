"""What a workflow has cost so far."""

from artel.brain.brain import Usage
from artel.budgets.money import micros

Spent = tuple[int, bool]  # what a workflow has cost, and whether the price of some of it is not known


class Spending:
    """Counts calls to models; a price that is not known stays known as that."""

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
            self.micros += micros(usage.cost_usd or 0.0)
            self.price_unknown = self.price_unknown or usage.cost_usd is None


def plus(before: Usage | None, more: Usage) -> Usage:
    """Answer the sum of what was used before, if anything was, and more."""
    return before.plus(more) if before is not None and before.calls else more
