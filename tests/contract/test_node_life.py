"""The life of nodes on both buses: pauses, slots, draining, registration."""

import asyncio
from typing import Any

import pytest

from artel.bus.bus import Delivery, QueueSpec
from artel.bus.topology import any_key, command_key, command_queue, commands_of, control_key, event_key
from artel.contract.envelope import Control, Envelope, Error, ErrorInfo, Event, Result
from artel.contract.node_messages import REGISTRY, ConfigParams
from artel.errors import Kind
from artel.nodes import commands
from artel.nodes.control import ControlRefused
from artel.nodes.node import NodeExit
from artel.nodes.registration import AddressTaken
from artel.nodes.singleton import AgentAlreadyRunningError
from artel.nodes.toolbox import node_folder
from tests.node_worlds import CATS, HeldBrain, NodeBrain, Nodes, code_of, node_file, until

pytestmark = pytest.mark.anyio


async def test_paused_node_leaves_commands_in_their_queue_until_it_is_resumed(anywhere: Nodes) -> None:
    brain = HeldBrain()
    node, client = await anywhere.start(brain=brain), await anywhere.client()
    key = command_key(node.name, "write_article")
    await client.send(key, "write_article", CATS, subject="before")
    await brain.begun.wait()

    await node.pause()
    await client.send(key, "write_article", CATS, subject="meanwhile")
    brain.go_on.set()
    await client.received(1)
    assert (node.status.phase, len(brain.asked)) == ("Paused", 3)
    await node.resume()

    assert [answer.subject for answer in await client.received(2)] == ["before", "meanwhile"]


async def test_full_node_leaves_shared_commands_to_others(anywhere: Nodes) -> None:
    busy_brain, file = HeldBrain(), node_file()
    busy, client = await anywhere.start(file, busy_brain), await anywhere.client()
    await client.send(command_key(busy.name, "write_article"), "write_article", CATS, subject="long")
    await busy_brain.begun.wait()
    free = await anywhere.start(file.model_copy(update={"name": f"{file.name}b"}))

    for number in range(4):
        await client.send(any_key(file.type), "write_article", CATS, subject=str(number))
    answers = await client.received(4)
    busy_brain.go_on.set()
    await client.received(5)
    await client.send(any_key(file.type), "write_article", CATS)

    assert {answer.source for answer in answers} == {free.name}
    assert isinstance((await client.received(6))[-1].data, Result)


@pytest.mark.req("AGT-08.3")
@pytest.mark.parametrize("capability", ["write_article", None])
async def test_node_says_which_capability_it_works_on_when_a_worker_space_asks(
    nodes: Nodes, capability: str | None
) -> None:
    brain = HeldBrain()
    node, client = await nodes.start(node_file(), brain), await nodes.client()
    params = {"text": "cats, please", "capability": capability}
    required = {"capabilities": ["write_article"]}

    await client.send(command_key(node.name, "answer"), "answer", params, requirements=required)
    await brain.begun.wait()

    assert [task.action for task in node.status.tasks()] == [capability or "answer"]
    brain.go_on.set()
    await client.received(1)


async def test_number_of_tasks_at_once_is_that_of_the_file_and_can_change(nodes: Nodes) -> None:
    brain = HeldBrain()
    node, client = await nodes.start(node_file(limits={"max_concurrent_tasks": 2}), brain), await nodes.client()
    for number in range(4):
        await client.send(command_key(node.name, "write_article"), "write_article", CATS, subject=str(number))
    await until(lambda: len(node.status.tasks()) == 2)
    await client.send(any_key(node.status.file.type), "write_article", CATS)
    assert len(node.status.tasks()) == 2

    await node.configure(ConfigParams(max_concurrent_tasks=4, temperature=0.1))
    await until(lambda: len(node.status.tasks()) == 4)
    brain.go_on.set()
    await client.received(5)

    assert node.status.passport().spec.max_concurrent_tasks == 4
    await client.ask(node, "write_article", CATS)
    assert brain.asked[-1].temperature == 0.1


async def test_stop_lets_running_tasks_end_and_leaves_the_rest_in_the_queue(anywhere: Nodes) -> None:
    brain, file = HeldBrain(), node_file()
    node, client = await anywhere.start(file, brain), await anywhere.client()
    key = command_key(node.name, "write_article")
    await client.send(key, "write_article", CATS, subject="running")
    await brain.begun.wait()

    stopping = asyncio.create_task(node.stop("upgrade"))
    await until(lambda: node.status.phase == "Draining")
    await client.send(key, "write_article", CATS, subject="waiting")
    brain.go_on.set()
    await stopping

    assert [answer.subject for answer in await client.received(1)] == ["running"]
    assert await node.finished == NodeExit("stopped", "upgrade")
    await anywhere.start(file)
    assert [answer.subject for answer in await client.received(2)] == ["running", "waiting"]


async def test_task_that_outlives_the_grace_period_is_done_by_the_next_instance(anywhere: Nodes) -> None:
    brain, file = HeldBrain(), node_file()
    node, client = await anywhere.start(file, brain), await anywhere.client()
    await client.send(command_key(node.name, "write_article"), "write_article", CATS)
    await brain.begun.wait()

    await node.stop(grace_seconds=0)
    next_node = await anywhere.start(file)
    [answer] = await client.received(1)

    assert answer.nodeuid == next_node.status.uid
    assert isinstance(answer.data, Result)


