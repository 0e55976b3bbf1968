"""Money as integer micros (millionths of a dollar), so that sums are exact on every database."""

import math

MICROS = 1_000_000


def micros(dollars: float) -> int:
    """Return an amount in micros, rounded up so that costs are never underestimated."""
    return math.ceil(round(dollars * MICROS, 3))


def micros_or_none(dollars: float | None) -> int | None:
    """Return an amount in micros; None if it is unknown."""
    return None if dollars is None else micros(dollars)


def dollars(amount: int) -> float:
    """Return an amount in dollars, for users and the API."""
    return amount / MICROS


def dollars_or_none(amount: int | None) -> float | None:
    """Return an amount in dollars; None if it is unknown."""
    return None if amount is None else dollars(amount)
