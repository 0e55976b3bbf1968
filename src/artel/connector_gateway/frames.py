"""What connectors send, read within limits: large messages on a thread, one at a time per user, a few per process."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_core import from_json

LARGE_CHARACTERS = 100_000  # what has more is read on a thread
MAX_LARGE_AT_ONCE = 8
MAX_RAISED_LINES = 4  # of a user, that may send very large messages at the same time

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class Misbehaved(Exception):
    """The connector says what no connector of ours says."""


class UserTurns:
    """Lets one heavy piece of work per user run at a time, and a few in the whole process; the others wait."""

    def __init__(self, at_once: int) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._locks: dict[int, asyncio.Lock] = {}
        self._wanted: Counter[int] = Counter()

    def wanted(self, user_id: int) -> int:
        """Return how many pieces of work of a user run or wait."""
        return self._wanted[user_id]

    @asynccontextmanager
    async def turn(self, user_id: int) -> AsyncIterator[None]:
        """Wait until it is the user's turn, and take it."""
        lock = self._locks.setdefault(user_id, asyncio.Lock())
        self._wanted[user_id] += 1
        try:
            async with lock, self._slots:
                yield
        finally:
            self._wanted[user_id] -= 1
            if not self._wanted[user_id]:
                del self._wanted[user_id], self._locks[user_id]


class UserPlaces:
    """Gives each user so many places; who comes when all are taken waits for one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: dict[int, asyncio.Semaphore] = {}
        self._wanted: Counter[int] = Counter()

    async def take(self, user_id: int) -> None:
        """Wait for a place of the user, and take it."""
        free = self._free.setdefault(user_id, asyncio.Semaphore(self._most))
        self._wanted[user_id] += 1
        try:
            await free.acquire()
        except BaseException:
            self._leave(user_id)
            raise

    def give_back(self, user_id: int) -> None:
        """Give a place back."""
        self._free[user_id].release()
        self._leave(user_id)

    def _leave(self, user_id: int) -> None:
        self._wanted[user_id] -= 1
        if not self._wanted[user_id]:
            del self._wanted[user_id], self._free[user_id]


def read_message(text: str, structure: int) -> dict[str, Any]:
    """Return a JSON-RPC message; raise Misbehaved unless it is one, with at most so many characters outside strings."""
    if len(text) > structure and not _is_simple(text, structure):
        raise Misbehaved("it sent more objects and numbers than any answer has")
    try:
        message = from_json(text, allow_inf_nan=False)
    except (ValueError, RecursionError):
        raise Misbehaved("it sent something that is no JSON") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Misbehaved("it sent something that is no JSON-RPC")
    return message


def _is_simple(text: str, structure: int) -> bool:
    """Return whether few characters are outside of strings: they make the objects that a text of JSON becomes.

    Without this 24 MB of `{},{},…` become 600 MB, in a call that nothing can interrupt.
    """
    outside, end = 0, 0
    while (start := text.find('"', end)) >= 0:
        string = _STRING.match(text, start)
        outside += start - end + 2
        if string is None or outside > structure:
            return False
        end = string.end()
    return outside + len(text) - end <= structure
