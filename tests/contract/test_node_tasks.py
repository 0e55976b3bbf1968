"""What an agent's file says about its tasks holds in a node: model, phases, limits, state, and what others hear."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artel.brain.brain import Completion, Request
from artel.bus.bus import Delivery, QueueSpec
from artel.bus.topology import command_key, control_key
from artel.contract.envelope import Control, Envelope, Error, Event, Result
from tests.agents import ScriptedBrain, reply, sent_back, wants
from tests.buses import Wire
from tests.node_worlds import (
    ARTICLE,
    CATS,
    Client,
    HeldBrain,
    LocalWorld,
    NodeBrain,
    Nodes,
    RabbitWorld,
    code_of,
    node_file,
    output_of,
    until,
)
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio

READ = {"name": "tool_read_file", "description": "Reads.", "parameters": {"type": "object"}}
FILE_READ = {"enabled": ["file_read"], "security": {"file_read": {"allowed_paths": ["**"]}}}


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(LocalWorld(), tmp_path / "data")
    yield nodes
    await nodes.close()


@pytest.fixture(params=["local", "rabbit"])
async def anywhere(request: pytest.FixtureRequest, services: ServiceRun, tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(LocalWorld() if request.param == "local" else RabbitWorld(services.rabbitmq()), tmp_path / "data")
    yield nodes
    await nodes.close()


@pytest.mark.req("AGT-01.1", "AGT-01.2", "AGT-01.4", "AGT-03.2")
@pytest.mark.parametrize(("enabled", "fallback"), [(True, "ollama/llama3"), (False, None)])
async def test_model_is_asked_as_the_file_says(nodes: Nodes, enabled: bool, fallback: str | None) -> None:
    section = {
        "provider": "azure",
        "model": "gpt-4o",
        "temperature": 0.25,
        "max_tokens": 321,
        "system_prompt": "You are brief.",
        "fallback": {"enabled": enabled, "provider": "ollama", "model": "llama3"},
    }
    brain = NodeBrain()
    node, client = await nodes.start(node_file(brain=section), brain), await nodes.client()

    await client.ask(node, "write_article", CATS)

    told = [(each.model, each.temperature, each.max_tokens, each.fallback_model) for each in brain.asked]
    assert told == [("azure/gpt-4o", 0.25, 321, fallback)] * 3
    assert {each.max_context_tokens for each in brain.asked} == {8_000}
    assert {(each.messages[0].role, each.messages[0].content) for each in brain.asked} == {("system", "You are brief.")}


@pytest.mark.req("AGT-02.9", "AGT-05.4", "AGT-07.4")
@pytest.mark.parametrize(
    ("loop", "settings", "limit"),
    [({}, {}, 10), ({"max_tool_calls": 3}, {}, 3), ({"max_tool_calls": 50}, {"max_tool_calls_per_task": 15}, 15)],
    ids=["default", "of the file", "of the operator"],
)
async def test_tool_calls_of_a_task_are_limited_and_counted(
    nodes: Nodes, loop: dict[str, Any], settings: dict[str, Any], limit: int
) -> None:
    calls = [wants("file_read", f"call_{number}", path=f"{number}.txt") for number in range(30)]
    brain = NodeBrain(reply("", *calls))
    node, client = (
        await nodes.start(node_file(agent_loop=loop, tools=FILE_READ), brain, **settings),
        await nodes.client(),
    )

    answer = await client.ask(node, "write_article", CATS)

    assert isinstance(answer.data, Result)
    assert (answer.data.metrics.tool_calls, answer.data.metrics.llm_calls) == (limit, 4)


@pytest.mark.req("AGT-05.3", "AGT-05.5", "AGT-05.6")
async def test_understand_and_critique_are_on_unless_the_file_says_otherwise(nodes: Nodes) -> None:
    brains = [ScriptedBrain(*[reply("Draft.")] * 9, critiques=[sent_back("No.")] * 9) for _ in range(3)]
    client = await nodes.client()
    loops: list[dict[str, Any]] = [
        {},
        {"enable_self_critique": False},
        {"enable_understanding": False, "max_iterations": 1},
    ]

    for brain, loop in zip(brains, loops, strict=True):
        await client.ask(await nodes.start(node_file(agent_loop=loop), brain), "write_article", CATS)

    assert [brain.kinds for brain in brains] == [
        ["understanding", *["answer", "critique"] * 5, "answer"],
        ["understanding", "answer"],
        ["answer", "critique", "answer"],
    ]


@pytest.mark.req("AGT-05.6")
async def test_state_of_a_task_that_waits_has_all_that_the_loop_knows(nodes: Nodes) -> None:
    file = node_file(tools=FILE_READ, agent_loop={"enable_planning": True})
    brain = NodeBrain(reply("", wants("file_read", path="a.txt")), reply("", wants("tool_read_file", path="b.txt")))
    node, client = await nodes.start(file, brain), await nodes.client()
    params = {"text": "cats", "capability": "write_article", "tools": [READ]}
    began = time.time()

    answer = await client.ask(node, "answer", params, context={"process_id": "turn-1"})

    state = json.loads(output_of(answer)["state"])["state"]
    assert (state["action"], state["context"]) == ("write_article", {"process_id": "turn-1"})
    assert state["params"] == {"topic": "cats", "style": "formal", "length": 1000}
    assert (state["phase"], state["understanding"]) == ("tool_call", "They want an answer.")
    assert (state["plan"], state["llm_calls"]) == (["Think.", "Answer."], 4)
    assert [(each["tool"], each["success"]) for each in state["tool_results"]] == [("file_read", False)]
    assert began <= state["start_time"] <= time.time()


class SlowBrain(NodeBrain):
    """Takes a moment for each answer."""

    async def complete(self, request: Request, stream: Any = None) -> Completion:
        await asyncio.sleep(0.01)
        return await super().complete(request, stream)


@pytest.mark.req("AGT-07.4")
async def test_result_says_how_long_the_task_took(nodes: Nodes) -> None:
    node, client = await nodes.start(brain=SlowBrain()), await nodes.client()
    await client.ask(node, "write_article", CATS)  # the first one imports LangGraph
    began = time.monotonic()

    answer = await client.ask(node, "write_article", CATS)

    assert isinstance(answer.data, Result)
    assert 30 <= answer.data.execution_time_ms <= 1 + 1000 * (time.monotonic() - began)


@pytest.mark.req("AGT-01.3")
async def test_call_of_the_model_that_is_cut_off_is_counted(nodes: Nodes) -> None:
    brain = HeldBrain()
    node, client = await nodes.start(brain=brain), await nodes.client()
    await client.send(command_key(node.name, "write_article"), "write_article", CATS, subject="task-1")
    await brain.begun.wait()

    stop = Control(control_type="stop", parameters={"task_id": "task-1"})
    await client.bus.publish(control_key(node.name, "stop"), Envelope.of(stop, source="client"))
    [answer] = await client.received(1)

    assert code_of(answer) == "CANCELLED"
    assert isinstance(answer.data, Error)
    spent = answer.data.metrics  # for the understanding: one call, 10 tokens, 0.01 dollars
    assert spent.llm_calls == 2
    assert spent.input_tokens > 10
    assert spent.cost_usd is not None
    assert spent.cost_usd > 0.01


class Heard:
    """The events of one node that others hear."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.envelopes: list[Envelope] = []

    async def listen(self, client: Client) -> "Heard":
        """Hear what is sent from now on."""
        spec = QueueSpec(f"heard.{self._node}", ("evt.node.*", "evt.task.*"), exclusive=True, durable=False)
        await client.bus.subscribe(spec, self._note)
        return self

    async def _note(self, delivery: Delivery) -> None:
        if delivery.envelope.source == self._node:
            self.envelopes.append(delivery.envelope)

    def data(self, event_type: str) -> list[dict[str, Any]]:
        """Return the data of all events of a type."""
        events = [each.data for each in self.envelopes if isinstance(each.data, Event)]
        return [event.event_data for event in events if event.event_type == event_type]


