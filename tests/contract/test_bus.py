"""The contract of `Bus`, for the local bus and for RabbitMQ: messages, queues and requests."""

import asyncio
import contextvars
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from structlog.testing import capture_logs

from artel.bus.bus import (
    Bus,
    BusClosed,
    DeadLetter,
    Delivery,
    Handler,
    Hint,
    InvalidKey,
    NameTaken,
    NoListener,
    QueueFull,
    QueueMismatch,
    QueueSpec,
    Reason,
    RequestTimeout,
)
from artel.contract.envelope import Command, Envelope, Error, InvalidMessage, Result
from tests.buses import (
    SOON,
    Inbox,
    World,
    assert_no_new_tasks,
    command,
    eventually,
    result,
    running,
    wait_for_dead_letters,
)

pytestmark = pytest.mark.anyio
words = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6)


async def test_every_queue_with_a_matching_key_gets_a_message_once(world: World, bus: Bus, name: str) -> None:
    first, second, other = Inbox(), Inbox(), Inbox()
    await bus.subscribe(QueueSpec(f"{name}.1", (f"cmd.{name}.*", f"cmd.{name}.#", "#." + name + ".write")), first)
    await (await world.bus()).subscribe(QueueSpec(f"{name}.2", (f"*.{name}.write",)), second)
    await bus.subscribe(QueueSpec(f"{name}.3", (f"evt.{name}.*",)), other)

    assert await bus.publish(f"cmd.{name}.write", command("once"))
    assert await bus.publish(f"cmd.{name}.write", command("end"))

    assert await first.holds(2) == ["once", "end"]
    assert await second.holds(2) == ["once", "end"]
    assert other.actions == []


async def test_publish_returns_whether_any_queue_received_the_message(bus: Bus, name: str) -> None:
    inbox = Inbox()
    assert not await bus.publish(f"cmd.{name}.write", command("lost"))
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), inbox)
    assert await bus.publish(f"cmd.{name}.write", command("found"))

    assert await inbox.holds(1) == ["found"]


async def test_subscribers_of_one_queue_share_its_messages(world: World, bus: Bus, name: str) -> None:
    spec = QueueSpec(name, (f"cmd.{name}.any",))
    first, second, both = Inbox(held=True), Inbox(held=True), Inbox()

    def and_both(own: Inbox) -> Handler:
        async def handle(delivery: Delivery) -> None:
            await own(delivery)
            await both(delivery)

        return handle

    await bus.subscribe(spec, and_both(first))
    await (await world.bus()).subscribe(spec, and_both(second))

    for number in range(10):
        await bus.publish(f"cmd.{name}.any", command(str(number)))
    await first.holds(1)
    await second.holds(1)
    first.go_on.set()
    second.go_on.set()

    assert sorted(await both.holds(10)) == [str(number) for number in range(10)]
    assert sorted(first.actions + second.actions) == sorted(both.actions)


async def test_delivery_carries_what_was_sent(bus: Bus, name: str) -> None:
    inbox = Inbox()
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), inbox)
    sent = command()

    await bus.publish(f"cmd.{name}.write", sent, reply_to="somewhere", correlation_id="42")
    await inbox.holds(1)

    assert inbox.deliveries == [Delivery(sent, f"cmd.{name}.write", "somewhere", "42", attempt=1)]


async def test_concurrent_publishers_lose_nothing(bus: Bus, name: str) -> None:
    inbox = Inbox()
    await bus.subscribe(QueueSpec(name, (f"evt.{name}.*",)), inbox, at_once=5)
    same = command("same")  # half of the keys are bound to no queue

    routed = await asyncio.gather(*(bus.publish(f"evt.{name}{'.x' * (n % 2)}", same) for n in range(100)))

    assert routed == [n % 2 == 1 for n in range(100)]
    await inbox.has_finished(50)


