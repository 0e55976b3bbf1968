"""What tests of a node's tools share: agents' files, a folder, calls through the toolbox."""

import json
import time
from pathlib import Path
from typing import Any

from artel.brain.brain import ToolCall
from artel.contract.agent_file import AgentFile
from artel.nodes.task_scope import TaskScope
from artel.nodes.toolbox import SharedTools, node_toolbox
from artel.settings import Settings
from artel.tools.consent import Consent, Decision
from artel.tools.policy import arguments_hash
from artel.tools.tool import ToolResult

ANN = TaskScope("task_1", 1, 10)
BOB = TaskScope("task_2", 2, 20)


def agent_file(*enabled: str, security: dict[str, Any] | None = None, **sections: Any) -> AgentFile:
    """Return the file of an agent with these tools."""
    document: dict[str, Any] = {
        "name": "agent.writer.001",
        "type": "writer",
        "brain": {"model": "gpt-4", "system_prompt": "You write."},
        "capabilities": [{"name": "write_article"}],
        "tools": {"enabled": list(enabled), "security": security or {}},
    }
    return AgentFile.model_validate(document | sections)


def shared_tools(folder: Path, file: AgentFile, **settings: Any) -> SharedTools:
    """Return what the tools of a node in this folder share."""
    return SharedTools(file, Settings(data_dir=folder / "artel", **settings))


async def call(
    shared: SharedTools, scope: TaskScope, name: str, *, approved: bool = False, **arguments: Any
) -> ToolResult:
    """Call a tool in a task, as its loop does; an approval is for exactly these arguments."""
    decisions = {arguments_hash(name, arguments): Decision("approval_1", "approved")} if approved else {}
    toolbox = node_toolbox(shared, scope, Consent(decisions))
    return await toolbox.call(ToolCall("call_1", name, json.dumps(arguments)), time.monotonic() + 60)
