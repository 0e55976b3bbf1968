"""Polls the database once a second for events that other processes wrote to the streams followed here."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from artel.events.hub import EventHub
from artel.poller import Poller

PULSE_SECONDS = 1.0
READ_AT_ONCE = 500

# Returns the number of the newest event of each stream.
Newest = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]


class EventPulse(Poller):
    """Polls for events: hints are faster but may be lost, and without RabbitMQ other processes send none."""

    def __init__(self, hub: EventHub, newest: Newest) -> None:
        super().__init__("events", self._poll, PULSE_SECONDS, "events_not_looked_for")
        self._hub = hub
        self._newest = newest

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
