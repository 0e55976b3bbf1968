"""How a node takes commands while its broker fails now and then."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked

from artel.bus.bus import BusUnavailable, Delivery, QueueSpec
from artel.bus.local import LocalBus, LocalSubscription
from artel.bus.topology import any_key, command_key
from artel.contract.envelope import Command, Envelope
from artel.nodes.intake import Intake
from tests.nodes import agent_file

pytestmark = [pytest.mark.anyio, pytest.mark.req("AGT-07.2")]

SOON = 60.0
FILE = agent_file()


class WeakBus(LocalBus):
    """A bus that refuses some subscriptions."""

    failures: list[str]  # queues that can't be subscribed to, once each

    async def subscribe(self, spec: QueueSpec, *arguments: Any, **options: Any) -> LocalSubscription:
        if spec.name in self.failures:
            self.failures.remove(spec.name)
            raise BusUnavailable("The message broker didn't answer.")
        return await super().subscribe(spec, *arguments, **options)


class Taking:
    """An intake, and the commands that it took."""

    def __init__(self) -> None:
        self.bus = WeakBus()
        self.bus.failures = []
        self.taken: asyncio.Queue[str] = asyncio.Queue()
        self.attempts: asyncio.Queue[int] = asyncio.Queue()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.intake = Intake(self.bus, FILE, self._take)

    async def _take(self, delivery: Delivery) -> None:
        self.taken.put_nowait(delivery.envelope.id)
        self.attempts.put_nowait(delivery.attempt)
        await self.go_on.wait()

    async def send(self) -> str:
        command = Envelope.of(Command(action="write_article"), source="test")
        await self.bus.publish(command_key(FILE.name, "write_article"), command)
        return command.id


@pytest.fixture
async def taking() -> AsyncIterator[Taking]:
    taking = Taking()
    yield taking
    await taking.intake.drain(0)
    await taking.bus.close(grace_seconds=0)


async def _its_tasks_run() -> None:
    """Let the intake's tasks go as far as they can."""
    await wait_all_tasks_blocked()


async def test_commands_are_taken_again_when_a_resize_met_a_failure(taking: Taking) -> None:
    await taking.intake.open()
    taking.bus.failures = ["mindbus.cmd.writer.any", f"mindbus.cmd.{FILE.name.replace('.', '_')}"]
    await taking.intake.resize(2)

    sent = await taking.send()

    assert await asyncio.wait_for(taking.taken.get(), SOON) == sent


async def test_intake_that_could_not_open_takes_nothing(taking: Taking) -> None:
    taking.bus.failures = ["mindbus.cmd.writer.any"]  # its own queue works
    with pytest.raises(BusUnavailable):
        await taking.intake.open()
    await _its_tasks_run()
    await taking.send()
    await _its_tasks_run()
    assert taking.taken.empty()

    await taking.intake.open()
    assert await asyncio.wait_for(taking.taken.get(), SOON)


async def test_nothing_is_taken_until_it_is_allowed_again(taking: Taking) -> None:
    await taking.intake.open()
    taking.intake.allow(False)
    await _its_tasks_run()
    sent = await taking.send()
    await taking.intake.close()
    await taking.intake.open()
    await _its_tasks_run()
    assert taking.taken.empty()

    taking.intake.allow(True)
    assert await asyncio.wait_for(taking.taken.get(), SOON) == sent


async def test_command_that_waits_for_a_slot_is_not_given_back_when_the_lock_is_lost_for_a_moment(
    taking: Taking,
) -> None:
    """Each time that it is given back counts as a delivery, of which a command has five."""
    await _one_runs_and_one_waits(taking)
    for is_allowed in (False, True, False, True):
        taking.intake.allow(is_allowed)
        await _its_tasks_run()
    taking.go_on.set()

    assert [await asyncio.wait_for(taking.attempts.get(), SOON) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("is_lock_back", [True, False])
async def test_command_that_waits_since_the_lock_was_lost_is_given_back_by_a_pause(
    taking: Taking, *, is_lock_back: bool
) -> None:
    await _one_runs_and_one_waits(taking)
    taking.intake.allow(False)
    await _its_tasks_run()
    taking.intake.allow(is_lock_back)
    await _its_tasks_run()

    await taking.intake.close()
    taking.go_on.set()
    await _its_tasks_run()
    assert [taking.attempts.get_nowait(), taking.attempts.empty()] == [1, True]

    taking.intake.allow(True)
    await taking.intake.open()
    assert await asyncio.wait_for(taking.attempts.get(), SOON) == 2


async def test_drain_that_has_just_ended_can_still_be_hurried(taking: Taking) -> None:
    await _one_runs_and_one_waits(taking)
    draining = asyncio.create_task(taking.intake.drain(86_400))
    await _its_tasks_run()

    taking.intake.hurry(0)
    await asyncio.sleep(0)
    assert not draining.done()
    taking.intake.hurry(0)

    await asyncio.wait_for(draining, SOON)


async def _one_runs_and_one_waits(taking: Taking) -> None:
    """Let the node have a command in its slot, and another one that waits for it."""
    taking.go_on.clear()
    await taking.intake.open()
    for key in (command_key(FILE.name, "write_article"), any_key(FILE.type)):
        await taking.bus.publish(key, Envelope.of(Command(action="write_article"), source="test"))
        await _its_tasks_run()
