"""The calls that a node asks for: tools of the worker space under its policy, and approvals for tools of the node."""

import math
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from artel.agent_loop.task import LoopSettings
from artel.brain.brain import ToolCall, ToolSchema
from artel.contract.approval_details import ToolDetails
from artel.contract.node_messages import CallApproval, NodeToolCall, NodeToolResult
from artel.errors import AgentFailed
from artel.runs.toolbox import consent_of
from artel.runs.user_files import RunFiles
from artel.tools.consent import Decision, Question
from artel.tools.node_approvals import KEY_MISSING, ApprovedCall
from artel.tools.policy import arguments_hash
from artel.tools.tool import Tool, ToolResult
from artel.tools.toolbox import Toolbox, parsed_arguments

if TYPE_CHECKING:
    from artel.runs.agent_run import AgentRun

MAX_REFUSED = 20  # calls above the limit until the task is stopped
SHOWN_CHARACTERS = 100
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NodeTool(Tool):
    """A tool of a node, which calls it only if the user approves exactly these arguments."""

    def __init__(self, name: str, node: str) -> None:
        self.name = name
        self.schema = ToolSchema(name, "", {"type": "object"})
        self._node = node

    def question(self, arguments: Mapping[str, Any]) -> Question:
        reason = f"The node {self._node} asks to call its own tool {self.name}, on its machine, with these arguments."
        return Question(self.name, arguments, "high", ToolDetails(reason=reason, node=self._node))

    async def call(self, arguments: Mapping[str, Any], approval: Decision | None = None) -> ToolResult:  # noqa: ARG002
        """Return that the user has approved it: the node calls it."""
        return ToolResult(success=True)


class NodeTools:
    """Makes the calls of one task within its limit."""

    def __init__(self, run: "AgentRun", toolbox: Toolbox, files: RunFiles) -> None:
        self._run = run
        self._toolbox = toolbox
        self._files = files
        self._consent = consent_of(run)
        self._settings = run.space.services.settings
        most = self._settings.max_tool_calls_per_task
        self._limit = LoopSettings(**dict(run.agent.loop), most_tool_calls=most).tool_calls

    def announce(self, call: NodeToolCall) -> None:
        """Publish that a tool is called."""
        self._run.timeout.tool_called(_tool_call(call))

    async def result_of(self, call: NodeToolCall, node: str, made: int) -> NodeToolResult:
        """Make a call after so many others, and return what the node is told; raise NeedsUser."""
        if made >= self._limit + MAX_REFUSED:
            raise AgentFailed(f"The node {node} asks for tools again and again, though none are left for the task.")
        if made < self._limit:
            result = await self._result(call, node)
        else:
            name, limit = call.name[:SHOWN_CHARACTERS], self._limit
            result = ToolResult.failure(f"{name} was not called: all {limit} tool calls of this task are used up.")
        self._run.timeout.tool_result(_tool_call(call), result)
        if call.kind == "approval":
            return NodeToolResult(
                id=call.id,
                success=result.success,
                approved=result.success,
                approval=self._signed(call, node) if result.success else None,
                feedback=result.error or "",
            )
        return NodeToolResult(id=call.id, text=result.text_for_model(), success=result.success)

    async def _result(self, call: NodeToolCall, node: str) -> ToolResult:
        toolbox = self._toolbox
        if call.kind == "approval":
            if not _TOOL_NAME.fullmatch(call.name):
                return ToolResult.failure(f"{call.name[:SHOWN_CHARACTERS]!r} can't be the name of a tool.")
            if call.name in {schema.name for schema in toolbox.schemas}:  # people would mistake the one for the other
                return ToolResult.failure(f"{call.name} is a tool of the worker space, not of the node.")
            if self._settings.node_key is None:
                raise AgentFailed(f"The node {node} asks for an approval of {call.name}. {KEY_MISSING}")
            tool = NodeTool(call.name, node)
            toolbox = Toolbox([tool], {tool.name}, self._files.policy, self._consent, self._files)
        return await toolbox.call(_tool_call(call), self._run.deadline)

    def _signed(self, call: NodeToolCall, node: str) -> CallApproval | None:
        """Return the proof that the user approved a call as it was shown; None without a key."""
        key, space = self._settings.node_key, self._run.space
        shown_hash = arguments_hash(call.name, parsed_arguments(call.arguments))
        tenant = space.principal.user_id, space.project_id
        approved = ApprovedCall(*tenant, self._run.task.id, call.id, call.name, shown_hash, node)
        expires = math.ceil(time.time() + self._settings.task_timeout_seconds)
        return approved.approval(key, expires) if key is not None else None


def _tool_call(call: NodeToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, call.arguments)
