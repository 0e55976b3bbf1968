"""Hints between processes, for the local bus and for RabbitMQ."""

import pytest

from artel.bus import hints
from artel.bus.bus import Bus, Hint, QueueSpec
from artel.bus.local import LocalBus
from tests.buses import Hints, Inbox, World, running

pytestmark = pytest.mark.anyio


@pytest.mark.req("OPS-01.1")
async def test_hint_reaches_every_bus_once_including_its_sender(world: World, bus: Bus, name: str) -> None:
    other = await world.bus()
    here, there = Hints(bus), Hints(other)

    bus.send_hint(Hint("session", name))
    bus.send_hint(Hint("space", name))

    await there.until(Hint("space", name))
    other.send_hint(Hint("end", name))
    for each in (here, there):
        await each.until(Hint("end", name))
        ours = [hint.kind for hint in each.seen if hint.key == name]
        assert sorted(ours) == ["end", "session", "space"]
        assert ours.index("session") < ours.index("space")


@pytest.mark.req("OPS-01.1")
async def test_removed_callback_gets_no_hints_and_failing_callback_stops_no_other(bus: Bus, name: str) -> None:
    def fail(_hint: Hint) -> None:
        raise RuntimeError("as the test wants it")

    gone = Hints(bus)
    gone.stop()
    bus.on_hint(fail)
    here = Hints(bus)

    bus.send_hint(Hint("session", name))
    await here.until(Hint("session", name))

    assert gone.seen == []


async def test_equal_hints_are_merged(bus: Bus, name: str) -> None:
    here = Hints(bus)

    for _ in range(1_000):
        bus.send_hint(Hint("session", name))
    bus.send_hint(Hint("session", f"{name}.end"))
    await here.until(Hint("session", f"{name}.end"))

    assert here.seen.count(Hint("session", name)) == 1


async def test_idle_local_queues_need_no_tasks() -> None:
    before = running()
    bus = LocalBus()
    for number in range(100):
        await bus.subscribe(QueueSpec(f"q{number}", (f"cmd.n{number}.*",)), Inbox(), at_once=10)

    assert running() == before
    await bus.close()


async def test_hints_beyond_the_limit_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "MAX_PENDING", 3)
    bus = LocalBus()
    here = Hints(bus)

    for number in range(10):
        bus.send_hint(Hint("session", str(number)))
    await here.until(Hint("session", "2"))
    bus.send_hint(Hint("session", "end"))
    await here.until(Hint("session", "end"))

    assert [hint.key for hint in here.seen] == ["0", "1", "2", "end"]
    await bus.close()
