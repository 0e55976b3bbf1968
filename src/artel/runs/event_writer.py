"""Events of a turn that are written while it runs."""

import asyncio

from artel.contract.events import EventData
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.spaces.worker_space import WorkerSpace
from artel.turns.lease import LeaseLost
from artel.turns.transactions import TurnOver, note_events
from artel.turns.turn import Turn

log = get_logger(__name__)


class EventWriter:
    """Events of a turn that are written while it runs, one after another, without making it wait."""

    def __init__(self, space: WorkerSpace, turn: Turn) -> None:
        self._space = space
        self._turn = turn
        self._waiting: list[EventData] = []
        self._is_open = False
        self._writing: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to write: the turn has started."""
        self._is_open = True
        self._write_soon()

    def add(self, event: EventData) -> None:
        """Write an event soon."""
        self._waiting.append(event)
        self._write_soon()

    async def written(self) -> None:
        """Wait until everything is written."""
        if self._writing is not None:
            await self._writing

    def _write_soon(self) -> None:
        if self._is_open and self._waiting and self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting:
                events, self._waiting = self._waiting, []
                place = self._space.principal, self._turn, events
                await self._space.services.database.run(note_events, *place, self._space.lease)
                self._space.services.signals.session_changed(self._turn.session_id)
        except (ArtelError, TurnOver, LeaseLost) as failure:
            log.info("events_not_written", turn_id=self._turn.id, reason=repr(failure))
        finally:
            self._writing = None
