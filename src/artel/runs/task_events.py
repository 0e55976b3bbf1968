"""What sessions are told of a task, whoever runs it: an agent spoken to, a child, a task of a plan."""

from collections.abc import Sequence

from artel.agent_memory.context_store import Recalled
from artel.brain.brain import ToolCall
from artel.contract.events import ContextRetrieved, ToolCalled, ToolReturned
from artel.tools.tool import ToolResult

NAME_CHARACTERS = 100
ERROR_CHARACTERS = 500


def recalled(agent_id: int, found: Sequence[Recalled]) -> ContextRetrieved:
    """Return that an agent's memory was searched."""
    scores = [round(one.score, 4) for one in found]
    return ContextRetrieved(agent_id=agent_id, count=len(scores), scores=scores)


def tool_called(task_id: str, agent_id: int, call: ToolCall) -> ToolCalled:
    """Return that a tool is called."""
    names = {"tool": call.name[:NAME_CHARACTERS], "call_id": call.id[:NAME_CHARACTERS]}
    return ToolCalled(task_id=task_id, agent_id=agent_id, **names)


def tool_result(task_id: str, agent_id: int, call: ToolCall, result: ToolResult) -> ToolReturned:
    """Return what came of it."""
    return ToolReturned(
        task_id=task_id,
        agent_id=agent_id,
        tool=call.name[:NAME_CHARACTERS],
        call_id=call.id[:NAME_CHARACTERS],
        success=result.success,
        error=result.error[:ERROR_CHARACTERS] if result.error else None,
    )
