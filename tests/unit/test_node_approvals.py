"""Approvals of calls that nodes make, as far as the server decides about them alone."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from artel.contract.node_messages import NodeToolCall
from artel.errors import AgentFailed
from artel.runs.node_tools import NodeTool, NodeTools
from artel.settings import Settings
from artel.tools.toolbox import Toolbox

pytestmark = [pytest.mark.anyio, pytest.mark.req("AGT-02.4", "AGT-02.7")]


def _tools(folder: Path, toolbox: Toolbox) -> NodeTools:
    """Return the calls of a task on a server without a key."""
    space = SimpleNamespace(services=SimpleNamespace(settings=Settings(data_dir=folder)))
    task, agent = SimpleNamespace(waiting=None), SimpleNamespace(loop={})
    timeout = SimpleNamespace(tool_result=lambda *_: None)
    run: Any = SimpleNamespace(space=space, task=task, agent=agent, deadline=time.monotonic() + 60, timeout=timeout)
    files: Any = None
    return NodeTools(run, toolbox, files)


async def test_server_without_a_key_refuses_approvals_and_names_the_setting(tmp_path: Path) -> None:
    call = NodeToolCall(id="call_1", name="shell", arguments='{"command": "ls"}', kind="approval")

    with pytest.raises(AgentFailed, match="ARTEL_NODE_KEY"):
        await _tools(tmp_path, Toolbox()).result_of(call, "agent.coder.001", 0)


async def test_approval_of_a_call_named_like_a_tool_of_the_space_is_refused(tmp_path: Path) -> None:
    name = "tool_delete_file"
    call = NodeToolCall(id="call_1", name=name, arguments='{"path": "x"}', kind="approval")
    tools = _tools(tmp_path, Toolbox([NodeTool(name, "the space")], {name}))

    result = await tools.result_of(call, "agent.coder.001", 0)

    assert (result.approved, result.approval) == (False, None)
    assert "is a tool of the worker space" in result.feedback
