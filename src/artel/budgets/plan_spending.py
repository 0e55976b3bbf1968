"""What a workflow has cost so far."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from artel.brain.brain import Usage
from artel.budgets.usage_repository import Share
from artel.turns.turn import Turn

Spent = tuple[int, bool]  # what a workflow has cost, and whether the price of some of it is not known


class Shares:
    """Who has used how much in a turn, by agent and model; without an agent it is the orchestrator."""

    def __init__(self, kept: Sequence[Share] = ()) -> None:
        self._by: dict[tuple[int | None, str, str], Usage] = {}
        for share in kept:
            self.add(Usage(**share["usage"]), share["agent_id"], share["agent"])

    @classmethod
    def before(cls, turn: Turn) -> "Shares":
        """Return what was used when a turn began to wait, or was left to another worker space."""
        kept = turn.parked or {}
        if kept.get("shares") is None and kept.get("usage"):  # an older version has stored it
            return cls([{"agent_id": None, "agent": "", "usage": kept["usage"]}])
        return cls(kept.get("shares") or ())

    def add(self, usage: Usage, agent_id: int | None = None, agent: str = "") -> None:
        """Count some calls."""
        if usage.calls:
            key = agent_id, agent, usage.model
            self._by[key] = plus(self._by.get(key), usage)

    def to_json(self) -> list[dict[str, Any]]:
        """Return them as they are stored."""
        return [
            {"agent_id": agent_id, "agent": agent, "usage": asdict(used)}
            for (agent_id, agent, _), used in self._by.items()
        ]


class Spending:
    """Counts calls to models; a price that is not known stays known as that.

    What was used is told by the calls themselves, what it has cost by the purse that pays for them: the purse also
    knows of calls that were lost.
    """

    def __init__(self, usage: Usage, spent_micros: int, *, price_unknown: bool, shares: Shares | None = None) -> None:
        self.usage = usage  # of the turn
        self.shares = shares or Shares()  # of the turn, by agent and model
        self.micros = spent_micros  # of all runs
        self.price_unknown = price_unknown

    @property
    def spent(self) -> Spent:
        """What is stored of it."""
        return self.micros, self.price_unknown

    def add(self, usage: Usage, agent_id: int | None = None, agent: str = "") -> None:
        """Count some calls of an agent, or of the orchestrator."""
        self.shares.add(usage, agent_id, agent)
        if usage.calls:
            self.usage = plus(self.usage, usage)
            self.price_unknown = self.price_unknown or usage.cost_usd is None

    def pay(self, amount: int) -> None:
        """Count what a call has cost, in millionths."""
        self.micros += amount


def used_before(turn: Turn, model: str) -> Usage:
    """Return what a turn had used when it began to wait, or was left to another worker space."""
    kept = (turn.parked or {}).get("usage")
    return Usage(**kept) if kept else Usage(model)


def with_used(turn: Turn, usage: Usage, shares: Shares) -> Turn:
    """Return a turn that keeps what it has used, all in all and by whom."""
    used = {"usage": asdict(usage) if usage.calls else None, "shares": shares.to_json()}
    return replace(turn, parked=(turn.parked or {}) | used)


def plus(before: Usage | None, more: Usage) -> Usage:
    """Return the sum of what was used before, if anything was, and more."""
    return before.plus(more) if before is not None and before.calls else more
