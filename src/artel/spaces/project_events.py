"""Writes the events of projects in the background, many at a time."""

import asyncio

from artel.auth.principal import Principal
from artel.contract.events import AgentStatusChanged, EventData
from artel.db.engine import Database
from artel.errors import ArtelError
from artel.events.project_log import write_project_events
from artel.logs import get_logger

GATHER_SECONDS = 0.05
MAX_WAITING = 10_000

log = get_logger(__name__)


class ProjectEventWriter:
    """Queues events of projects and writes them in batches; losing some in a crash is harmless."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[tuple[Principal, int], list[EventData]] = {}
        self._count = 0
        self._writing: asyncio.Task[None] | None = None

    def add(self, principal: Principal, project_id: int, event: EventData) -> None:
        if self._count >= MAX_WAITING:
            log.warning("project_event_dropped", type=event.type, problem="too many at once")
            return
        self._count += 1
        self._waiting.setdefault((principal, project_id), []).append(event)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def agent_changed(self, principal: Principal, project_id: int, agent_id: int, old: str, new: str) -> None:
        self.add(principal, project_id, AgentStatusChanged(agent_id=agent_id, old_status=old, new_status=new))

    async def close(self) -> None:
        """Write the queued events."""
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        while self._waiting:
            waiting, self._waiting, self._count = self._waiting, {}, 0
            for (principal, project_id), events in waiting.items():
                try:
                    await self._database.of(principal).run(write_project_events, project_id, events)
                except ArtelError as failure:  # the project was deleted, or the database is unavailable
                    log.info("project_events_not_written", project_id=project_id, reason=failure.detail)
        self._writing = None
