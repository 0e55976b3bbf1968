"""Semaphores and locks of asyncio, one per user."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PerUserSemaphore:
    """One semaphore with `slots` slots per user."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._semaphores: dict[int, asyncio.Semaphore] = {}
        self.users: Counter[int] = Counter()  # how many tasks hold or wait for a slot, by user

    async def acquire(self, user_id: int) -> None:
        """Wait for one of a user's slots, and take it."""
        semaphore = self._semaphores.setdefault(user_id, asyncio.Semaphore(self._slots))
        self.users[user_id] += 1
        try:
            await semaphore.acquire()
        except BaseException:
            self._leave(user_id)
            raise

    def release(self, user_id: int) -> None:
        """Release one of a user's slots."""
        self._semaphores[user_id].release()
        self._leave(user_id)

    def _leave(self, user_id: int) -> None:
        self.users[user_id] -= 1
        if not self.users[user_id]:
            del self.users[user_id], self._semaphores[user_id]


class PerUserLock:
    """One lock per user, with at most `at_once` locks held in the whole process."""

    def __init__(self, at_once: int) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._locks = PerUserSemaphore(1)

    def count(self, user_id: int) -> int:
        """Return how many tasks hold or wait for a user's lock."""
        return self._locks.users[user_id]

    @asynccontextmanager
    async def lock(self, user_id: int) -> AsyncIterator[None]:
        """Hold a user's lock."""
        await self._locks.acquire(user_id)
        try:
            async with self._slots:
                yield
        finally:
            self._locks.release(user_id)
