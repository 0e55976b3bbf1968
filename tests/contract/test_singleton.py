"""One instance per agent: the lock of a node, its log lines, and what happens after a network cut."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from artel.bus.bus import Bus, BusClosed, Delivery, LockState, NameTaken, QueueSpec
from artel.bus.rabbit import RabbitBus
from artel.bus.topology import command_key, command_queue, commands_of
from artel.cli.command_line import OF_KIND
from artel.contract.agent_file import AgentFile
from artel.nodes.node import AgentNode
from artel.nodes.singleton import AgentAlreadyRunningError, SingletonLock
from tests.buses import SOON, LocalWorld, Wire, World, command
from tests.node_worlds import HeldBrain, NodeBrain, Nodes, node_file, until
from tests.node_worlds import RabbitWorld as NodesOnRabbit
from tests.nodes import agent_file, conflict_lines
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio


@pytest.mark.req("AGT-10.5", "AGT-10.6", "AGT-10.8")
async def test_second_instance_is_refused_with_the_lines_that_operators_search_for(world: World) -> None:
    file = agent_file()
    first, second = SingletonLock(file, await world.bus()), SingletonLock(file, await world.bus())

    with capture_logs() as lines:
        await first.acquire()
        with pytest.raises(AgentAlreadyRunningError) as refused:
            await second.acquire()
        await first.release()
        await second.acquire()

    assert first.is_held is False
    assert second.is_held is True
    assert [(line["log_level"], line["event"]) for line in lines if line["event"].startswith("[")] == [
        ("info", f"[{file.name}] Singleton lock acquired (queue: singleton.{file.name})"),
        *(("error", line) for line in conflict_lines(file.name)),
        ("info", f"[{file.name}] Singleton lock released (graceful shutdown)"),
        ("info", f"[{file.name}] Singleton lock acquired (queue: singleton.{file.name})"),
    ]
    assert refused.value.detail == (
        f"Agent '{file.name}' is already running. Stop the existing instance before starting a new one."
    )
    assert OF_KIND[refused.value.kind] == 5


@pytest.mark.req("AGT-10.5")
async def test_queue_prefix_and_switch_of_the_file_are_followed(world: World) -> None:
    bus, other = await world.bus(), await world.bus()
    file = agent_file(singleton={"queue_prefix": "only"})
    await SingletonLock(file, bus).acquire()
    with pytest.raises(NameTaken):
        await other.lock(f"only.{file.name}")

    without = agent_file(singleton={"enabled": False})
    locks = [SingletonLock(without, each) for each in (bus, other)]
    for lock in locks:
        await lock.acquire()
        assert lock.is_held
        await lock.wait_until_held()
    assert (await other.lock(f"singleton.{without.name}")).is_held


async def test_waiting_for_a_released_lock_ends() -> None:
    world = LocalWorld()
    lock = SingletonLock(agent_file(), await world.bus())
    await lock.acquire()
    await lock.wait_until_held()
    await lock.release()

    with pytest.raises(BusClosed):
        await lock.wait_until_held()
    await world.buses[0].close()


class Instance:
    """One of two instances of an agent: it acts on a command only while it holds the lock."""

    def __init__(self, file: AgentFile, bus: Bus) -> None:
        self.lock = SingletonLock(file, bus)
        self.other: Instance | None = None
        self.acts = 0
        self.acted = asyncio.Event()
        self.lost = asyncio.Event()
        self.conflict = asyncio.Event()
        self.lock.on_change = self._changed
        self._file = file
        self._bus = bus

    async def start(self) -> None:
        """Take the lock and then commands."""
        await self.lock.acquire()
        name = self._file.name
        await self._bus.subscribe(QueueSpec(command_queue(name), (commands_of(name),)), self._act)

    def _changed(self, state: LockState) -> None:
        if state is LockState.LOST:
            self.lost.set()
        elif state is LockState.CONFLICT:
            self.conflict.set()

    async def _act(self, _delivery: Delivery) -> None:
        await self.lock.wait_until_held()
        assert self.other
        assert not self.other.lock.is_held
        self.acts += 1
        self.acted.set()


@pytest.mark.req("AGT-10.5", "AGT-10.6")
async def test_after_a_network_cut_never_two_instances_act(services: ServiceRun) -> None:
    file, wire = agent_file(), Wire(services.rabbitmq())
    cut_off = await RabbitBus.connect(f"{await wire.up()}?heartbeat=1", name="tests")
    reachable = await RabbitBus.connect(services.rabbitmq(), name="tests")
    first, second = Instance(file, cut_off), Instance(file, reachable)
    first.other, second.other = second, first
    held_by_both = 0

    async def watch() -> None:
        nonlocal held_by_both
        while True:
            held_by_both += first.lock.is_held and second.lock.is_held
            await reachable.publish(command_key(file.name, "write"), command())
            await asyncio.sleep(0.05)

    async def take_over() -> None:
        while True:
            try:
                return await second.start()
            except AgentAlreadyRunningError:
                await asyncio.sleep(0.05)

    await first.start()
    watching = asyncio.create_task(watch())
    with capture_logs() as lines:
        async with asyncio.timeout(SOON):
            await first.acted.wait()
            wire.freeze()  # nothing passes, and nobody notices yet
            await take_over()  # when the broker has dropped the silent connection
            assert not first.lock.is_held
            await first.lost.wait()
            acts = first.acts
            await second.acted.wait()
            wire.thaw()
            await first.conflict.wait()
            with pytest.raises(AgentAlreadyRunningError):
                await first.lock.wait_until_held()

    assert second.lock.is_held
    assert first.acts == acts
    assert held_by_both == 0
    assert [line["event"] for line in lines if line["log_level"] == "error"][-4:] == conflict_lines(file.name)
    watching.cancel()
    await asyncio.wait([watching])
    for bus in (cut_off, reachable):
        await bus.close(grace_seconds=0)
    await wire.down()


@pytest.mark.req("AGT-10.5")
async def test_frozen_instance_holds_nothing_when_it_wakes_up(services: ServiceRun) -> None:
    bus = await RabbitBus.connect(f"{services.rabbitmq()}?heartbeat=1", name="tests")
    lock = SingletonLock(agent_file(), bus)
    await lock.acquire()
    assert lock.is_held

    threading.Event().wait(1.1)  # the event loop stands still, as after SIGSTOP or in a long C call
    assert not lock.is_held  # the broker may have given it to somebody else

    await asyncio.wait_for(lock.wait_until_held(), SOON)
    assert lock.is_held
    await bus.close(grace_seconds=0)


@pytest.mark.req("AGT-10.5", "AGT-10.6")
async def test_node_that_was_cut_off_ends_without_doing_what_another_instance_did(
    services: ServiceRun, tmp_path: Path
) -> None:
    file, wire = node_file(), Wire(services.rabbitmq())
    cut_off = Nodes(NodesOnRabbit(f"{await wire.up()}?heartbeat=2"), tmp_path / "data")
    reachable = Nodes(NodesOnRabbit(services.rabbitmq()), tmp_path / "data")
    held, client, key = HeldBrain(), await reachable.client(), command_key(file.name, "write_article")
    try:
        first = await cut_off.start(file, held)
        begun = await client.send(key, "write_article", {"topic": "cats"})
        await held.begun.wait()

        wire.freeze()
        waiting = await client.send(key, "write_article", {"topic": "dogs"})
        second = await _start_when_possible(reachable, file, NodeBrain())
        answer, *_ = await client.answers_to(begun)
        await client.answers_to(waiting)
        await until(lambda: not first.status.status().is_ready)  # so that nobody sends it tasks
        held.go_on.set()  # the task ends without the lock
        wire.thaw()
        with capture_logs() as lines:
            async with asyncio.timeout(SOON):
                while not first.finished.done():  # it reaches the broker again, and finds its name taken
                    await client.ask(second, "write_article", {"topic": "birds"})
                    await asyncio.wait([first.finished], timeout=0.2)
        count = len(await client.answers_to(begun))
        await client.send(key, "write_article", {"topic": "cats"}, message_id=begun.id)
        await until(lambda: len([each for each in client.answers if each.subject == begun.id]) > count)

        assert first.finished.result().cause == "name_taken"
        assert held.kinds == ["understanding", "answer"]  # and no critique: it called no model without the lock
        assert {each.nodeuid for each in client.answers} == {second.status.uid}
        assert {each.id for each in await client.answers_to(begun)} == {answer.id}
        assert len({each.id for each in await client.answers_to(waiting)}) == 1
        given_back = [line for line in lines if line["event"] in ("handler_failed", "message_requeued")]
        assert {line["message_id"] for line in given_back} <= {begun.id}  # it took no commands without its lock
    finally:
        await wire.down()
        await cut_off.close()
        await reachable.close()


async def _start_when_possible(nodes: Nodes, file: AgentFile, brain: NodeBrain) -> AgentNode:
    async with asyncio.timeout(SOON):
        while True:
            with suppress(AgentAlreadyRunningError):
                return await nodes.start(file, brain)