@pytest.mark.req("AGT-08.2", "AGT-10.2", "AGT-10.3")
async def test_node_sends_heartbeats_and_the_progress_of_its_task_with_its_phase(anywhere: Nodes) -> None:
    file = node_file(registry={"heartbeat_interval_seconds": 0.1}, progress_heartbeat={"interval_seconds": 0.1})
    client, brain = await anywhere.client(), HeldBrain()
    heard = await Heard(file.name).listen(client)

    node = await anywhere.start(file, brain)
    await until(lambda: len(heard.data("node.heartbeat")) >= 2)
    assert heard.data("task.progress") == []
    await client.send(command_key(node.name, "write_article"), "write_article", CATS, subject="task-1")
    await brain.begun.wait()
    await until(lambda: [each["phase"] for each in heard.data("task.progress")].count("execute") >= 2)
    brain.go_on.set()
    [answer] = await client.received(1)
    beats = len(heard.data("node.heartbeat"))
    await until(lambda: len(heard.data("node.heartbeat")) >= beats + 4)
    await node.stop()
    await until(lambda: bool(heard.data("node.deregistered")))

    *_, last = heard.data("task.progress")
    assert (last["task_id"], last["state"], last["node"]) == ("task-1", "working", node.name)
    assert isinstance(answer.data, Result)
    assert 0 < last["elapsed_seconds"] <= answer.data.execution_time_ms / 1000 + 0.001  # it stops with the task
    assert {each.nodeuid for each in heard.envelopes} == {node.status.uid}


