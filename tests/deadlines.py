"""Polling with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

FIRST_POLL_SECONDS = 0.02
LAST_POLL_SECONDS = 0.2


def eventually(ask: Callable[[], T], seconds: float = 60) -> T:
    """Poll until the result is true and return it; fail at the deadline.

    The pauses grow, because every poll of a server takes CPU time from what the test waits for.
    """
    deadline = time.monotonic() + seconds
    pause = FIRST_POLL_SECONDS
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not within {seconds} seconds; the last answer was {answer!r}"
        time.sleep(pause)
        pause = min(pause * 1.5, LAST_POLL_SECONDS)
    return answer
