"""Heartbeats, progress and reports about limits that a node sends from threads of its own."""

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from artel.bus.bus import Bus, BusUnavailable, Delivery, QueueSpec, Sender
from artel.bus.local import LocalBroker, LocalBus
from artel.bus.rabbit import RabbitBus, RabbitSender
from artel.contract.envelope import Envelope, Event
from artel.contract.node_messages import MAX_HEARTBEAT_SECONDS
from artel.contract.passport import Status
from artel.nodes import heartbeat
from artel.nodes.event_thread import OtherLoopSender
from artel.nodes.heartbeat import HeartbeatThread
from artel.nodes.progress import ProgressThread
from artel.nodes.status import NodeStatus
from tests.buses import SOON, Wire
from tests.deadlines import eventually
from tests.nodes import agent_file
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio

QUICK = {"heartbeat_interval_seconds": 0.1}
ROOT = Path(__file__).parents[2]


class Events:
    """The events of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.envelopes: list[Envelope] = []
        self._came = asyncio.Event()

    async def subscribe(self, bus: Bus) -> "Events":
        """Receive what is sent from now on."""
        keys = ("evt.node.*", "evt.task.*", "evt.alert.*")
        await bus.subscribe(QueueSpec(f"events.{self._node}", keys, exclusive=True, durable=False), self._receive)
        return self

    async def _receive(self, delivery: Delivery) -> None:
        if delivery.envelope.source == self._node:
            assert isinstance(delivery.envelope.data, Event)
            assert delivery.key == f"evt.{delivery.envelope.data.event_type}"
            self.envelopes.append(delivery.envelope)
            self._came.set()

    def data(self, event_type: str) -> list[dict[str, Any]]:
        """Return the data of all events of a type."""
        events = [envelope.data for envelope in self.envelopes if isinstance(envelope.data, Event)]
        return [event.event_data for event in events if event.event_type == event_type]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true after an event."""
        async with asyncio.timeout(SOON):
            while not condition():
                self._came.clear()
                await self._came.wait()

    async def more(self, event_type: str, count: int) -> None:
        """Wait for that many more events of a type."""
        enough = len(self.data(event_type)) + count
        await self.until(lambda: len(self.data(event_type)) >= enough)


@pytest.fixture
async def bus() -> AsyncIterator[LocalBus]:
    bus = LocalBus(LocalBroker())
    yield bus
    await bus.close(grace_seconds=0)


@pytest.fixture
async def connect(bus: LocalBus) -> Callable[[], Any]:
    """Connect a thread to the bus of the test, as an embedded node does."""
    loop = asyncio.get_running_loop()

    async def connect() -> Sender:
        return OtherLoopSender(bus, loop)

    return connect


@pytest.mark.req("AGT-08.2", "AGT-10.2", "AGT-10.7")
async def test_heartbeats_carry_the_whole_status(bus: LocalBus, connect: Callable[[], Any]) -> None:
    status = NodeStatus(agent_file(registry=QUICK), "local")
    status.epoch = 7
    events = await Events(status.file.name).subscribe(bus)
    beats = HeartbeatThread(status, connect)
    beats.start()
    await events.more("node.heartbeat", 2)

    status.began("task-1", "write_article")
    status.moved("task-1", "critique")
    status.phase = "Paused"
    await events.more("node.heartbeat", 2)  # one may have been under way
    await beats.stop()

    first, last = events.data("node.heartbeat")[0], events.data("node.heartbeat")[-1]
    assert (last["name"], last["uid"], last["epoch"]) == (status.file.name, status.uid, 7)
    before, after = Status.model_validate(first["status"]), Status.model_validate(last["status"])
    assert (before.phase, before.current_tasks, before.conditions[0].status) == ("Running", (), "True")
    assert (after.phase, after.conditions[0].status) == ("Paused", "False")
    assert [(task.task_id, task.action, task.phase) for task in after.current_tasks] == [
        ("task-1", "write_article", "critique")
    ]
    assert after.metrics["memory_mb"] > 10
    assert after.metrics["cpu_percent"] >= 0
    assert after.lease.acquire_time == before.lease.acquire_time
    assert after.lease.renew_time > before.lease.renew_time
    assert {(each.nodeuid, each.nodeepoch) for each in events.envelopes} == {(status.uid, 7)}


@pytest.mark.req("AGT-10.2")
async def test_interval_can_change_and_a_heartbeat_can_be_sent_now(bus: LocalBus, connect: Callable[[], Any]) -> None:
    status = NodeStatus(agent_file(registry={"heartbeat_interval_seconds": MAX_HEARTBEAT_SECONDS}), "local")
    events = await Events(status.file.name).subscribe(bus)
    beats = HeartbeatThread(status, connect)
    beats.start()
    await events.until(lambda: events.data("node.heartbeat"))

    status.phase = "Paused"
    beats.send_now()
    await events.until(lambda: len(events.data("node.heartbeat")) == 2)
    beats.interval_seconds = 0.1
    await events.more("node.heartbeat", 3)

    assert [each["status"]["phase"] for each in events.data("node.heartbeat")[:2]] == ["Running", "Paused"]
    await beats.stop()


