"""Whether the event loop of a node runs, as its threads see it."""

import asyncio
import time
from contextlib import suppress


class LoopWatch:
    """Measures for how long an event loop has not run; a blocking call or a computation in it stops all tasks.

    Each look asks the loop for a sign of life, which the next look expects.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked_at: float | None = None  # in seconds of `time.monotonic()`; None when the loop has answered

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch a loop."""
        self._loop = loop

    def blocked_seconds(self) -> float:
        """Return for how long the loop has not answered, 0 if it runs or none is watched; for any thread."""
        asked_at = self._asked_at
        if asked_at is not None:
            return time.monotonic() - asked_at
        if self._loop is not None:
            self._asked_at = time.monotonic()
            with suppress(RuntimeError):  # the loop is closed: the node has ended
                self._loop.call_soon_threadsafe(self._answer)
        return 0.0

    def _answer(self) -> None:
        self._asked_at = None
