"""Password hashing (argon2id) on a small thread pool."""

import asyncio
import os
import unicodedata
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import argon2

from artel.errors import ServerBusy

MAX_CONCURRENT = max(1, min(4, (os.cpu_count() or 1)))
MAX_WAITING = 64
# OWASP's first choice of parameters for argon2id: 19 MiB, two passes.
_hasher = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


class HashingSlots:
    """A semaphore with a bounded queue."""

    def __init__(self, number: int) -> None:
        self._free = asyncio.Semaphore(number)
        self._waiting = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it; raise ServerBusy if the queue is full."""
        if self._waiting >= MAX_WAITING:
            raise ServerBusy("Too many concurrent logins. Try again in a moment.", retry_after=1)
        self._waiting += 1
        try:
            async with self._free:
                yield
        finally:
            self._waiting -= 1


class Passwords:
    """Hashes and verifies passwords without blocking the event loop; bounds the memory that hashing takes."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT + 1, "passwords")
        self._dummy_hash = _hasher.hash(os.urandom(16))
        # Hold a slot while hashing or verifying. Separate slots: registrations do not delay logins.
        self.login_slots = HashingSlots(MAX_CONCURRENT)
        self.registration_slots = HashingSlots(1)

    async def hash(self, password: str) -> str:
        """Return the hash of a new password."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, hash_password, password)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Return whether the password matches; without a hash return False in the same time."""
        matches = await asyncio.get_running_loop().run_in_executor(
            self._threads, _matches, password_hash or self._dummy_hash, password
        )
        return matches and password_hash is not None

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=True)


def hash_password(password: str) -> str:
    """Hash a password in the current thread."""
    return _hasher.hash(_normalized(password))


def needs_rehash(password_hash: str) -> bool:
    """Return whether the hash was made with outdated parameters."""
    return _hasher.check_needs_rehash(password_hash)


def _matches(password_hash: str, password: str) -> bool:
    try:
        return _hasher.verify(password_hash, _normalized(password))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def _normalized(password: str) -> str:
    # Some systems send composed characters, others decomposed ones.
    return unicodedata.normalize("NFKC", password)
