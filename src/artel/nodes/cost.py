"""The budget of one command: what its model calls may cost together."""

from artel.errors import BudgetExceeded
from artel.ids import uuid7


class CommandBudget:
    """Reserves each call's cost within the limit that the sender set (`context.limits.cost_usd`)."""

    def __init__(self, limit_usd: float) -> None:
        self._limit_usd = limit_usd
        self._spent_usd = 0.0
        self._reserved: dict[str, float] = {}  # by reservation

    async def reserve(self, amount: float) -> str:
        """Reserve an amount in dollars and return the reservation's name; raise BudgetExceeded."""
        left = self._limit_usd - self._spent_usd - sum(self._reserved.values())
        if amount > left:
            raise BudgetExceeded(
                f"Cost limit of the command exceeded: the next model call may cost ${amount:.4f}, and "
                f"${max(0.0, left):.4f} of ${self._limit_usd:.4f} is left. Raise limits.cost_usd in its context."
            )
        name = uuid7()
        self._reserved[name] = amount
        return name

    async def settle(self, name: str, amount: float | None) -> None:
        """Replace a reservation with the cost of the call; None (unknown) counts the whole reservation."""
        reserved = self._reserved.pop(name)
        self._spent_usd += reserved if amount is None else amount
