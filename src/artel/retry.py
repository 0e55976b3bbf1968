"""Retry with exponential backoff and jitter."""

import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

MAX_DOUBLINGS = 20  # of any delay; more would overflow in the end

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between attempts: `first` seconds, doubled after every attempt up to `longest`, less up to half at random.

    The jitter keeps clients that failed together from retrying together.
    """

    first: float
    longest: float = math.inf

    def seconds(self, attempt: int) -> float:
        """Return the delay after an attempt; the first attempt has the number 0."""
        delay: float = min(self.longest, self.first * 2 ** min(attempt, MAX_DOUBLINGS))
        return delay * random.uniform(0.5, 1)  # noqa: S311 - jitter, not cryptography


async def retry(
    operation: Callable[[], Awaitable[T]],
    failure: type[E],
    backoff: Backoff,
    note: Callable[[E], None],
    seconds: float = math.inf,
) -> T:
    """Run an idempotent operation, again after each `failure`, which is noted; after `seconds` raise the failure."""
    import asyncio  # takes 25 ms to import, which `artel chat` does not need

    deadline = time.monotonic() + seconds
    attempt = 0
    while True:
        try:
            return await operation()
        except failure as error:
            if time.monotonic() > deadline:
                raise
            note(error)
        await asyncio.sleep(backoff.seconds(attempt))
        attempt += 1
