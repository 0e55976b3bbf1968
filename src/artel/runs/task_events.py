"""The session events of a task: of a direct turn, a child agent or a plan."""

import time
from collections.abc import Callable, Sequence

from artel.agent_memory.service import Recalled
from artel.brain.brain import ToolCall
from artel.contract.events import ContextRetrieved, EventData, ToolCalled, ToolReturned
from artel.spaces.worker_space import WorkerSpace
from artel.tools.tool import ToolResult
from artel.turns.turn import Turn

NAME_CHARACTERS = 100
ERROR_CHARACTERS = 500
SHOW_OTHERS_SECONDS = 0.1


class TaskEvents:
    """A listener that notes searches of the memory and tool calls; it streams nothing."""

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
        """Note a search of the agent's memory."""
        scores = [round(item.score, 4) for item in found]
        self.note(ContextRetrieved(agent_id=self.agent_id, count=len(scores), scores=scores))

    def tool_called(self, call: ToolCall) -> None:
        """Note a tool call."""
        names = {"tool": call.name[:NAME_CHARACTERS], "call_id": call.id[:NAME_CHARACTERS]}
        self.note(ToolCalled(task_id=self.task_id, agent_id=self.agent_id, **names))

    def tool_result(self, call: ToolCall, result: ToolResult) -> None:
        """Note the result of a tool call."""
        returned = ToolReturned(
            task_id=self.task_id,
            agent_id=self.agent_id,
            tool=call.name[:NAME_CHARACTERS],
            call_id=call.id[:NAME_CHARACTERS],
            success=result.success,
            error=result.error[:ERROR_CHARACTERS] if result.error else None,
        )
        self.note(returned)


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
        self._last_shared = 0.0

    def token(self, text: str) -> None:
        """Stream a token; share the text so far with other processes, at most every SHOW_OTHERS_SECONDS."""
        hub, signals, now = self._services.hub, self._services.signals, time.monotonic()
        principal, session_id = self._space.principal, self._turn.session_id
        ids = session_id, self._message_id, self.task_id
        hub.write(principal, *ids, text, self._turn.id, is_task=not self._is_answer)
        if signals.has_other_processes and now - self._last_shared > SHOW_OTHERS_SECONDS:
            self._last_shared = now
            if snapshot := hub.snapshot_of(session_id, self._message_id):
                signals.partial_answer(principal, session_id, snapshot)

    def restart(self) -> None:
        """Discard the streamed tokens."""
        ids = self._turn.session_id, self._message_id, self.task_id, self._turn.id
        self._services.hub.restart(self._space.principal, *ids, is_task=not self._is_answer)