async def test_long_drain_is_shortened_by_the_next_signal(nodes: Nodes) -> None:
    brain, file = HeldBrain(), node_file()
    node, client = await nodes.start(file, brain), await nodes.client()
    await client.send(command_key(node.name, "write_article"), "write_article", CATS)
    await brain.begun.wait()

    await node.shutdown("upgrade", 86_400)
    for refused in (node.pause(), node.resume()):
        with pytest.raises(ControlRefused, match="stopping"):
            await refused
    await node.shutdown("now", 0)

    assert await asyncio.wait_for(node.finished, 60) == NodeExit("shutdown", "upgrade")
    next_node = await nodes.start(file)
    assert [answer.nodeuid for answer in await client.received(1)] == [next_node.status.uid]


async def test_drained_node_finishes_its_task_however_short_the_time_at_a_signal_of_the_system_is(nodes: Nodes) -> None:
    brain = HeldBrain()
    node, client = await nodes.start(None, brain, drain_seconds=0), await nodes.client()
    await client.send(command_key(node.name, "write_article"), "write_article", CATS)
    await brain.begun.wait()

    await node.shutdown("upgrade")
    brain.go_on.set()

    [answer] = await client.received(1)
    assert (answer.nodeuid, isinstance(answer.data, Result)) == (node.status.uid, True)
    assert await asyncio.wait_for(node.finished, 60) == NodeExit("shutdown", "upgrade")


async def test_settings_that_can_not_have_an_effect_are_refused(nodes: Nodes) -> None:
    node = await nodes.start(node_file(progress_heartbeat={"enabled": False}), is_embedded=True)

    for wanted in (ConfigParams(log_level="debug", max_tokens=5), ConfigParams(progress_interval_seconds=5)):
        with pytest.raises(ControlRefused):
            await node.configure(wanted)

    assert node.status.file.brain.max_tokens == 4_000


async def test_second_instance_does_not_start_and_the_first_goes_on(nodes: Nodes) -> None:
    node, client = await nodes.start(), await nodes.client()

    with pytest.raises(AgentAlreadyRunningError):
        await nodes.start(node.status.file)

    assert isinstance((await client.ask(node, "write_article", CATS)).data, Result)


async def test_shutdown_signal_ends_the_node(nodes: Nodes) -> None:
    node, client = await nodes.start(), await nodes.client()
    signal = Control(control_type="shutdown", reason="upgrade")

    await client.bus.publish(control_key("all", "shutdown"), Envelope.of(signal, source="client"))

    assert await asyncio.wait_for(node.finished, 60) == NodeExit("shutdown", "upgrade")


class FakeRegistry:
    """The queue of a registry: what nodes send there, answered with an epoch."""

    def __init__(self, nodes: Nodes, *given_up: str) -> None:
        self._nodes = nodes
        self.given_up = list(given_up)
        self.requests: list[Any] = []
        self.events: list[Any] = []
        self.refusal: Error | None = None

    async def open(self) -> None:
        bus = self._bus = await self._nodes.world.bus()
        await bus.subscribe(QueueSpec(command_queue(REGISTRY), (commands_of(REGISTRY),)), self._answer)
        await bus.subscribe(QueueSpec("registry.events", ("evt.node.*",)), self._note)

    async def _answer(self, delivery: Delivery) -> None:
        self.requests.append(delivery.envelope.data)
        output: Any = {"epoch": 7, "given_up": self.given_up}
        answer = self.refusal or Result(output=output)
        await self._bus.reply(delivery, Envelope.of(answer, source=REGISTRY))

    async def _note(self, delivery: Delivery) -> None:
        self.events.append(delivery.envelope.data)


@pytest.mark.req("AGT-08.1")
async def test_node_registers_with_its_passport_and_answers_with_its_epoch(nodes: Nodes) -> None:
    registry = FakeRegistry(nodes)
    await registry.open()
    display = {"name": "Pushkin", "description": "Writes well.", "avatar": "quill"}
    file = node_file(registry={"heartbeat_interval_seconds": 0.1}, display=display)
    node, client = await nodes.start(file), await nodes.client()

    answer = await client.ask(node, "write_article", CATS)
    await node.stop("upgrade")
    await until(lambda: any(event.event_type == "node.deregistered" for event in registry.events))

    [request] = registry.requests
    passport = request.params["passport"]
    assert (passport["metadata"]["uid"], passport["metadata"]["name"]) == (node.status.uid, node.name)
    shown = {"displayName": "Pushkin", "description": "Writes well.", "avatar": "quill"}
    assert passport["spec"] | shown == passport["spec"]
    assert answer.nodeepoch == 7
    farewell = next(event for event in registry.events if event.event_type == "node.deregistered")
    assert farewell.event_data | {"uid": node.status.uid, "epoch": 7, "reason": "upgrade"} == farewell.event_data


