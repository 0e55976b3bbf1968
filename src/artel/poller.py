"""Background work that is repeated, or makes room for turns."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from artel.errors import ArtelError
from artel.logs import get_logger

MAX_YIELD_SECONDS = 2.0

log = get_logger(__name__)


class Poller:
    """Runs a step every `seconds`, and at once when woken; a failed step is logged and does not end it."""

    def __init__(
        self, name: str, step: Callable[[], Awaitable[None]], seconds: float, failed: str, crashed: str | None = None
    ) -> None:
        """`failed` and `crashed` are the log events of expected and unexpected errors; they may be the same."""
        self._name, self._step, self._seconds = name, step, seconds
        self._failed, self._crashed = failed, crashed or failed
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to poll; the first step runs after `seconds`."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    def wake(self) -> None:
        """Run the next step at once."""
        self._woken.set()

    def stop(self) -> None:
        """Cancel the running step, and run no more."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Stop, and wait until the running step has ended."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._woken.wait()
            self._woken.clear()
            try:
                await self._step()
            except ArtelError as failure:
                log.warning(self._failed, reason=failure.detail)
            except Exception:
                log.exception(self._crashed)


async def yield_to_turns(
    busy: Callable[[], bool], quiet_polls: int, poll_seconds: float, rest_seconds: float = 0.0
) -> None:
    """Wait until no turn was running at so many polls in a row, for a limited time: some servers are always busy.

    While turns run, it waits for `rest_seconds` at least.
    """
    quiet = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(max(MAX_YIELD_SECONDS, rest_seconds)):
            # There is no event for the end of the last turn.
            while (quiet := 0 if busy() else quiet + 1) < quiet_polls:  # noqa: ASYNC110
                await asyncio.sleep(poll_seconds)
