"""Nodes that are killed at every point of a task, and a broker that is killed: one answer for each command."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any, get_args

import pytest

from artel import kill_points
from artel.bus.rabbit import RabbitBus
from artel.bus.topology import command_key
from artel.contract.envelope import Command, Envelope, Result
from tests.buses import Wire
from tests.depth import IS_DEEP, by_depth
from tests.faults.kill_points import arm
from tests.model_server import ModelRequest, ModelServer, Say, Tool
from tests.node_process import NodeProcess, agent_yaml
from tests.node_worlds import Client, HeldBrain, Nodes, RabbitWorld, node_file
from tests.services import ServiceRun
from tests.services.launch import Launch, free_ports
from tests.services.process import end, until
from tests.services.rabbitmq import prepare_rabbitmq

pytestmark = pytest.mark.anyio

SOON = 120.0  # timeout that only a broken test reaches
BACK_SECONDS = 30.0  # after which every node works again

MORTAL = "tests.faults.mortal_node"
POINTS: tuple[str, ...] = get_args(kill_points.NodeMomentName)
CALLS_OF_A_TASK = 5  # understanding, steps, a tool call, the answer, its critique


class Worker:
    """A model that reads a file before it answers."""

    def __init__(self, file: Path) -> None:
        self._tool = Tool("file_read", json.dumps({"path": str(file)}))

    async def __call__(self, request: ModelRequest, http: Any) -> Any:
        has_read = any(message["role"] == "tool" for message in request.body["messages"])
        says = Say() if request.schema_name else Say(f"Done: {request.text}") if has_read else Say(tools=[self._tool])
        return await says(request, http)


class MortalAgent:
    """One agent whose process is replaced whenever it was killed, its model, and a client."""

    def __init__(self, folder: Path, url: str, client: Client) -> None:
        self.folder = folder
        self.armed = folder / "armed"
        self.record = folder / "record"  # of the points that were passed
        self.client = client
        self.model = ModelServer()
        self._url = url
        notes = folder / "notes.txt"
        notes.write_text("tea is good")
        self.model.default = Worker(notes)
        capability = {"name": "write", "prompt_template": "{text}"}
        self._file = agent_yaml(
            folder,
            capabilities=[capability],
            agent_loop={"enable_planning": True},
            tools={"enabled": ["file_read"], "security": {"file_read": {"allowed_paths": [f"{folder}/*.txt"]}}},
        )

    def start(self) -> NodeProcess:
        """Start the next process; nothing kills it unless a point is armed."""
        self.armed.unlink(missing_ok=True)
        variables = {"OPENAI_BASE_URL": self.model.url, "OPENAI_API_KEY": "none"}
        variables |= {"MORTAL_FILE": str(self.armed), "MORTAL_RECORD": str(self.record)}
        return NodeProcess.start(self.folder, self._url, [str(self._file)], module=MORTAL, variables=variables)

    async def send(self, node: NodeProcess, text: str) -> Envelope:
        key = f"cmd.{node.names[0].replace('.', '_')}.write"
        return await self.client.send(key, "write", {"text": text}, timeout_seconds=300)


async def test_every_point_is_reached_by_a_task_with_a_tool_call(services: ServiceRun, tmp_path: Path) -> None:
    bus = await RabbitBus.connect(services.rabbitmq(), name="tests")
    client = Client(bus)
    await client.open()
    agent = MortalAgent(tmp_path, services.rabbitmq(), client)
    with agent.model.running_in_thread():
        node = await asyncio.to_thread(agent.start)
        await client.answers_to(await agent.send(node, "one task."))
        assert await asyncio.to_thread(node.stop) == 0
    await bus.close()

    assert agent.record.read_text().split() == list(POINTS)  # each for the first time in this order


@pytest.mark.req("AGT-10.1", "AGT-10.6")
@pytest.mark.timeout(1800)
async def test_node_killed_at_any_point_gives_one_answer(services: ServiceRun, tmp_path: Path) -> None:
    points = (POINTS * 9)[:100] if IS_DEEP else ("node.execute", "node.stored", "node.replied")
    bus = await RabbitBus.connect(services.rabbitmq(), name="tests")
    client = Client(bus)
    await client.open()
    agent, commands = MortalAgent(tmp_path, services.rabbitmq(), client), {}
    with agent.model.running_in_thread():
        node = await asyncio.to_thread(agent.start)
        for number, point in enumerate(points):
            arm(agent.armed, point, 1)
            command = await agent.send(node, f"task {number}.")
            commands[point, number] = command
            assert await asyncio.to_thread(node.wait) == -signal.SIGKILL, point
            node = await asyncio.to_thread(agent.start)
            await client.answers_to(command)
        await client.answers_to(await agent.send(node, "the last one."))  # every delivery before it is settled
        assert await asyncio.to_thread(node.stop) == 0

    for (point, number), command in commands.items():
        received = await client.answers_to(command)
        assert {answer.id for answer in received} == {received[0].id}, point
        assert isinstance(received[0].data, Result), point
        assert received[0].data.output == {"text": f"Done: task {number}."}
        if point in ("node.stored", "node.replied"):
            assert len(agent.model.asked_about(f"task {number}.")) == CALLS_OF_A_TASK, point
    assert len(commands) == by_depth(3, 100)
    await bus.close()


class KilledBroker:
    """A broker of its own that is killed and started again."""

    def __init__(self, folder: Path, services: ServiceRun) -> None:
        self._launch = Launch("rabbitmq", folder, services.programs, free_ports, lambda _processes: None)

    async def start(self) -> str:
        self._server = await asyncio.to_thread(prepare_rabbitmq, self._launch)
        await asyncio.to_thread(self._server.run, self._launch)
        return self._server.url

    async def strike(self) -> None:
        killed = self._launch.processes.pop()
        killed.send(signal.SIGKILL)
        await asyncio.to_thread(until, lambda: not killed.alive(), SOON)
        await asyncio.to_thread(self._server.run, self._launch)

    async def close(self) -> None:
        await asyncio.to_thread(end, self._launch.processes)


class CutLine:
    """All connections to the broker are cut at once; new ones succeed."""

    def __init__(self, services: ServiceRun) -> None:
        self._wire = Wire(services.rabbitmq())

    async def start(self) -> str:
        return await self._wire.up()

    async def strike(self) -> None:
        self._wire.cut()

    async def close(self) -> None:
        await self._wire.down()


@pytest.mark.req("AGT-10.1", "AGT-10.6")
@pytest.mark.parametrize("kind", ["cut", *(["killed"] if IS_DEEP else [])])
async def test_outage_during_work_loses_nothing_and_does_nothing_twice(
    services: ServiceRun, tmp_path: Path, kind: str
) -> None:
    broker: KilledBroker | CutLine = CutLine(services)
    if kind == "killed":
        (tmp_path / "broker").mkdir()
        broker = KilledBroker(tmp_path / "broker", services)
    world, brain = RabbitWorld(await broker.start()), HeldBrain()
    nodes = Nodes(world, tmp_path / "data")
    try:
        node, idle = await nodes.start(node_file(), brain), await nodes.start(node_file())
        bus = await world.bus()

        async def ask(number: int, name: str = node.name) -> Envelope:
            command = Envelope.of(Command(action="write_article", params={"topic": f"tea {number}"}), source="client")
            return await bus.request(command_key(name, "write_article"), command, timeout_seconds=SOON)

        asking = [asyncio.create_task(ask(number)) for number in range(3)]
        await asyncio.wait_for(brain.begun.wait(), SOON)

        await broker.strike()
        struck = time.monotonic()
        brain.go_on.set()
        answers = [*await asyncio.gather(*asking), await ask(3)]
        of_idle = await ask(4, idle.name)

        assert time.monotonic() - struck < BACK_SECONDS
        assert (isinstance(of_idle.data, Result), of_idle.nodeuid) == (True, idle.status.uid)

        assert all(isinstance(answer.data, Result) for answer in answers)
        assert len({answer.subject for answer in answers}) == 4
        assert len(brain.asked) == 4 * 3  # each command once: understanding, answer, critique
        assert {answer.nodeuid for answer in answers} == {node.status.uid}
    finally:
        await nodes.close()
        await broker.close()
