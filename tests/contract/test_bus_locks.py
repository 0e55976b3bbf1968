"""The contract of `Bus.lock`, for the local bus and for RabbitMQ."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import aio_pika
import pytest
from aiormq.exceptions import ChannelLockedResource

from artel.bus.bus import BusClosed, BusUnavailable, InvalidKey, LockState, NameTaken
from artel.bus.rabbit import RabbitBus
from artel.bus.rabbit_lock import FRESH_SECONDS
from artel.errors import ConfigurationInvalid
from artel.retry import Backoff, retry
from tests.buses import SOON, Wire, World, assert_no_new_tasks, running
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio


class States:
    """A callback that records the states of a lock."""

    def __init__(self) -> None:
        self.seen: list[LockState] = []
        self._came = asyncio.Event()

    def __call__(self, state: LockState) -> None:
        self.seen.append(state)
        self._came.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true after a change."""
        async with asyncio.timeout(SOON):
            while not condition():
                self._came.clear()
                await self._came.wait()


@pytest.fixture
def name() -> str:
    """A unique name, because tests share the broker."""
    return f"singleton.agent.t{uuid4().hex[:12]}.001"


@pytest.fixture
async def cuttable(wire: Wire) -> AsyncIterator[RabbitBus]:
    """A bus whose connections can be cut; the broker drops a silent one after one to two seconds."""
    before = running()
    bus = await RabbitBus.connect(f"{await wire.up()}?heartbeat=1", name="tests")
    yield bus
    await bus.close(grace_seconds=0)
    await wire.down()
    await assert_no_new_tasks(before)


@pytest.mark.req("AGT-10.5", "AGT-10.6")
async def test_name_has_one_holder_and_is_free_again_at_once(world: World, name: str) -> None:
    first, second, states = await world.bus(), await world.bus(), States()
    lock = await first.lock(name, states)
    assert lock.is_held

    for other in (second, first):
        with pytest.raises(NameTaken, match=name):
            await other.lock(name)
    another = await second.lock(f"{name}.2")
    await lock.release()
    assert not lock.is_held
    assert states.seen == [LockState.RELEASED]

    taken_over = await second.lock(name)
    with pytest.raises(NameTaken):
        await first.lock(name)
    await second.close()  # frees what it holds
    assert not taken_over.is_held
    assert not another.is_held
    assert (await first.lock(name)).is_held
    assert (await first.lock(f"{name}.2")).is_held


async def test_bus_that_was_refused_a_lock_leaves_the_holder_alone_and_can_lock_later(world: World, name: str) -> None:
    first, second, states = await world.bus(), await world.bus(), States()
    lock = await first.lock(name, states)

    for _ in range(3):
        with pytest.raises(NameTaken):
            await second.lock(name)

    assert lock.is_held
    assert states.seen == []
    await lock.release()
    assert (await second.lock(name)).is_held


async def test_impossible_names_and_closed_buses_are_errors(world: World, name: str) -> None:
    bus = await world.bus()

    for bad in ("", "amq.singleton", "two words", "x" * 256):
        with pytest.raises(InvalidKey):
            await bus.lock(bad)
    await bus.close()
    with pytest.raises(BusClosed):
        await bus.lock(name)


@pytest.mark.req("AGT-10.5")
async def test_lock_is_an_exclusive_queue_of_exactly_this_name(services: ServiceRun, name: str) -> None:
    bus = await RabbitBus.connect(services.rabbitmq(), name="tests")
    await bus.lock(name)

    async with await aio_pika.connect(services.rabbitmq()) as connection:
        async with connection.channel() as channel:
            with pytest.raises(ChannelLockedResource):
                await channel.declare_queue(name, exclusive=True, auto_delete=True)
        await bus.close()
        async with connection.channel() as channel:  # the other way round: anybody's exclusive queue is a lock
            await channel.declare_queue(name, exclusive=True, auto_delete=True)
            bus = await RabbitBus.connect(services.rabbitmq(), name="tests")
            with pytest.raises(NameTaken):
                await bus.lock(name)
    assert (await bus.lock(name)).is_held
    await bus.close()


@pytest.mark.req("AGT-10.6")
async def test_lost_lock_is_held_again_as_soon_as_the_connection_is_back(
    cuttable: RabbitBus, wire: Wire, name: str
) -> None:
    states = States()
    lock = await cuttable.lock(name, states)

    for times in (1, 2):
        wire.cut()
        await states.until(lambda: states.seen[-1:] == [LockState.LOST])
        assert not lock.is_held
        await states.until(lambda times=times: states.seen == [LockState.LOST, LockState.HELD] * times)  # type: ignore[misc]
        assert lock.is_held
    await lock.release()
    assert not lock.is_held


@pytest.mark.req("AGT-10.6")
async def test_lock_waits_for_the_broker_to_drop_its_own_lost_connection(
    cuttable: RabbitBus, wire: Wire, name: str
) -> None:
    states = States()
    lock = await cuttable.lock(name, states)

    wire.freeze(new_too=False)
    wire.cut_clients()  # the broker still counts the connection as alive, and the lock as taken
    await states.until(lambda: states.seen == [LockState.LOST])
    await states.until(lambda: len(states.seen) > 1)

    assert states.seen == [LockState.LOST, LockState.HELD]
    assert lock.is_held


@pytest.mark.req("AGT-10.5", "AGT-10.6")
async def test_connection_that_only_the_broker_has_closed_confirms_nothing(
    services: ServiceRun, wire: Wire, name: str
) -> None:
    first = await RabbitBus.connect(f"{await wire.up()}?heartbeat=3", name="tests")
    second = await RabbitBus.connect(services.rabbitmq(), name="tests")
    lock = await first.lock(name)
    assert await lock.is_confirmed()

    wire.freeze()
    wire.cut_broker()  # as after `rabbitmqctl close_connection`, whose message is lost
    await retry(lambda: second.lock(name), NameTaken, Backoff(0.01, 0.01), lambda _: None)
    taken = asked_at = time.monotonic()
    while await lock.is_confirmed():
        assert asked_at < taken + FRESH_SECONDS
        await asyncio.sleep(0.01)
        asked_at = time.monotonic()

    for bus in (first, second):
        await bus.close(grace_seconds=0)


@pytest.mark.req("AGT-10.5")
async def test_unreachable_broker_is_no_conflict(wire: Wire, name: str) -> None:
    bus = await RabbitBus.connect(await wire.up(), name="tests", deadline_seconds=5)
    await wire.down()

    with pytest.raises(BusUnavailable):
        await bus.lock(name)
    await bus.close(grace_seconds=0)


async def test_heartbeat_in_the_url_must_be_a_number() -> None:
    with pytest.raises(ConfigurationInvalid, match="heartbeat"):
        await RabbitBus.connect("amqp://127.0.0.1:1/?heartbeat=often")


@pytest.mark.parametrize("address", ["h:99999", "h:x", "h\uff0fx"])
async def test_url_that_can_not_be_read_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="percent-encoded") as refused:
        await RabbitBus.connect(f"amqp://user:hunter2@{address}")

    assert "hunter2" not in refused.value.detail
