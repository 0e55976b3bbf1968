"""Background work that is repeated."""

import asyncio

import pytest

from artel.errors import DatabaseUnavailable
from artel.poller import Poller

pytestmark = pytest.mark.anyio


class Steps:
    """Steps that fail as scripted, and tell when each one ran."""

    def __init__(self, *failures: Exception) -> None:
        self.ran: asyncio.Queue[None] = asyncio.Queue()
        self._failures = [*failures]

    async def run(self) -> None:
        self.ran.put_nowait(None)
        if self._failures:
            raise self._failures.pop(0)


async def test_step_is_repeated_after_any_failure() -> None:
    steps = Steps(DatabaseUnavailable("down"), RuntimeError("bug"))
    poller = Poller("test", steps.run, 0.001, "step_failed", "step_crashed")

    poller.start()

    async with asyncio.timeout(10):
        for _ in range(4):
            await steps.ran.get()
    await poller.close()


async def test_woken_poller_runs_at_once_and_a_closed_one_not_at_all() -> None:
    steps = Steps()
    poller = Poller("test", steps.run, 3600, "step_failed")
    poller.start()

    poller.wake()
    async with asyncio.timeout(10):
        await steps.ran.get()
    await poller.close()
    poller.wake()
    await asyncio.sleep(0.01)

    assert steps.ran.empty()
