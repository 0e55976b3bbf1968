"""A node that has lost its lock: what it was doing ends, because another instance may do it now."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from artel.bus.topology import command_key
from artel.contract.agent_file import AgentFile
from artel.nodes.node import AgentNode
from artel.nodes.singleton import AgentAlreadyRunningError
from tests.agents import reply, wants
from tests.buses import SOON, Wire
from tests.node_worlds import NodeBrain, Nodes, RabbitWorld, node_file
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio

TOPIC = {"topic": "cats"}
# As another package would write it: a call that has its effect when the test lets it.
TOOL = """
import asyncio

from artel.tools.tool import BaseTool

calls, effects, begun, cancelled, go_on = [], [], asyncio.Event(), asyncio.Event(), asyncio.Event()

class Hold(BaseTool):
    name = "hold"
    description = "Wait."

    async def execute(self):
        calls.append(1)
        begun.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        effects.append(1)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of a tool that an agent's file can enable."""
    folder = tmp_path / "site"
    about = folder / "held_tool-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "held_tool.py").write_text(TOOL)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: held_tool\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[artel.tools]\nhold = held_tool:Hold\n")
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("held_tool")
    del sys.modules["held_tool"]


def holding_file() -> AgentFile:
    return node_file(tools={"enabled": ["hold"], "security": {"plugins": {"hold": {"enabled": True}}}})


async def start_when_possible(nodes: Nodes, file: AgentFile, brain: NodeBrain) -> AgentNode:
    """Start a node as soon as its name is free."""
    async with asyncio.timeout(SOON):
        while True:
            with suppress(AgentAlreadyRunningError):
                return await nodes.start(file, brain)


@pytest.mark.req("AGT-10.5", "AGT-10.6")
async def test_tool_call_is_cancelled_when_another_instance_may_have_the_name(
    services: ServiceRun, tmp_path: Path, tool: ModuleType
) -> None:
    file, wire = holding_file(), Wire(services.rabbitmq())
    cut_off = Nodes(RabbitWorld(f"{await wire.up()}?heartbeat=2"), tmp_path / "data")
    reachable = Nodes(RabbitWorld(services.rabbitmq()), tmp_path / "other")
    first_brain, client = NodeBrain(reply("", wants("hold"))), await reachable.client()
    try:
        first = await cut_off.start(file, first_brain)
        command = await client.send(command_key(file.name, "write_article"), "write_article", TOPIC)
        await asyncio.wait_for(tool.begun.wait(), SOON)

        wire.freeze()
        second = await start_when_possible(reachable, file, NodeBrain(reply("By the second.")))
        await asyncio.wait_for(tool.cancelled.wait(), SOON)
        tool.go_on.set()
        [answer] = await client.answers_to(command)
        wire.thaw()
        end = await asyncio.wait_for(first.finished, SOON)

        assert answer.nodeuid == second.status.uid
        assert end.cause == "name_taken"
        assert (tool.calls, tool.effects) == ([1], [])
        assert first_brain.kinds == ["understanding", "answer"]  # it called no model without its lock
        assert len(await client.answers_to(command)) == 1
    finally:
        await wire.down()
        await cut_off.close()
        await reachable.close()


@pytest.mark.req("AGT-10.1", "AGT-10.6")
async def test_interrupted_command_is_carried_out_again_when_the_lock_is_back(
    services: ServiceRun, tmp_path: Path, tool: ModuleType
) -> None:
    wire = Wire(services.rabbitmq())
    nodes = Nodes(RabbitWorld(await wire.up()), tmp_path / "data")
    brain, client = NodeBrain(*[reply("", wants("hold"))] * 2), await nodes.client()
    try:
        node = await nodes.start(holding_file(), brain)
        command = await client.send(command_key(node.name, "write_article"), "write_article", TOPIC)
        await asyncio.wait_for(tool.begun.wait(), SOON)

        wire.cut()
        await asyncio.wait_for(tool.cancelled.wait(), SOON)
        tool.go_on.set()
        [answer] = await client.answers_to(command)

        assert answer.nodeuid == node.status.uid
        assert (tool.calls, tool.effects) == ([1, 1], [1])
    finally:
        await nodes.close()
        await wire.down()
