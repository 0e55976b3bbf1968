"""Waiting for something that happens elsewhere: asked again and again until it is so, or too late."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


def eventually(ask: Callable[[], T], seconds: float = 60) -> T:
    """Return the first answer that counts as true; fail when there was none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not within {seconds} seconds; the last answer was {answer!r}"
        time.sleep(POLL_SECONDS)
    return answer
