"""Threads for blocking calls that can't be stopped."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from artel.per_user_locks import PerUserSemaphore

T = TypeVar("T")


class UserThreads:
    """A number of threads, of which one user can have only some: calls that hang cost only the user who made them.

    A call that nobody waits for any more counts until it has ended.
    """

    def __init__(self, name: str, threads: int, per_user: int) -> None:
        self._name, self._most = name, threads
        self._threads: ThreadPoolExecutor | None = None
        self._slots = PerUserSemaphore(per_user)

    async def run(self, user_id: int, call: Callable[..., T], *arguments: Any) -> T:
        """Return what a call returns, as soon as the user has a thread for it."""
        loop = asyncio.get_running_loop()
        if self._threads is None:
            # Not the threads of asyncio, for which the rest of the server waits.
            self._threads = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)

        def release(_done: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._slots.release, user_id)

        await self._slots.acquire(user_id)
        try:
            running = self._threads.submit(call, *arguments)
        except BaseException:
            self._slots.release(user_id)
            raise
        running.add_done_callback(release)
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """End the threads that are not busy, and start no more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
