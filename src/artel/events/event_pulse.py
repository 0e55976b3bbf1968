"""Polls the database once a second for events that other processes wrote to the streams followed here."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from artel.errors import ArtelError
from artel.events.hub import EventHub
from artel.logs import get_logger

PULSE_SECONDS = 1.0
READ_AT_ONCE = 500

# Returns the number of the newest event of each stream.
Newest = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]

log = get_logger(__name__)


class EventPulse:
    """Polls for events: hints are faster but may be lost, and without RabbitMQ other processes send none."""

    def __init__(self, hub: EventHub, newest: Newest) -> None:
        self._hub = hub
        self._newest = newest
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start polling."""
        self._task = asyncio.get_running_loop().create_task(self._poll_forever(), name="events")

    async def close(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _poll_forever(self) -> None:
        while True:
            await asyncio.sleep(PULSE_SECONDS)
            try:
                await self._poll()
            except ArtelError as failure:
                log.warning("events_not_looked_for", reason=failure.detail)
            except Exception:
                log.exception("events_not_looked_for")

    async def _poll(self) -> None:
        followed = self._hub.sessions
        for start in range(0, len(followed), READ_AT_ONCE):
            batch = followed[start : start + READ_AT_ONCE]
            newest = await self._newest(batch)
            for key in batch:
                if key in newest:
                    self._hub.notify_if_behind(key, newest[key])
                else:
                    self._hub.notify(key)  # deleted: reading it raises NOT_FOUND, which ends its readers
