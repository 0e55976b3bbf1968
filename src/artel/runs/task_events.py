"""The session events of a turn and its tasks, and the background writer that stores them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from artel.agent_memory.service import Recalled
from artel.brain.brain import ToolCall
from artel.contract.events import ContextRetrieved, EventData, ToolCalled, ToolReturned
from artel.db.lease import LeaseLost
from artel.errors import ArtelError
from artel.events.hub import AnswerKey
from artel.logs import get_logger
from artel.spaces.worker_space import WorkerSpace
from artel.tools.tool import ToolResult
from artel.turns.transactions import TurnOver, note_events
from artel.turns.turn import Turn

NAME_CHARACTERS = 100
ERROR_CHARACTERS = 500
HELD_SECONDS = 0.5

log = get_logger(__name__)


class TaskEvents:
    """A listener that notes searches of the memory and tool calls; it streams nothing."""

    workflow_id = ""  # of the plan that the task belongs to

    def __init__(self, task_id: str, agent_id: int, note: Callable[[EventData], None]) -> None:
        self.task_id = task_id
        self.agent_id = agent_id
        self.note = note

    def token(self, text: str) -> None:
        """Ignore a piece of the answer."""

    def restart(self) -> None:
        """Ignore that the answer starts again."""

    def phase(self, name: str) -> None:
        """Ignore the start of a phase."""

    def recalled(self, found: Sequence[Recalled]) -> None:
        self.note(self._retrieved(found))

    def _retrieved(self, found: Sequence[Recalled]) -> ContextRetrieved:
        scores = [round(item.score, 4) for item in found]
        return ContextRetrieved(agent_id=self.agent_id, count=len(scores), scores=scores)

    def tool_called(self, call: ToolCall) -> None:
        self.note(ToolCalled(**self._ids(call)))

    def tool_result(self, call: ToolCall, result: ToolResult) -> None:
        error = result.error[:ERROR_CHARACTERS] if result.error else None
        self.note(ToolReturned(**self._ids(call), success=result.success, error=error))

    def _ids(self, call: ToolCall) -> dict[str, Any]:
        names = {"tool": call.name[:NAME_CHARACTERS], "call_id": call.id[:NAME_CHARACTERS]}
        return names | {"task_id": self.task_id, "agent_id": self.agent_id}


class StreamedTask(TaskEvents):
    """A listener that also streams the tokens as one message, to the readers of this process and of others."""

    def __init__(
        self,
        space: WorkerSpace,
        turn: Turn,
        task_id: str,
        agent_id: int,
        note: Callable[[EventData], None],
        message_id: str,
        *,
        is_answer: bool = True,
    ) -> None:
        """Take the id of the message; `is_answer`: it is the answer of the turn, not the result of a plan's task."""
        super().__init__(task_id, agent_id, note)
        self._space = space
        self._services = space.services
        self._turn = turn
        self._message_id = message_id
        self._is_answer = is_answer
        ids = turn.session_id, message_id, task_id, turn.id
        self._answer = AnswerKey(space.principal, *ids, is_task=not is_answer)

    def token(self, text: str) -> None:
        self._services.signals.write_answer(self._answer, text)

    def restart(self) -> None:
        self._services.hub.restart(self._answer)


class EventWriter:
    """Writes the events of a running turn in order and in the background."""

    def __init__(self, space: WorkerSpace, turn: Turn) -> None:
        self._space = space
        self._turn = turn
        self._waiting: list[EventData] = []
        self._is_open = False
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Start to write: the turn has started."""
        self._is_open = True
        self._write_soon()

    def add(self, event: EventData) -> None:
        self._waiting.append(event)
        self._write_soon()

    def add_later(self, event: EventData) -> None:
        """Add an event that is written with the next one, or after HELD_SECONDS: that saves a transaction."""
        self._waiting.append(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HELD_SECONDS, self._write_soon)

    async def written(self) -> None:
        """Write all events that were added."""
        self._write_soon()
        if self._writing is not None:
            await self._writing

    async def rest(self) -> list[EventData]:
        """Return the events that are not written, for the transaction that ends the turn; the writer forgets them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is not None:
            await self._writing
        if not self._is_open:
            return []
        rest, self._waiting = self._waiting, []
        return rest

    def _write_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