async def test_too_large_message_or_invalid_key_is_not_sent(bus: Bus, name: str) -> None:
    with pytest.raises(InvalidMessage):
        await bus.publish(f"cmd.{name}.write", result("x" * 1024 * 1024))
    for key in ("", f"cmd.{name}.*", f"cmd..{name}", "x" * 256, "two words"):
        with pytest.raises(InvalidKey):
            await bus.publish(key, command())
    with pytest.raises(InvalidKey):
        await bus.subscribe(QueueSpec(name, ("cmd.a*",)), Inbox())


async def test_handler_runs_in_the_context_of_the_subscriber(bus: Bus, name: str) -> None:
    caller = contextvars.ContextVar("caller", default="subscriber")
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handler(_delivery: Delivery) -> None:
        seen.set_result(caller.get())

    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), handler)
    caller.set("publisher")
    await bus.publish(f"cmd.{name}.write", command())

    assert await asyncio.wait_for(seen, SOON) == "subscriber"


async def test_existing_queue_with_other_properties_is_a_mismatch(world: World, bus: Bus, name: str) -> None:
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), Inbox())

    for other in (
        QueueSpec(name, (f"cmd.{name}.*",), max_length=5),
        QueueSpec(name, (f"cmd.{name}.*",), max_deliveries=2),
        QueueSpec(name, (f"cmd.{name}.*",), exclusive=True),
    ):
        with pytest.raises(QueueMismatch):
            await (await world.bus()).subscribe(other, Inbox())


@pytest.mark.req("AGT-07.2")
async def test_queue_that_nobody_uses_is_deleted_after_its_time(world: World, name: str) -> None:
    bus, inbox = await world.bus(), Inbox()
    spec = QueueSpec(name, (f"cmd.{name}.*",), expires_seconds=0.2)
    subscription = await bus.subscribe(spec, inbox)
    again = await (await world.bus()).subscribe(spec, inbox)
    await subscription.cancel()
    assert await bus.publish(f"cmd.{name}.write", command("used"))
    await inbox.holds(1)
    await again.cancel()

    async def is_gone() -> bool:
        return not await bus.publish(f"cmd.{name}.write", command("lost"))

    await eventually(is_gone)
    await bus.subscribe(spec, inbox)
    assert await bus.publish(f"cmd.{name}.write", command("new"))
    await inbox.until(lambda inbox: inbox.actions[-1] == "new")


async def test_queue_of_an_earlier_version_that_never_expires_is_used_as_it_is(world: World, name: str) -> None:
    bus, inbox = await world.bus(), Inbox()
    spec = QueueSpec(name, (f"cmd.{name}.*",))
    await (await bus.subscribe(spec, Inbox())).cancel()
    await bus.publish(f"cmd.{name}.write", command("waits"))

    subscription = await bus.subscribe(replace(spec, expires_seconds=0.1), inbox)

    assert await inbox.holds(1) == ["waits"]
    await subscription.cancel()
    await bus.subscribe(spec, inbox)


async def test_full_queue_rejects_until_there_is_room(bus: Bus, name: str) -> None:
    inbox = Inbox(held=True)
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",), max_length=3), inbox)

    async def fill() -> None:
        for number in range(50):
            await bus.publish(f"cmd.{name}.write", command(str(number)))

    async def there_is_room() -> bool:
        with suppress(QueueFull):
            return await bus.publish(f"cmd.{name}.write", command("end"))
        return False

    with pytest.raises(QueueFull) as refused:
        await fill()
    assert refused.value.retry_after
    await inbox.holds(1)
    inbox.go_on.set()
    await eventually(there_is_room)

    await inbox.until(lambda inbox: inbox.actions[-1] == "end")
    assert 5 <= len(inbox.actions) < 10  # one running, three queued and perhaps a few more, the end