@pytest.mark.req("AGT-10.7")
async def test_exceeded_limit_is_reported_once_and_once_when_it_is_over(
    bus: LocalBus, connect: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {"memory_mb": 100.0, "cpu_percent": 50.0}
    monkeypatch.setattr(heartbeat.ProcessMeter, "measure", lambda _meter: dict(measured))
    monkeypatch.setattr(heartbeat, "LATE_SECONDS", 0.0)
    limits = {"max_memory_mb": 100, "max_cpu_percent": 60, "max_execution_time_seconds": 0.05}
    status = NodeStatus(agent_file(registry=QUICK, limits=limits), "local")
    events = await Events(status.file.name).subscribe(bus)
    beats = HeartbeatThread(status, connect)
    beats.start()

    async def reports(expected: list[tuple[str, bool, str]]) -> None:
        """Wait for these reports, and for some heartbeats without another."""

        def seen() -> list[tuple[str, bool, str]]:
            return [(each["limit"], each["over"], each["task_id"]) for each in events.data("node.over_limit")]

        await events.until(lambda: len(seen()) >= len(expected))
        await events.more("node.heartbeat", 3)
        assert seen() == expected

    await events.more("node.heartbeat", 2)
    await reports([])  # at the limit is not over it
    measured["memory_mb"] = 100.1
    await reports(over := [("max_memory_mb", True, "")])
    measured["memory_mb"] = 95.0  # noise around the limit
    await reports(over)
    measured["memory_mb"] = 80.0
    await reports(over := [*over, ("max_memory_mb", False, "")])
    measured["cpu_percent"] = 99.0
    await reports(over := [*over, ("max_cpu_percent", True, "")])
    status.began("task-1", "write_article")
    await reports(over := [*over, ("max_execution_time_seconds", True, "task-1")])
    status.ended("task-1")
    await reports([*over, ("max_execution_time_seconds", False, "task-1")])
    await beats.stop()

    alerts = [each["message"] for each in events.data("alert.raised")]
    assert alerts[0] == f"Node {status.file.name} exceeds max_memory_mb: 100.1 of 100 MB of memory."
    assert len(alerts) == 3
    assert len(events.data("alert.resolved")) == 2
    assert {name: value for name, value in status.passport().spec.resources.limits.items() if name in limits} == limits


@pytest.mark.req("AGT-10.7")
async def test_report_that_could_not_be_sent_is_sent_later(bus: LocalBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat.ProcessMeter, "measure", lambda _meter: {"memory_mb": 100.0})
    status = NodeStatus(agent_file(registry=QUICK, limits={"max_memory_mb": 64}), "local")
    events = await Events(status.file.name).subscribe(bus)
    failures = 3

    class Failing(OtherLoopSender):
        async def publish(self, key: str, envelope: Envelope, **options: Any) -> bool:
            nonlocal failures
            if key == "evt.node.over_limit" and failures:
                failures -= 1
                raise BusUnavailable("as the test wants it")
            return await super().publish(key, envelope, **options)

    loop = asyncio.get_running_loop()

    async def connect_badly() -> Sender:
        return Failing(bus, loop)

    beats = HeartbeatThread(status, connect_badly)
    beats.start()
    await events.until(lambda: events.data("alert.raised"))
    await events.more("node.heartbeat", 2)
    await beats.stop()

    assert failures == 0
    assert len(events.data("node.over_limit")) == len(events.data("alert.raised")) == 1


@pytest.mark.req("AGT-10.3")
async def test_progress_is_sent_for_running_tasks_only(bus: LocalBus, connect: Callable[[], Any]) -> None:
    file = agent_file(registry=QUICK, progress_heartbeat={"interval_seconds": 0.1})
    status, silent = (
        NodeStatus(file, "local"),
        NodeStatus(agent_file(progress_heartbeat={"interval_seconds": 0.1, "enabled": False}), "local"),
    )
    silent.began("task-9", "write_article")
    status.epoch = 3
    events, of_silent = await Events(file.name).subscribe(bus), await Events(silent.file.name).subscribe(bus)
    threads = [HeartbeatThread(status, connect), ProgressThread(status, connect), ProgressThread(silent, connect)]
    for thread in threads:
        thread.start()

    await events.more("node.heartbeat", 4)
    assert events.data("task.progress") == []
    for task in ("task-1", "task-2", "task-1"):  # two commands of one task
        status.began(task, "write_article")
    status.ended("task-1")
    status.moved("task-2", "tool_call")
    await events.until(lambda: min(_progressed(events)[task] for task in ("task-1", "task-2")) >= 3)
    status.ended("task-2")
    await events.more("node.heartbeat", 1)  # what was under way has arrived
    counted = _progressed(events)["task-2"]
    await events.until(lambda: _progressed(events)["task-1"] >= counted + 3)
    for thread in threads:
        await thread.stop()

    assert _progressed(events)["task-2"] <= counted + 1
    assert of_silent.envelopes == []
    *_, last = (each for each in events.data("task.progress") if each["task_id"] == "task-1")
    assert (last["state"], last["phase"], last["node"], last["epoch"]) == ("working", "understand", file.name, 3)
    assert last["elapsed_seconds"] >= last["idle_seconds"] > 0
    assert {each["phase"] for each in events.data("task.progress") if each["task_id"] == "task-2"} == {"tool_call"}
    assert {each.subject for each in events.envelopes if each.subject} == {"task-1", "task-2"}


@pytest.mark.req("AGT-10.3")
def test_another_command_of_a_task_does_not_hide_how_long_it_takes() -> None:
    status = NodeStatus(agent_file(), "local")
    status.began("task-1", "write_article")
    status.moved("task-1", "execute")
    [before] = eventually(lambda: [task for task in status.tasks() if task.elapsed_seconds >= 0.01], SOON)

    status.began("task-1", "write_article")

    [after] = status.tasks()
    assert (after.phase, after.elapsed_seconds >= before.elapsed_seconds >= 0.01) == ("execute", True)
    assert after.idle_seconds >= before.idle_seconds


def _progressed(events: Events) -> Counter[str]:
    return Counter(each["task_id"] for each in events.data("task.progress"))


@pytest.mark.req("AGT-10.2")
async def test_thread_survives_a_broker_that_is_away(services: ServiceRun) -> None:
    wire = Wire(services.rabbitmq())
    url = await wire.up()
    status = NodeStatus(agent_file(registry=QUICK))
    listener = await RabbitBus.connect(services.rabbitmq(), name="tests")
    events = await Events(status.file.name).subscribe(listener)

    attempts = 0

    async def connect() -> Sender:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise BusUnavailable("as the test wants it")
        return await RabbitSender.connect(url, name="tests-heartbeat")

    beats = HeartbeatThread(status, connect)
    beats.start()
    await events.more("node.heartbeat", 2)
    assert attempts == 3
    wire.cut()
    await events.more("node.heartbeat", 2)
    await beats.stop()
    await listener.close(grace_seconds=0)
    await wire.down()


@pytest.mark.req("AGT-10.2", "AGT-10.3")
async def test_blocked_main_thread_stops_neither_heartbeat_nor_progress(services: ServiceRun, tmp_path: Path) -> None:
    """The process first runs a loop in Python, then waits in a call of C; each until the test lets it go on."""
    listener = await RabbitBus.connect(services.rabbitmq(), name="tests")
    file = agent_file(registry=QUICK, progress_heartbeat={"interval_seconds": 0.1})
    events = await Events(file.name).subscribe(listener)
    flag = tmp_path / "go on"
    arguments = services.rabbitmq(), json.dumps(file.model_dump()), str(flag)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.blocked_node", *arguments, cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    assert process.stdin
    assert process.stdout
    try:
        assert await process.stdout.readline() == b"in a Python loop\n"
        await events.until(lambda: any(map(_is_blocked, events.data("node.heartbeat"))))
        await events.more("node.heartbeat", 4)
        await events.more("task.progress", 4)
        flag.touch()
        assert await process.stdout.readline() == b"in a call of C\n"
        await events.more("node.heartbeat", 4)
        await events.more("task.progress", 4)
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), SOON) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await listener.close(grace_seconds=0)

    assert {each["task_id"] for each in events.data("task.progress")} == {"task-1"}
    assert all(_is_blocked(each) for each in events.data("node.heartbeat")[-4:])
    before, after = (events.data("task.progress")[number]["blocked_seconds"] for number in (-4, -1))
    assert after > before > 0


def _is_blocked(heartbeat: dict[str, Any]) -> bool:
    status = Status.model_validate(heartbeat["status"])
    return status.is_blocked and not status.is_ready


@pytest.mark.req("AGT-10.2")
async def test_node_is_ready_again_when_its_event_loop_runs_again() -> None:
    status = NodeStatus(agent_file(registry=QUICK))
    status.loop_watch.watch(asyncio.get_running_loop())

    deadline = time.monotonic() + SOON
    while not status.status().is_blocked:  # in this loop, which does not run meanwhile
        assert time.monotonic() < deadline
    assert status.status().metrics["loop_blocked_seconds"] >= 2 * QUICK["heartbeat_interval_seconds"]
    assert not status.status().is_ready
    await asyncio.sleep(0)
    assert status.status().is_ready
    assert "loop_blocked_seconds" not in status.status().metrics
