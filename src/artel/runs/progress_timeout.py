"""The time limits of a task: without progress, and in total."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from artel.agent_loop.task import Listener


class TimedOut(Exception):
    """The task exceeded its progress timeout or its total timeout."""


class ProgressTimeout:
    """A timeout that progress of the loop resets; forwards the events of the loop to the task's listener.

    As a context manager it raises TimedOut if the block exceeds the progress timeout or the total timeout.
    """

    def __init__(self, listener: Listener, without_progress: float, total: float) -> None:
        self._listener = listener
        self._without_progress = without_progress
        self._total = total
        self._until = 0.0
        self._limit: asyncio.Timeout
        self.written: list[str] = []

    async def __aenter__(self) -> None:
        now = time.monotonic()
        self._until = min(now + self._without_progress, self._total)
        self._limit = asyncio.timeout(self._until - now)
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._limit.__aexit__(kind, failure, traceback)
        except TimeoutError as late:
            if self._until == self._total:  # not by the clock: the event loop rounds its own
                raise TimedOut("The task took too long and was stopped. Ask for less at once.") from late
            raise TimedOut(
                f"There was no progress for {self._without_progress:g} seconds, so the task was stopped. "
                "Try again, or try another model."
            ) from late

    def token(self, text: str) -> None:
        self.alive()
        self.written.append(text)
        self._listener.token(text)

    def restart(self) -> None:
        self.written.clear()
        self._listener.restart()

    def phase(self, name: str) -> None:
        self._listener.phase(name)

    def tool_called(self, call: Any) -> None:
        self._listener.tool_called(call)

    def tool_result(self, call: Any, result: Any) -> None:
        self.alive()
        self._listener.tool_result(call, result)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Suspend the progress timeout while a child agent runs within limits of its own."""
        self._move(self._total)
        try:
            yield
        finally:
            if not self._limit.expired():
                self.alive()

    def alive(self) -> None:
        now = time.monotonic()
        until = min(now + self._without_progress, self._total)
        # Rescheduling for every token would be slow.
        is_last = until == self._total != self._until
        if is_last or abs(until - self._until) > min(1.0, self._without_progress / 10):
            self._move(until)

    def _move(self, until: float) -> None:
        self._until = until
        self._limit.reschedule(asyncio.get_running_loop().time() + until - time.monotonic())
