"""Password hashes (argon2id), computed on threads of their own, a few at a time."""

import asyncio
import os
import unicodedata
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import argon2

from artel.errors import ServerBusy

AT_ONCE = max(1, min(4, (os.cpu_count() or 1)))
MAX_WAITING = 64
# OWASP's first choice of parameters for argon2id: 19 MiB, two passes.
_hasher = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


class Places:
    """A few places to work at, and a bounded queue for them."""

    def __init__(self, number: int) -> None:
        self._free = asyncio.Semaphore(number)
        self._waiting = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a place and hold it."""
        if self._waiting >= MAX_WAITING:
            raise ServerBusy("Too many log-ins at once. Try again in a moment.", retry_after=1)
        self._waiting += 1
        try:
            async with self._free:
                yield
        finally:
            self._waiting -= 1


class Passwords:
    """Hashes and verifies passwords without holding up the event loop or filling the memory."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE + 1, "passwords")
        self._hash_of_nobody = _hasher.hash(os.urandom(16))
        # Whoever holds a place may hash or verify. Many who register don't keep out those who log in.
        self.places_to_log_in = Places(AT_ONCE)
        self.places_to_register = Places(1)

    async def hash(self, password: str) -> str:
        """Return the hash of a new password."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, hash_password, password)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Return whether it is the password; without a hash the answer is no, and takes as long."""
        matches = await asyncio.get_running_loop().run_in_executor(
            self._threads, _matches, password_hash or self._hash_of_nobody, password
        )
        return matches and password_hash is not None

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True)


def hash_password(password: str) -> str:
    """Return the hash of a password, on this thread."""
    return _hasher.hash(_normal(password))


def needs_rehash(password_hash: str) -> bool:
    """Return whether the hash was made with weaker parameters than today's."""
    return _hasher.check_needs_rehash(password_hash)


def _matches(password_hash: str, password: str) -> bool:
    try:
        return _hasher.verify(password_hash, _normal(password))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def _normal(password: str) -> str:
    # The same characters typed on two systems may arrive composed or decomposed.
    return unicodedata.normalize("NFKC", password)
