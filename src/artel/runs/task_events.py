"""The session events of a task: of a direct turn, a child agent or a plan."""

from collections.abc import Callable, Sequence

from artel.agent_memory.context_store import Recalled
from artel.brain.brain import ToolCall
from artel.contract.events import ContextRetrieved, EventData, ToolCalled, ToolReturned
from artel.tools.tool import ToolResult

NAME_CHARACTERS = 100
ERROR_CHARACTERS = 500


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