async def test_expired_message_becomes_a_dead_letter(bus: Bus, name: str) -> None:
    spec, inbox = QueueSpec(name, (f"cmd.{name}.*",)), Inbox()
    await (await bus.subscribe(spec, Inbox())).cancel()
    late = command("late")

    assert await bus.publish(f"cmd.{name}.write", late, ttl_seconds=0.05)
    [letter] = await wait_for_dead_letters(bus, name)
    await bus.publish(f"cmd.{name}.write", command("end"))
    await bus.subscribe(spec, inbox)

    assert letter == DeadLetter(late.to_bytes(), f"cmd.{name}.write", name, Reason.EXPIRED)
    assert await inbox.holds(1) == ["end"]


async def test_queue_without_dead_letters_drops_what_expires(bus: Bus, name: str) -> None:
    spec, inbox = QueueSpec(name, (f"evt.{name}.*",), dead_letters=False), Inbox()
    other = QueueSpec(f"{name}.other", (f"evt.{name}.*",))
    for each in (spec, other):
        await (await bus.subscribe(each, Inbox())).cancel()

    assert await bus.publish(f"evt.{name}.heartbeat", command("late"), ttl_seconds=0.05)
    await wait_for_dead_letters(bus, other.name)
    await bus.publish(f"evt.{name}.heartbeat", command("end"))
    await bus.subscribe(spec, inbox)

    assert await inbox.holds(1) == ["end"]
    assert not [letter for letter in await bus.dead_letters(10_000) if letter.queue == name]


async def test_message_behind_a_busy_subscriber_expires(bus: Bus, name: str) -> None:
    inbox = Inbox(held=True)
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), inbox)

    await bus.publish(f"cmd.{name}.write", command("first"))
    await inbox.holds(1)
    await bus.publish(f"cmd.{name}.write", command("late"), ttl_seconds=0.05)
    assert [letter.reason for letter in await wait_for_dead_letters(bus, name)] == [Reason.EXPIRED]
    inbox.go_on.set()
    await bus.publish(f"cmd.{name}.write", command("end"))

    assert await inbox.holds(2) == ["first", "end"]


async def test_expired_message_is_logged(bus: Bus, name: str) -> None:
    await (await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), Inbox())).cancel()

    with capture_logs() as lines:
        for _ in range(20):  # the processes on a broker share the logging
            await bus.publish(f"cmd.{name}.write", command(), ttl_seconds=0.05)
        await wait_for_dead_letters(bus, name, count=20)

        async def ours() -> list[Any]:
            return [line for line in lines if line["event"] == "message_dead_lettered" and line["queue"] == name]

        [line, *_] = await eventually(ours)

    assert line["reason"] == "expired"
    assert line["key"] == f"cmd.{name}.write"


@pytest.mark.parametrize("durable", [True, False])
async def test_failed_message_is_redelivered_until_it_succeeds(bus: Bus, name: str, durable: bool) -> None:
    inbox = Inbox(fails=4)
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",), durable=durable, exclusive=not durable), inbox)

    await bus.publish(f"cmd.{name}.write", command("hard"))
    await inbox.has_finished(1)
    await bus.publish(f"cmd.{name}.write", command("end"))
    await inbox.until(lambda inbox: "end" in inbox.actions)

    hard = [delivery.attempt for delivery in inbox.deliveries if delivery.envelope.data == Command(action="hard")]
    assert hard == [1, 2, 3, 4, 5]
    assert not [letter for letter in await bus.dead_letters(10_000) if letter.queue == name]


@pytest.mark.parametrize("durable", [True, False])
async def test_message_that_fails_five_times_becomes_a_dead_letter(bus: Bus, name: str, durable: bool) -> None:
    inbox = Inbox(fails=100)
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",), durable=durable, exclusive=not durable), inbox)
    poison = command("poison")

    await bus.publish(f"cmd.{name}.write", poison)
    [letter] = await wait_for_dead_letters(bus, name)
    await bus.publish(f"cmd.{name}.write", command("end"))
    await inbox.until(lambda inbox: "end" in inbox.actions)

    assert letter == DeadLetter(poison.to_bytes(), f"cmd.{name}.write", name, Reason.FAILED)
    assert inbox.actions[:6] == ["poison"] * 5 + ["end"]


