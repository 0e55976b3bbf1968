"""Parsing of connector messages within limits, and the per-user limits on large messages."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_core import from_json

LARGE_CHARACTERS = 100_000  # larger messages are parsed on a thread
MAX_LARGE_AT_ONCE = 8  # in the whole process
MAX_RAISED_CONNECTIONS = 4  # per user, that may send very large messages at the same time

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class Misbehaved(Exception):
    """The connector violated the protocol."""


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


def read_message(text: str, structure: int) -> dict[str, Any]:
    """Parse a JSON-RPC message; raise Misbehaved if it is invalid or has too much structure."""
    if len(text) > structure and not _is_simple(text, structure):
        raise Misbehaved("it sent a message with too many objects and numbers")
    try:
        message = from_json(text, allow_inf_nan=False)
    except (ValueError, RecursionError):
        raise Misbehaved("it sent invalid JSON") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Misbehaved("it sent a message that is not JSON-RPC 2.0")
    return message


def _is_simple(text: str, structure: int) -> bool:
    """Return whether at most `structure` characters are outside of strings.

    Parsing 24 MB of `{},{},…` takes 600 MB of memory and can't be interrupted.
    """
    outside, end = 0, 0
    while (start := text.find('"', end)) >= 0:
        string = _STRING.match(text, start)
        outside += start - end + 2
        if string is None or outside > structure:
            return False
        end = string.end()
    return outside + len(text) - end <= structure
