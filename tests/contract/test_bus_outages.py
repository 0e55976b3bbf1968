"""What the bus on RabbitMQ does when its broker or a connection is lost."""

import asyncio

import aio_pika
import pytest
from structlog.testing import capture_logs
from yarl import URL

from artel.bus.bus import BusUnavailable, Delivery, Hint, QueueSpec
from artel.bus.rabbit import RabbitBus
from artel.contract.envelope import Result
from tests.buses import SOON, Hints, Inbox, Wire, assert_no_new_tasks, command, eventually, result, running
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio


async def test_subscriptions_are_restored_after_a_lost_connection(rabbit: RabbitBus, wire: Wire, name: str) -> None:
    inbox, control, here = Inbox(), Inbox(), Hints(rabbit)
    await rabbit.subscribe(QueueSpec(f"{name}.cmd", (f"cmd.{name}.*",), exclusive=True), inbox)
    await rabbit.subscribe(QueueSpec(f"{name}.ctl", (f"ctl.{name}.*",), exclusive=True, durable=False), control)
    await rabbit.publish(f"cmd.{name}.write", command("before"))
    await inbox.holds(1)

    for number in range(3):
        wire.cut()
        assert await rabbit.publish(f"cmd.{name}.write", command(f"after {number}"))
        await inbox.until(lambda inbox, number=number: f"after {number}" in inbox.actions)  # type: ignore[misc]

    await eventually(
        lambda: rabbit.publish(f"ctl.{name}.stop", command("stop"))
    )  # its queue was deleted with the connection
    assert await control.holds(1) == ["stop"]
    rabbit.send_hint(Hint("session", name))
    await here.until(Hint("session", name))


async def test_message_in_progress_during_a_lost_connection_is_redelivered(
    rabbit: RabbitBus, wire: Wire, name: str
) -> None:
    inbox = Inbox(held=True)
    await rabbit.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), inbox)
    await rabbit.publish(f"cmd.{name}.write", command("twice"))
    await inbox.holds(1)

    wire.cut()
    await rabbit.publish(f"cmd.{name}.write", command("end"))
    inbox.go_on.set()
    await inbox.until(lambda inbox: "end" in inbox.actions)

    assert inbox.actions == ["twice", "twice", "end"]
    assert [delivery.attempt for delivery in inbox.deliveries] == [1, 2, 1]
    assert inbox.most == 1


async def test_publish_waits_for_reconnection(rabbit: RabbitBus, wire: Wire, name: str) -> None:
    inbox = Inbox()
    await rabbit.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), inbox)
    await wire.down()

    publishing = asyncio.create_task(rabbit.publish(f"cmd.{name}.write", command("patient")))
    done, _ = await asyncio.wait([publishing], timeout=0.2)
    assert not done
    assert not rabbit.connected
    await wire.up()

    assert await publishing
    assert await inbox.holds(1) == ["patient"]


async def test_reply_sent_during_a_lost_connection_arrives(
    rabbit: RabbitBus, wire: Wire, services: ServiceRun, name: str
) -> None:
    server, inbox = await RabbitBus.connect(services.rabbitmq(), name="tests"), Inbox(held=True)

    async def answer(delivery: Delivery) -> None:
        await inbox(delivery)
        await server.reply(delivery, result("kept"))

    await server.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), answer)
    request = asyncio.create_task(rabbit.request(f"cmd.{name}.write", command(), timeout_seconds=SOON))
    await inbox.holds(1)
    await wire.down()
    inbox.go_on.set()
    await inbox.has_finished(1)
    await server.close()
    await wire.up()

    assert (await request).data == Result(output="kept")


async def test_unreachable_broker_is_an_error_and_local_hints_still_work(wire: Wire, name: str) -> None:
    before = running()
    bus = await RabbitBus.connect(await wire.up(), name="tests", deadline_seconds=1)
    here = Hints(bus)
    await wire.down()

    for call in (
        bus.publish(f"cmd.{name}.write", command()),
        bus.subscribe(QueueSpec(name, ()), Inbox()),
        bus.dead_letters(),
    ):
        with pytest.raises(BusUnavailable):
            await asyncio.wait_for(call, SOON)
    for number in range(1_000):
        bus.send_hint(Hint("session", f"{name}.{number}"))
    await here.until(Hint("session", f"{name}.999"))

    await asyncio.wait_for(bus.close(), SOON)
    await assert_no_new_tasks(before)


async def test_connecting_to_an_unreachable_broker_is_an_error(wire: Wire) -> None:
    before = running()
    url = await wire.up()
    await wire.down()

    with pytest.raises(BusUnavailable, match=f":{URL(url).port} can't be reached: .* is its URL right"):
        await RabbitBus.connect(url, deadline_seconds=0.3)
    await assert_no_new_tasks(before)


@pytest.mark.parametrize(("scheme", "port"), [("amqp", 5672), ("amqps", 5671)])
async def test_port_of_an_unreachable_broker_is_that_of_the_scheme(scheme: str, port: int) -> None:
    with pytest.raises(BusUnavailable, match=f"127.9.9.9:{port} can't be reached"):
        await RabbitBus.connect(f"{scheme}://127.9.9.9", deadline_seconds=0.1)


async def test_virtual_host_that_the_broker_refuses_is_named_in_one_line_of_the_log(services: ServiceRun) -> None:
    url = str(URL(services.rabbitmq()).with_path("/nowhere"))

    with capture_logs() as logs, pytest.raises(BusUnavailable, match="refuses the virtual host 'nowhere'"):
        await RabbitBus.connect(url, deadline_seconds=1)

    told = [line["connection"] for line in logs if line["event"] == "bus_not_reached"]
    assert len(told) == len(set(told))  # once for each connection, however often it tried


async def test_subscription_restores_a_deleted_queue(rabbit: RabbitBus, services: ServiceRun, name: str) -> None:
    inbox = Inbox()
    await rabbit.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), inbox)
    async with await aio_pika.connect(services.rabbitmq()) as connection, connection.channel() as channel:
        await channel.queue_delete(name)

    await eventually(lambda: rabbit.publish(f"cmd.{name}.write", command("again")))
    assert await inbox.holds(1) == ["again"]
