"""Retrying a transaction while the database is unavailable for a moment."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from artel.errors import DatabaseUnavailable
from artel.logs import get_logger

STORE_SECONDS = 10.0
AGAIN_SECONDS = 0.2

T = TypeVar("T")

log = get_logger(__name__)


async def patiently(store: Callable[[], Awaitable[T]], what: str) -> T:
    """Run a transaction, retried for ten seconds while the database is unavailable; it must be idempotent."""
    until = time.monotonic() + STORE_SECONDS
    while True:
        try:
            return await store()
        except DatabaseUnavailable as failure:
            if time.monotonic() > until:
                raise
            log.warning("database_waited_for", what=what, reason=failure.detail)
        await asyncio.sleep(AGAIN_SECONDS)
