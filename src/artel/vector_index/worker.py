"""Threads for engines that block: few, with a bounded queue, and nobody waits for ever."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from artel.errors import ArtelError
from artel.logs import get_logger

P = ParamSpec("P")
T = TypeVar("T")

MAX_WAITING = 500

log = get_logger(__name__)


def is_engine_failure(failure: Exception) -> bool:
    """Tell what a Rust engine raises, which is a plain exception, from mistakes of ours, which never are."""
    return type(failure) is Exception or isinstance(failure, OSError | ImportError)


class Worker:
    """Runs one engine's calls on its threads and turns the engine's own failures into one error."""

    def __init__(
        self,
        name: str,
        error: type[ArtelError],
        *,
        threads: int = 1,
        deadline_seconds: float,
        is_failure: Callable[[Exception], bool] | None = None,
    ) -> None:
        self._name = name
        self._error = error
        self._deadline_seconds = deadline_seconds
        self._is_failure = is_failure or is_engine_failure
        self._threads = ThreadPoolExecutor(threads, name)
        self._waiting = 0
        self.closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the call on a thread; one that outlives the deadline goes on, but nobody waits for it."""
        return await self.run_within(self._deadline_seconds, call, *args, **kwargs)

    async def run_within(self, seconds: float, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the call with a deadline of its own."""
        if self.closed:
            raise self._error(f"The {self._name} is closed.")
        if self._waiting >= MAX_WAITING:
            raise self._error(f"The {self._name} has too much to do. Try again in a moment.", retry_after=1)
        self._waiting += 1
        context = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(
            self._threads, context.run, lambda: self._translated(call, *args, **kwargs)
        )
        future.add_done_callback(self._done)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            log.warning("worker_deadline_passed", worker=self._name, seconds=seconds)
            raise self._error(
                f"The {self._name} did not answer in time. Try again in a moment.", retry_after=5
            ) from None

    async def close(self) -> None:
        """Take no more calls and let those that were accepted finish."""
        self.closed = True
        await asyncio.to_thread(self._threads.shutdown, wait=True)

    def _translated(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except ArtelError:
            raise
        except BaseException as failure:  # a panic of a Rust engine is no Exception
            if isinstance(failure, Exception) and not self._is_failure(failure):
                raise
            log.warning("worker_call_failed", worker=self._name, error=str(failure))
            raise self._error(f"The {self._name} failed. The server's log says why.", retry_after=5) from failure

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # seen, even when nobody waits any more
