"""What a workflow has cost so far."""

from dataclasses import asdict, replace

from artel.brain.brain import Usage
from artel.turns.turn import Turn

Spent = tuple[int, bool]  # what a workflow has cost, and whether the price of some of it is not known


class Spending:
    """Counts calls to models; a price that is not known stays known as that.

    What was used is told by the calls themselves, what it has cost by the purse that pays for them: the purse also
    knows of calls that were lost.
    """

    def __init__(self, usage: Usage, spent_micros: int, *, price_unknown: bool) -> None:
        self.usage = usage  # of the turn
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


def used_before(turn: Turn, model: str) -> Usage:
    """Answer what a turn had used when it began to wait, or was left to another worker space."""
    kept = (turn.parked or {}).get("usage")
    return Usage(**kept) if kept else Usage(model)


def with_used(turn: Turn, usage: Usage) -> Turn:
    """Answer a turn that keeps what it has used, all in all."""
    return replace(turn, parked=(turn.parked or {}) | {"usage": asdict(usage) if usage.calls else None})


def plus(before: Usage | None, more: Usage) -> Usage:
    """Answer the sum of what was used before, if anything was, and more."""
    return before.plus(more) if before is not None and before.calls else more
