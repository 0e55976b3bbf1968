"""The session events of a task: of a direct turn, a child agent or a plan."""

from collections.abc import Sequence

from artel.agent_memory.context_store import Recalled
from artel.brain.brain import ToolCall
from artel.contract.events import ContextRetrieved, ToolCalled, ToolReturned
from artel.tools.tool import ToolResult

NAME_CHARACTERS = 100
ERROR_CHARACTERS = 500


def recalled(agent_id: int, found: Sequence[Recalled]) -> ContextRetrieved:
    """Return the event of a search of an agent's memory."""
    scores = [round(item.score, 4) for item in found]
    return ContextRetrieved(agent_id=agent_id, count=len(scores), scores=scores)


def tool_called(task_id: str, agent_id: int, call: ToolCall) -> ToolCalled:
    """Return the event of a tool call."""
    names = {"tool": call.name[:NAME_CHARACTERS], "call_id": call.id[:NAME_CHARACTERS]}
    return ToolCalled(task_id=task_id, agent_id=agent_id, **names)


def tool_result(task_id: str, agent_id: int, call: ToolCall, result: ToolResult) -> ToolReturned:
    """Return the event of a tool result."""
    return ToolReturned(
        task_id=task_id,
        agent_id=agent_id,
        tool=call.name[:NAME_CHARACTERS],
        call_id=call.id[:NAME_CHARACTERS],
        success=result.success,
        error=result.error[:ERROR_CHARACTERS] if result.error else None,
    )