async def test_handler_that_awaits_a_cancelled_task_has_failed(bus: Bus, name: str) -> None:
    inbox = Inbox()

    async def handler(delivery: Delivery) -> None:
        await inbox(delivery)
        if delivery.attempt == 1:
            raise asyncio.CancelledError

    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), handler)
    await bus.publish(f"cmd.{name}.write", command("cancelled"))
    await bus.publish(f"cmd.{name}.write", command("end"))

    assert await inbox.holds(3) == ["cancelled", "cancelled", "end"]


async def test_reading_dead_letters_does_not_remove_them(bus: Bus, name: str) -> None:
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",), max_deliveries=1), Inbox(fails=1))
    for number in range(3):
        await bus.publish(f"cmd.{name}.write", command(str(number)))

    async def two() -> bool:
        return len(await bus.dead_letters(2)) == 2

    for _ in range(2):  # in any order: other tests may read them at the same time
        letters = await wait_for_dead_letters(bus, name, count=3)
        assert sorted(Envelope.from_bytes(letter.body).data.action for letter in letters) == ["0", "1", "2"]  # type: ignore[union-attr]
    assert await eventually(two)


async def test_invalid_message_is_answered_and_dead_lettered(world: World, bus: Bus, name: str) -> None:
    inbox = Inbox()
    answers: asyncio.Queue[Delivery] = asyncio.Queue()
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), inbox)
    await bus.subscribe(QueueSpec(f"{name}.r", (), exclusive=True, durable=False), answers.put)

    await world.send_raw(f"cmd.{name}.write", b"{garbage", reply_to=f"{name}.r")
    await world.send_raw(f"cmd.{name}.write", b"{nobody to answer")
    answer = await asyncio.wait_for(answers.get(), SOON)
    letters = await wait_for_dead_letters(bus, name, count=2)
    await bus.publish(f"cmd.{name}.write", command("end"))

    assert isinstance(answer.envelope.data, Error)
    assert answer.envelope.data.error.code == "INVALID_ARGUMENT"
    assert answer.correlation_id == "raw"
    assert {(letter.body, letter.reason) for letter in letters} == {
        (b"{garbage", Reason.INVALID),
        (b"{nobody to answer", Reason.INVALID),
    }
    assert await inbox.holds(1) == ["end"]


async def test_unfinished_message_is_redelivered_to_another_subscriber(world: World, bus: Bus, name: str) -> None:
    spec = QueueSpec(name, (f"cmd.{name}.*",))
    dying, living = await world.bus(), Inbox()
    dead = Inbox(held=True)
    await dying.subscribe(spec, dead)

    await bus.publish(f"cmd.{name}.write", command("survives"))
    await dead.holds(1)
    await bus.subscribe(spec, living)
    await dying.close(grace_seconds=0)

    assert await living.holds(1) == ["survives"]
    assert living.deliveries[0].attempt == 2
    assert dead.finished == 0


async def test_message_waits_for_the_next_subscriber(world: World, bus: Bus, name: str) -> None:
    spec, inbox = QueueSpec(name, (f"cmd.{name}.*",)), Inbox()
    await (await world.bus()).subscribe(spec, Inbox())
    await world.buses[-1].close()  # type: ignore[attr-defined]

    assert await bus.publish(f"cmd.{name}.write", command("waits"))
    await bus.subscribe(spec, inbox)

    assert await inbox.holds(1) == ["waits"]


