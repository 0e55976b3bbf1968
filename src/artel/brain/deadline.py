"""The moment by which an answer must be there."""

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
    """Stop what is inside when the deadline passes, with `ModelTimedOut`."""
    left = seconds_left(request)
    if left <= 0:
        late = _late(request)
        late.unbilled = True  # nobody is asked
        raise late
    try:
        async with asyncio.timeout(left) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise _late(request) from None


def _late(request: Request) -> ModelTimedOut:
    return ModelTimedOut(f"{request.model} gave no whole answer in time.")
