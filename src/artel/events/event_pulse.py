"""Finds, once a second, what other processes have written to the streams that somebody follows here."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from artel.errors import ArtelError
from artel.events.hub import EventHub
from artel.logs import get_logger

PULSE_SECONDS = 1.0
READ_AT_ONCE = 500

# Answers the number of the newest event of each stream.
Newest = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]

log = get_logger(__name__)


class EventPulse:
    """Hints are quicker, but may get lost, and a server without RabbitMQ has none from other processes."""

    def __init__(self, hub: EventHub, newest: Newest) -> None:
        self._hub = hub
        self._newest = newest
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._beat(), name="events")

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(PULSE_SECONDS)
            try:
                await self._look()
            except ArtelError as failure:
                log.warning("events_not_looked_for", reason=failure.detail)
            except Exception:
                log.exception("events_not_looked_for")

    async def _look(self) -> None:
        followed = self._hub.sessions
        for start in range(0, len(followed), READ_AT_ONCE):
            some = followed[start : start + READ_AT_ONCE]
            newest = await self._newest(some)
            for key in some:
                if key in newest:
                    self._hub.notify_if_behind(key, newest[key])
                else:
                    self._hub.notify(key)  # it was deleted: reading it says so
