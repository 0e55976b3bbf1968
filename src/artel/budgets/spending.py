"""Usage and cost of a workflow so far."""

from dataclasses import replace

from artel.brain.brain import Usage
from artel.contract import chat
from artel.contract.parked_run import ParkedRun, UsageShare
from artel.plans.plan import Workflow
from artel.turns.turn import Turn

Spent = tuple[int, bool]  # cost of a workflow in micros, and whether the price of some calls is unknown


class Spending:
    """Usage and cost of a workflow; once a price is unknown, the cost stays marked as unknown.

    Usage comes from the calls themselves. Cost comes from the budget guard, which also counts calls that were lost.
    """

    def __init__(self, usage: Usage, spent_micros: int, *, price_unknown: bool) -> None:
        self.usage = usage  # of the turn
        self.micros = spent_micros  # of all runs
        self.price_unknown = price_unknown
        self._shares: dict[tuple[int | None, str, str], Usage] = {}  # of the turn, by agent id, agent and model

    @classmethod
    def resume(cls, turn: Turn, workflow: Workflow, model: str) -> "Spending":
        """Return what was stored when the turn was parked or handed over to another worker space."""
        stored = turn.parked or ParkedRun()
        usage = Usage(**stored.usage.model_dump()) if stored.usage else Usage(model)
        spending = cls(usage, workflow.spent_micros, price_unknown=workflow.price_unknown)
        for share in stored.shares:
            spending._add_share(Usage(**share.usage.model_dump()), share.agent_id, share.agent)
        return spending

    @property
    def shares(self) -> tuple[UsageShare, ...]:
        """The usage of the turn by agent and model, in its stored form; no agent means the orchestrator."""
        return tuple(
            UsageShare(agent_id=agent_id, agent=agent, usage=chat.UsageShown.of(used))
            for (agent_id, agent, _), used in self._shares.items()
        )

    @property
    def spent(self) -> Spent:
        """Cost and price flag in their stored form."""
        return self.micros, self.price_unknown

    def add(self, usage: Usage, agent_id: int | None = None, agent: str = "") -> None:
        """Add the usage of some calls of an agent or the orchestrator."""
        if usage.calls:
            self._add_share(usage, agent_id, agent)
            self.usage = plus(self.usage, usage)
            self.price_unknown = self.price_unknown or usage.cost_usd is None

    def _add_share(self, usage: Usage, agent_id: int | None, agent: str) -> None:
        key = agent_id, agent, usage.model
        self._shares[key] = plus(self._shares.get(key, Usage(usage.model)), usage)

    def pay(self, amount: int) -> None:
        self.micros += amount

    def store_in(self, turn: Turn) -> Turn:
        """Return a copy of the turn that stores its usage, in total and by agent."""
        used = {"usage": chat.UsageShown.of(self.usage) if self.usage.calls else None, "shares": self.shares}
        return replace(turn, parked=(turn.parked or ParkedRun()).model_copy(update=used))


def plus(before: Usage, more: Usage | None) -> Usage:
    """Return the sum of two usages, which may be empty; None adds nothing."""
    if more is None:
        return before
    return before.plus(more) if before.calls else more
