"""The background writer of a turn's events."""

import asyncio

from artel.contract.events import EventData
from artel.db.lease import LeaseLost
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.spaces.worker_space import WorkerSpace
from artel.turns.transactions import TurnOver, note_events
from artel.turns.turn import Turn

log = get_logger(__name__)


class EventWriter:
    """Writes the events of a running turn in order and in the background."""

    def __init__(self, space: WorkerSpace, turn: Turn) -> None:
        self._space = space
        self._turn = turn
        self._waiting: list[EventData] = []
        self._is_open = False
        self._writing: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start to write: the turn has started."""
        self._is_open = True
        self._write_soon()

    def add(self, event: EventData) -> None:
        """Queue an event."""
        self._waiting.append(event)
        self._write_soon()

    async def written(self) -> None:
        """Wait until all queued events are written."""
        if self._writing is not None:
            await self._writing

    def _write_soon(self) -> None:
        if self._is_open and self._waiting and self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting:
                events, self._waiting = self._waiting, []
                await self._space.database.run(note_events, self._turn, events)
        except (ArtelError, TurnOver, LeaseLost) as failure:
            log.info("events_not_written", turn_id=self._turn.id, reason=repr(failure))
        finally:
            self._writing = None