@pytest.mark.req("AGT-08.1", "AGT-10.4")
async def test_node_registers_again_when_what_its_passport_says_changes(nodes: Nodes) -> None:
    registry = FakeRegistry(nodes)
    await registry.open()
    node = await nodes.start(node_file(registry={"enabled": True}))

    await node.configure(ConfigParams(temperature=0.1))  # not in the passport
    for _ in range(20):  # the bus inside the process needs no time
        await asyncio.sleep(0)
    await node.configure(ConfigParams(progress_interval_seconds=100))
    await until(lambda: len(registry.requests) == 2)

    shown = [request.params["passport"]["spec"]["progressIntervalSeconds"] for request in registry.requests]
    assert shown == [30, 100]


@pytest.mark.req("AGT-08.1")
async def test_node_ends_when_the_registry_says_that_another_one_has_its_address(nodes: Nodes) -> None:
    registry, why = FakeRegistry(nodes), "Node agent.other has the same address."
    refusal = Error(error=ErrorInfo(code="ALREADY_EXISTS", message=why, retryable=False))
    await registry.open()
    node = await nodes.start(node_file(registry={"heartbeat_interval_seconds": 0.1}))

    registry.refusal = refusal
    await node.configure(ConfigParams(max_concurrent_tasks=2))  # registers again

    assert await asyncio.wait_for(node.finished, 60) == NodeExit("address_taken", why)
    with pytest.raises(AddressTaken, match=why) as refused:
        await nodes.start(node.status.file)
    assert refused.value.kind is Kind.CONFLICT


@pytest.mark.req("AGT-07.3")
async def test_command_reaches_its_node_though_another_one_has_the_same_address(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "GIVE_BACK_SECONDS", 0.01)
    file = node_file()
    first, client = await nodes.start(file), await nodes.client()
    second = await nodes.start(file.model_copy(update={"name": file.name.replace(".", "_")}))

    async with asyncio.timeout(60):
        asked_nodes = first, first, second, second  # the bus delivers to them in turn
        answers = [await client.ask(node, "write_article", CATS, target_node=node.name) for node in asked_nodes]

    assert [answer.source for answer in answers] == [node.name for node in asked_nodes]


@pytest.mark.req("AGT-10.1")
async def test_node_forgets_a_project_that_is_deleted_also_while_it_is_away(nodes: Nodes) -> None:
    brain, file = NodeBrain(), node_file()
    node, client = await nodes.start(file, brain), await nodes.client()
    gone_tenant, kept_tenant = {"user_id": 1, "project_id": 2}, {"user_id": 1, "project_id": 3}
    for tenant in (gone_tenant, kept_tenant):
        await client.ask(node, "write_article", CATS, context=tenant, idempotency_key="k")
    files = node_folder(nodes.settings, node.name) / "files"
    for name in ("user1_project2", "user1_project3"):
        (files / name).mkdir(parents=True)
        (files / name / "notes.md").write_text("Notes.")

    await node.stop()
    event = Event(event_type="tenant.deleted", event_data=gone_tenant)
    await client.bus.publish(event_key("tenant", "deleted"), Envelope.of(event, source="artel"))
    node = await nodes.start(file, brain)
    await until(lambda: not (files / "user1_project2").exists())
    model_calls = len(brain.asked)
    for tenant in (kept_tenant, gone_tenant):
        await client.ask(node, "write_article", CATS, context=tenant, idempotency_key="k")

    assert (files / "user1_project3/notes.md").exists()
    assert len(brain.asked) == model_calls + 3, "only the command of the deleted project is carried out again"


@pytest.mark.req("AGT-08.1")
async def test_node_without_a_registry_works_and_registers_when_there_is_one(nodes: Nodes) -> None:
    file = node_file(registry={"heartbeat_interval_seconds": 0.1})
    node, client = await nodes.start(file), await nodes.client()
    before = await client.ask(node, "write_article", CATS)

    await FakeRegistry(nodes).open()
    await until(lambda: node.status.epoch == 7)

    assert (before.nodeepoch, (await client.ask(node, "write_article", CATS)).nodeepoch) == (0, 7)


@pytest.mark.req("AGT-10.4")
async def test_command_that_was_given_up_while_its_node_was_away_is_not_carried_out(nodes: Nodes) -> None:
    registry = FakeRegistry(nodes, "given-up")
    await registry.open()
    file, brain, client = node_file(registry={"heartbeat_interval_seconds": 0.1}), HeldBrain(), await nodes.client()
    node = await nodes.start(file, brain)
    key = command_key(node.name, "write_article")
    await node.stop()
    for subject in ("given-up", "wanted"):
        await client.send(key, "write_article", CATS, subject=subject)

    node = await nodes.start(file, brain)
    [first] = await client.received(1)
    await brain.begun.wait()
    registry.given_up.append("wanted")  # and the signal is lost with the connection
    node._started.registration.again_soon()
    second = (await client.received(2))[1]

    assert [(answer.subject, code_of(answer)) for answer in (first, second)] == [
        ("given-up", "CANCELLED"),
        ("wanted", "CANCELLED"),
    ]
    assert brain.kinds == ["understanding"]