async def test_cancel_waits_for_handlers_and_stops_consuming(bus: Bus, name: str) -> None:
    spec, first, second = QueueSpec(name, (f"cmd.{name}.*",)), Inbox(held=True), Inbox()
    subscription = await bus.subscribe(spec, first, at_once=2)
    for action in ("1", "2", "3"):
        await bus.publish(f"cmd.{name}.write", command(action))
    await first.holds(2)

    cancelling = asyncio.create_task(subscription.cancel(grace_seconds=SOON))
    await bus.publish(f"cmd.{name}.write", command("4"))
    assert not cancelling.done()
    first.go_on.set()
    await asyncio.wait_for(cancelling, SOON)
    await bus.subscribe(spec, second)

    await second.until(lambda inbox: first.finished + inbox.finished == 4)
    assert first.finished >= 2
    assert sorted(first.actions + second.actions) == ["1", "2", "3", "4"]


async def test_handler_that_outlives_the_grace_period_is_cancelled_and_its_message_requeued(
    bus: Bus, name: str
) -> None:
    spec, stuck, next_one = QueueSpec(name, (f"cmd.{name}.*",)), Inbox(held=True), Inbox()
    subscription = await bus.subscribe(spec, stuck)
    await bus.publish(f"cmd.{name}.write", command("slow"))
    await stuck.holds(1)

    await asyncio.wait_for(subscription.cancel(grace_seconds=0.05), SOON)
    assert stuck.running == 0
    await bus.subscribe(spec, next_one)

    assert await next_one.holds(1) == ["slow"]


async def test_handler_can_cancel_its_own_subscription(bus: Bus, name: str) -> None:
    ended = asyncio.Event()

    async def last(_delivery: Delivery) -> None:
        await subscription.cancel(grace_seconds=SOON)
        ended.set()

    subscription = await bus.subscribe(QueueSpec(name, (f"ctl.{name}.*",), exclusive=True, durable=False), last)
    await bus.publish(f"ctl.{name}.shutdown", command())

    await asyncio.wait_for(ended.wait(), SOON)
    assert not await bus.publish(f"ctl.{name}.shutdown", command())  # the queue was deleted with its subscriber


async def test_at_once_limits_concurrent_handlers(bus: Bus, name: str) -> None:
    inbox = Inbox(held=True)
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), inbox, at_once=3)
    for number in range(20):
        await bus.publish(f"cmd.{name}.write", command(str(number)))
    await inbox.holds(3)
    inbox.go_on.set()
    await inbox.has_finished(20)

    assert inbox.most == 3


async def test_control_is_not_blocked_by_commands(bus: Bus, name: str) -> None:
    work, control = Inbox(held=True), Inbox()
    await bus.subscribe(QueueSpec(f"{name}.cmd", (f"cmd.{name}.*",)), work)
    await bus.subscribe(QueueSpec(f"{name}.ctl", (f"ctl.{name}.*",), exclusive=True, durable=False), control)

    for number in range(5):
        await bus.publish(f"cmd.{name}.write", command(str(number)))
    await work.holds(1)
    await bus.publish(f"ctl.{name}.stop", command("stop"))

    assert await control.holds(1) == ["stop"]
    assert work.actions == ["0"]


@pytest.mark.parametrize("durable", [True, False])
async def test_exclusive_name_has_one_holder_and_is_released_on_close(
    world: World, bus: Bus, name: str, durable: bool
) -> None:
    spec = QueueSpec(name, (f"cmd.{name}.*",), exclusive=True, durable=durable)
    holder, inbox = await world.bus(), Inbox()
    await holder.subscribe(spec, Inbox())

    for other in (bus, holder):
        with pytest.raises(NameTaken, match=name):
            await other.subscribe(spec, Inbox())
    await holder.close()

    subscription = await bus.subscribe(spec, inbox)
    await bus.publish(f"cmd.{name}.write", command("mine"))
    assert await inbox.holds(1) == ["mine"]
    await subscription.cancel()
    await (await world.bus()).subscribe(spec, Inbox())


async def test_refused_subscriber_does_not_disturb_the_holder(world: World, bus: Bus, name: str) -> None:
    spec, inbox = QueueSpec(name, (f"cmd.{name}.*",), exclusive=True), Inbox()
    await bus.subscribe(spec, inbox)

    with pytest.raises(NameTaken):
        await (await world.bus()).subscribe(spec, Inbox())
    for number in range(3):
        await bus.publish(f"cmd.{name}.write", command(str(number)))

    assert await inbox.holds(3) == ["0", "1", "2"]


