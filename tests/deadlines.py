"""Polling with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


def eventually(ask: Callable[[], T], seconds: float = 60) -> T:
    """Poll until the result is true and return it; fail at the deadline."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not within {seconds} seconds; the last answer was {answer!r}"
        time.sleep(POLL_SECONDS)
    return answer
