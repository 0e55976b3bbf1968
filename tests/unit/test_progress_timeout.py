"""The message of a task that runs out of time names the limit that ended it."""

import asyncio
import time

import pytest

from artel.runs.progress_timeout import ProgressTimeout, TimedOut
from tests.agents import Heard

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Return the event loop of a server, which counts time in milliseconds."""
    return "asyncio", {"use_uvloop": True}


async def _message_of(without_progress: float, total: float, progress_after: float | None = None) -> str:
    timeout = ProgressTimeout(Heard(), without_progress, time.monotonic() + total)
    try:
        async with timeout:
            if progress_after is not None:
                await asyncio.sleep(progress_after)
                timeout.alive()
            await asyncio.Event().wait()
    except TimedOut as late:
        return str(late)
    return "nothing"


@pytest.mark.req("CHT-08.3")
async def test_whole_time_is_named_however_the_event_loop_rounds() -> None:
    """The loop's clock has another resolution than the clock of the limits: some of these end a fraction early."""
    messages = await asyncio.gather(*(_message_of(30, 0.05 + number / 7_000) for number in range(300)))

    assert {message.partition(" and")[0] for message in messages} == {"The task took too long"}


@pytest.mark.req("CHT-08.3")
async def test_silence_is_named_when_there_is_time_left() -> None:
    message = await _message_of(0.05, 60)

    assert message.startswith("There was no progress for 0.05 seconds")


async def test_progress_shortly_before_the_end_leaves_the_whole_time() -> None:
    message = await _message_of(0.4, 0.41, progress_after=0.2)

    assert message.startswith("The task took too long")