async def test_concurrent_requests_get_their_own_replies(world: World, bus: Bus, name: str) -> None:
    server = await world.bus()

    async def echo(delivery: Delivery) -> None:
        await server.reply(delivery, result(delivery.envelope.id))

    await server.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), echo, at_once=10)
    requests = [command() for _ in range(50)]

    replies = await asyncio.gather(*(bus.request(f"cmd.{name}.echo", each, timeout_seconds=SOON) for each in requests))

    assert [reply.data for reply in replies] == [Result(output=each.id) for each in requests]


async def test_request_without_listener_fails_at_once(bus: Bus, name: str) -> None:
    async with asyncio.timeout(SOON):
        with pytest.raises(NoListener, match=name):
            await bus.request(f"cmd.{name}.write", command(), timeout_seconds=600)


async def test_request_times_out_and_its_late_reply_is_dropped(bus: Bus, name: str) -> None:
    inbox = Inbox(held=True)

    async def late(delivery: Delivery) -> None:
        await inbox(delivery)
        await bus.reply(delivery, result("too late"))

    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), late)
    with pytest.raises(RequestTimeout, match=name):
        await bus.request(f"cmd.{name}.write", command("1"), timeout_seconds=0.2)
    await inbox.holds(1)
    inbox.go_on.set()

    reply = await bus.request(f"cmd.{name}.write", command("2"), timeout_seconds=SOON)
    assert reply.data == Result(output="too late")


async def test_timed_out_request_is_not_delivered_later(bus: Bus, name: str) -> None:
    spec, inbox = QueueSpec(name, (f"cmd.{name}.*",)), Inbox()
    await (await bus.subscribe(spec, Inbox())).cancel()

    with pytest.raises(RequestTimeout):
        await bus.request(f"cmd.{name}.write", command("late"), timeout_seconds=0.05)
    await wait_for_dead_letters(bus, name)
    await bus.subscribe(spec, inbox)
    await bus.publish(f"cmd.{name}.write", command("end"))

    assert await inbox.holds(1) == ["end"]


async def test_reply_without_reply_queue_returns_false(bus: Bus, name: str) -> None:
    routed: asyncio.Queue[bool] = asyncio.Queue()

    async def answer(delivery: Delivery) -> None:
        await routed.put(await bus.reply(delivery, result()))

    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), answer)
    await bus.publish(f"cmd.{name}.write", command())
    await bus.publish(f"cmd.{name}.write", command(), reply_to="nobody.is.here")

    async with asyncio.timeout(SOON):
        assert [await routed.get(), await routed.get()] == [False, False]


async def test_close_cancels_requests_and_handlers(world: World, bus: Bus, name: str) -> None:
    await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), Inbox())
    before = running()
    closing, inbox = await world.bus(), Inbox(held=True)
    await closing.subscribe(QueueSpec(f"{name}.2", (f"evt.{name}.*",)), inbox)
    await bus.publish(f"evt.{name}.x", command())
    await inbox.holds(1)
    request = asyncio.create_task(closing.request(f"cmd.{name}.write", command(), timeout_seconds=600))
    await asyncio.sleep(0)
    assert closing.connected

    async with asyncio.timeout(SOON):
        await closing.close(grace_seconds=0)
        await closing.close()
        with pytest.raises(BusClosed):
            await request

    assert not closing.connected
    for call in (
        closing.publish(f"cmd.{name}.write", command()),
        closing.subscribe(QueueSpec(f"{name}.3", ()), Inbox()),
        closing.request(f"cmd.{name}.write", command(), timeout_seconds=1),
    ):
        with pytest.raises(BusClosed):
            await call
    closing.send_hint(Hint("session", name))
    await assert_no_new_tasks(before)
