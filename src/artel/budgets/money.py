"""Money is counted in whole millionths of a dollar: sums are exact, and the same on every database."""

import math

MICROS = 1_000_000


def micros(dollars: float) -> int:
    """Return an amount in millionths, rounded up: rather too much than too little."""
    return math.ceil(round(dollars * MICROS, 3))


def dollars(amount: int) -> float:
    """Return an amount in dollars, for people and the API."""
    return amount / MICROS