@pytest.mark.req("AGT-10.2")
async def test_work_heartbeat_and_progress_have_connections_of_their_own(services: ServiceRun, tmp_path: Path) -> None:
    wire = Wire(services.rabbitmq())
    nodes, brain = Nodes(RabbitWorld(await wire.up()), tmp_path), HeldBrain()
    file = node_file(registry={"heartbeat_interval_seconds": 0.1}, progress_heartbeat={"interval_seconds": 0.1})
    client = await nodes.client()
    heard = await Heard(file.name).listen(client)
    of_a_bus = len(wire.clients)

    node = await nodes.start(file, brain)
    await client.send(command_key(node.name, "write_article"), "write_article", CATS)
    await until(lambda: bool(heard.data("node.heartbeat") and heard.data("task.progress")))
    connections = len(wire.clients)
    brain.go_on.set()
    await nodes.close()
    await wire.down()

    assert connections == 2 * of_a_bus + 2


@pytest.mark.req("AGT-04.4", "AGT-08.1", "AGT-10.7")
async def test_passport_says_what_the_agent_can_do_and_which_limits_it_has(nodes: Nodes) -> None:
    output = {"type": "object", "properties": {"title": {"type": "string"}}}
    capability = {
        "name": "write_article",
        "version": "2.1",
        "description": "Writes.",
        "parameters": {"languages": ["en"]},
    }
    schemas = {"input_schema": ARTICLE, "output_schema": output}
    file = node_file(
        capabilities=[capability | schemas], limits={"max_memory_mb": 4096, "max_cpu_percent": 300}, registry={}
    )
    heard = await Heard(file.name).listen(await nodes.client())

    node = await nodes.start(file)
    await until(lambda: bool(heard.data("node.heartbeat")))

    passport = heard.data("node.heartbeat")[0]["passport"]
    assert (
        passport["metadata"] | {"uid": node.status.uid, "name": file.name, "nodeType": file.type}
        == passport["metadata"]
    )
    assert passport["spec"]["capabilities"] == [capability | {"inputSchema": ARTICLE, "outputSchema": output}]
    declared = {
        "max_memory_mb": 4096,
        "max_cpu_percent": 300,
        "max_execution_time_seconds": 300,
        "max_concurrent_tasks": 1,
    }
    assert passport["spec"]["resources"]["limits"] == declared | {"max_retries": 3}
    assert (passport["status"]["phase"], passport["status"]["currentTasks"]) == ("Running", [])


@pytest.mark.req("AGT-08.2", "AGT-10.3")
async def test_intervals_are_ten_and_thirty_seconds_by_default() -> None:
    file = node_file(registry={})

    assert (file.registry.heartbeat_interval_seconds, file.progress_heartbeat.interval_seconds) == (10, 30)
