"""The tools of one task: those of the node, which it calls itself, and those of the worker space, which it asks for."""

from collections.abc import Mapping, Sequence
from typing import Any

from artel.brain.brain import ToolCall, ToolSchema
from artel.contract.node_messages import SpaceTool
from artel.nodes.fence import Fence
from artel.nodes.task_scope import TaskScope
from artel.nodes.toolbox import SharedTools, node_toolbox
from artel.tools.consent import Consent, Decision, NeedsApproval, Question
from artel.tools.policy import Level
from artel.tools.tool import Tool, ToolResult
from artel.tools.toolbox import Toolbox


class RequestedTool(Tool):
    """A tool of the worker space: a call of it ends the command, and the space runs it under its own policy."""

    level = Level.SAFE  # for the node, which does nothing
    is_checked_elsewhere = True  # a pattern in a schema that anybody may send could take forever here

    def __init__(self, tool: SpaceTool) -> None:
        self.name = tool.name
        self.schema = ToolSchema(tool.name, tool.description, tool.parameters)

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        """Raise NeedsApproval, which parks the task."""
        raise NeedsApproval(Question(self.name, arguments))


class TaskToolbox:
    """A toolbox whose calls wait until the node may act, and are interrupted when it may no longer."""

    def __init__(self, toolbox: Toolbox, fence: Fence) -> None:
        self._toolbox = toolbox
        self._fence = fence
        self.schemas = toolbox.schemas

    async def call(self, call: ToolCall, deadline: float) -> ToolResult:
        """Carry out a call; raise NeedsApproval for one that is not this node's to make, Requeue without the lock."""
        return await self._fence.call(self._toolbox.call(call, deadline))


def task_toolbox(
    shared: SharedTools,
    scope: TaskScope,
    space_tools: Sequence[SpaceTool],
    consent: Consent | None,
    fence: Fence,
) -> TaskToolbox:
    """Return the tools of a task."""
    requested = [RequestedTool(tool) for tool in space_tools]
    return TaskToolbox(node_toolbox(shared, scope, consent, requested), fence)
