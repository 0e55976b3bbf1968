"""Threads for blocking engines, with a bounded queue and a deadline for every call."""

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
    """Return whether an exception is the engine's: Rust engines raise plain Exception, our own bugs never do."""
    return type(failure) is Exception or isinstance(failure, OSError | ImportError)


class EngineThreads:
    """Runs the calls of one engine in threads and turns the engine's failures into one error class."""

    def __init__(
        self,
        name: str,
        error: type[ArtelError],
        *,
        threads: int = 1,
        deadline_seconds: float,
        is_failure: Callable[[Exception], bool] = is_engine_failure,
    ) -> None:
        self._name = name
        self._error = error
        self._deadline_seconds = deadline_seconds
        self._is_failure = is_failure
        self._threads = ThreadPoolExecutor(threads, name)
        self._waiting = 0
        self.closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the call in a thread; after the deadline raise the error, while the call continues."""
        return await self.run_within(self._deadline_seconds, call, *args, **kwargs)

    async def run_within(self, seconds: float, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the call with another deadline."""

        def run() -> T:
            try:
                return call(*args, **kwargs)
            except ArtelError:
                raise
            except BaseException as failure:  # a panic of a Rust engine is not an Exception
                if isinstance(failure, Exception) and not self._is_failure(failure):
                    raise
                log.warning("worker_call_failed", worker=self._name, error=str(failure))
                raise self._error(f"The {self._name} failed. The server's log says why.", retry_after=5) from failure

        if self.closed:
            raise self._error(f"The {self._name} is closed.")
        if self._waiting >= MAX_WAITING:
            raise self._error(f"The {self._name} is overloaded. Try again in a moment.", retry_after=1)
        self._waiting += 1
        context = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(self._threads, context.run, run)
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
        """Refuse new calls and wait for accepted ones."""
        self.closed = True
        await asyncio.to_thread(self._threads.shutdown, wait=True)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # mark as retrieved, also when the caller has timed out
