"""Enforces the deadline of a request."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from artel.brain.brain import Request
from artel.brain.errors import ModelTimedOut


def seconds_left(request: Request) -> float:
    """Return the time until the deadline; negative when it has passed."""
    return request.deadline - time.monotonic()


@asynccontextmanager
async def before_deadline(request: Request) -> AsyncIterator[None]:
    """Cancel the block when the deadline passes, and raise `ModelTimedOut`."""
    left = seconds_left(request)
    if left <= 0:
        failure = _timed_out(request)
        failure.unbilled = True  # no request was sent
        raise failure
    try:
        async with asyncio.timeout(left) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise _timed_out(request) from None


def _timed_out(request: Request) -> ModelTimedOut:
    return ModelTimedOut(f"{request.model} did not finish its answer in time.")
