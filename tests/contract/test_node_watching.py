"""Nodes that are lost and tasks that are stuck, as the registry notices them on both databases."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from artel.bus.bus import MAX_DELIVERIES, Delivery, QueueSpec
from artel.bus.local import LocalBus
from artel.contract.envelope import Event
from artel.contract.passport import NodeState
from artel.db import retries
from artel.errors import DatabaseUnavailable
from artel.registry import repository
from artel.remote_calls import database_time
from tests.actors.bus_node import SOON
from tests.actors.office import CHECK_SECONDS, Office

pytestmark = pytest.mark.anyio


@pytest.mark.req("AGT-10.4", "UWS-10.3")
async def test_task_without_progress_is_stuck_until_it_moves(office: Office) -> None:
    node = await office.node("writer-1", slots=2)
    command_id = await office.send(node)
    events = await _listen(office.bus)

    await office.silence(command_id, 89)
    assert await office.alerts() == []
    await office.silence(command_id, 91)
    for _ in range(2):
        [alert] = await office.alerts()
    assert (alert.kind, alert.severity, alert.resolved_at) == ("task_stuck", "warning", None)
    assert "writer-1" in alert.message
    assert (await office.command(command_id)).problem == "stuck"
    assert [event.event_data["kind"] for event in events] == ["task_stuck"]

    await node.progress(command_id, "critique")
    await office.heard(lambda: office.phase_is(command_id, "critique"))
    [alert] = await office.alerts()
    assert alert.resolved_at is not None
    command = await office.command(command_id)
    assert (command.problem, command.elapsed) == (None, 31.0)


async def _listen(bus: LocalBus) -> list[Event]:
    """Return a list that gets the alerts on the bus."""
    events: list[Event] = []

    async def note(delivery: Delivery) -> None:
        assert isinstance(delivery.envelope.data, Event)
        events.append(delivery.envelope.data)

    await bus.subscribe(QueueSpec("test.alerts", ("evt.alert.raised",)), note)
    return events


@pytest.mark.req("AGT-10.4")
async def test_task_that_waits_for_a_slot_or_reports_no_progress_is_not_stuck(office: Office) -> None:
    full = await office.node("full", tasks=("another",))
    quiet = await office.node("quiet", slots=5)
    waiting, working = await office.send(full), await office.send(quiet)
    quiet.tasks = (working,)
    await quiet.beat()
    await office.heard(lambda: office.has_tasks("quiet", 1))
    for command_id in (waiting, working):
        await office.silence(command_id, 200)

    assert await office.alerts() == []
    await full.progress(waiting)
    await office.heard(lambda: office.phase_is(waiting, "execute"))
    await office.silence(waiting, 200)
    assert [alert.kind for alert in await office.alerts()] == ["task_stuck"]


@pytest.mark.req("AGT-10.4")
async def test_task_that_is_reported_but_does_not_move_is_stuck(office: Office) -> None:
    node = await office.node("writer-1", slots=2)
    command_id = await office.send(node)
    await office.silence(command_id, 2_000)

    async def kinds(phase: str, **seconds: float) -> list[str]:
        """Return the kinds of the open alerts after a report."""
        await node.progress(command_id, phase, **seconds)
        await office.heard(lambda: office.phase_is(command_id, phase))
        return [alert.kind for alert in await office.alerts() if alert.resolved_at is None]

    assert await kinds("tool", blocked_seconds=89.0) == []
    assert await kinds("computes", blocked_seconds=91.0) == ["task_stuck"]
    assert await kinds("moves again", blocked_seconds=0.0) == []
    assert await kinds("long call", idle_seconds=689.0) == []
    assert await kinds("hangs", idle_seconds=691.0) == ["task_stuck"]
    assert await kinds("moved", idle_seconds=1.0) == []


@pytest.mark.req("AGT-10.4")
async def test_task_that_waits_for_a_node_whose_event_loop_stands_still_is_stuck(office: Office) -> None:
    node = await office.node("full", tasks=("another",), blocked_seconds=89.0)
    waiting = await office.send(node)
    await office.silence(waiting, 200)

    assert await office.alerts() == []
    node.blocked_seconds = 91.0
    await node.beat()
    [alert] = await office.heard(office.alerts)
    assert alert.kind == "task_stuck"


@pytest.mark.req("AGT-10.4")
async def test_task_of_a_node_that_reports_rarely_is_stuck_when_three_reports_are_missing(office: Office) -> None:
    node = await office.node("writer-1", slots=2, progress_seconds=60.0)
    command_id = await office.send(node)

    await office.silence(command_id, 179)
    assert await office.alerts() == []
    await office.silence(command_id, 181)
    assert [alert.kind for alert in await office.alerts()] == ["task_stuck"]


@pytest.mark.req("UWS-10.3", "AGT-08.2")
async def test_lost_node_raises_one_alert_in_the_project_until_it_is_back(office: Office) -> None:
    node, idle = await office.node("writer-1", slots=3), await office.node("idle")
    lost = [await office.send(node), await office.send(node, "sending")]
    await office.age(node.name, 31)
    await office.age(idle.name, 31)

    [alert] = await office.alerts()
    assert (alert.kind, alert.severity) == ("node_lost", "critical")
    assert {(await office.command(each)).problem for each in lost} == {"lost"}
    for command_id in lost:  # given to another node
        assert await office.move(command_id, "lost")
    [alert] = await office.alerts()
    assert alert.resolved_at is None, "the node is still lost"
    await node.beat()
    await office.heard(lambda: _is_alive(office, node.name))
    [alert] = await office.alerts()
    assert alert.resolved_at is not None
    assert office.alerted == ["node_lost"] * 2  # one alert of the project, and the node without tasks


async def _is_alive(office: Office, name: str) -> bool:
    return (await office.found(name)).state is NodeState.ALIVE


@pytest.mark.req("UWS-10.3")
async def test_alert_of_a_node_that_never_comes_back_ends_when_it_is_forgotten(office: Office) -> None:
    node, leaving = await office.node("writer-1"), await office.node("leaving")
    commands = await office.send(node), await office.send(leaving)
    await office.age(node.name, 31)
    await leaving.leave()
    await office.heard(lambda: office.is_gone("leaving"))

    assert len(await office.alerts()) == 2
    for command_id in commands:
        assert await office.move(command_id, "lost")
    assert [alert.resolved_at is None for alert in await office.alerts()].count(True) == 1
    await office.age(node.name, 91)
    assert all(alert.resolved_at for alert in await office.alerts())


@pytest.mark.req("AGT-10.7", "UWS-10.3")
async def test_node_over_its_limit_raises_an_alert_in_the_projects_that_it_works_for(office: Office) -> None:
    long_name = "writer." + "x" * 90
    node, other = await office.node(long_name), await office.node("other")
    await office.send(node)
    report = {"uid": node.uid, "epoch": 1, "limit": "max_memory_mb", "value": 600.0, "allowed": 512.0}

    await node.say("node.over_limit", node=other.name, **report)  # which works for nobody
    await node.say("node.over_limit", node=node.name, **report)
    await office.heard(lambda: _is_raised(office, 1))
    [alert] = await office.alerts()
    assert (alert.kind, alert.resolved_at) == ("node_over_limit", None)
    assert alert.message == f"Node {long_name} exceeds its max_memory_mb: 600 of 512."
    await node.say("node.over_limit", node=node.name, **report | {"value": 400.0, "over": False})
    await office.heard(lambda: _is_resolved(office, 1))
    await node.say("node.over_limit", node=node.name, **report)
    await office.heard(lambda: _is_raised(office, 2))
    await office.age(node.name, 91)
    assert all(alert.resolved_at for alert in await office.alerts() if alert.kind == "node_over_limit")


@pytest.mark.req("AGT-10.7")
async def test_alert_of_an_exceeded_limit_ends_with_the_instance_that_exceeded_it(office: Office) -> None:
    node = await office.node("writer-1")
    await office.send(node)
    report = {"uid": node.uid, "epoch": 1, "limit": "max_memory_mb", "value": 600.0, "allowed": 512.0}
    await node.say("node.over_limit", node=node.name, **report)
    await office.heard(lambda: _is_raised(office, 1))

    await node.register()
    assert not await _is_resolved(office, 1), "the same instance only registered again"
    await office.node("writer-1")
    assert await _is_resolved(office, 1)
    await node.say("node.over_limit", node=node.name, **report)
    await office.node("later")  # handled later than the report
    assert await _is_resolved(office, 1), "an instance that was replaced raised an alert"


@pytest.mark.req("AGT-10.7")
@pytest.mark.parametrize("change", [{"limit": "max_patience"}, {"task_id": "x" * 1_001}, {"node": "writer-1\0"}])
async def test_forged_report_of_a_limit_raises_no_alert(office: Office, change: dict[str, Any]) -> None:
    node = await office.node("writer-1")
    await office.send(node)
    report = {
        "node": node.name,
        "uid": node.uid,
        "epoch": 1,
        "limit": "max_memory_mb",
        "value": 600.0,
        "allowed": 512.0,
    }

    await node.say("node.over_limit", **report | change)
    await node.say("node.over_limit", **report | {"limit": "max_cpu_percent"})

    await office.heard(lambda: _is_raised(office, 1))
    [alert] = await office.alerts()
    assert "max_cpu_percent" in alert.message


@pytest.mark.req("AGT-10.7", "UWS-10.3")
async def test_what_a_node_says_once_is_stored_after_an_outage_of_the_database(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)
    node = await office.node("writer-1")
    await office.send(node)
    memory, cpu = (
        {"node": node.name, "uid": node.uid, "epoch": 1, "limit": limit, "value": 600.0, "allowed": 500.0}
        for limit in ("max_memory_mb", "max_cpu_percent")
    )
    await node.say("node.over_limit", **memory)
    await office.heard(lambda: _is_raised(office, 1))

    async with _outage(office, monkeypatch) as has_failed:
        await node.say("node.over_limit", **cpu)
        await has_failed(MAX_DELIVERIES + 1)
        await node.say("node.over_limit", **cpu | {"over": False})  # after the one that waits
        await node.say("node.over_limit", **memory | {"over": False})
    await office.heard(lambda: _is_resolved(office, 2))

    async with _outage(office, monkeypatch) as has_failed:
        await node.leave()
        await has_failed(MAX_DELIVERIES + 1)
    await office.heard(lambda: office.is_gone(node.name))


@pytest.mark.req("UWS-10.3")
async def test_alert_that_could_not_be_stored_is_raised_when_the_database_is_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)
    node = await office.node("writer-1")
    await office.send(node)
    report = {"uid": node.uid, "epoch": 1, "limit": "max_memory_mb", "value": 600.0, "allowed": 512.0}

    async with _outage(office, monkeypatch, "run_and_announce") as has_failed:  # it can be read
        await node.say("node.over_limit", node=node.name, **report)
        await has_failed(MAX_DELIVERIES + 1)

    await office.heard(lambda: _is_raised(office, 1))
    assert [alert.kind for alert in await office.alerts()] == ["node_over_limit"]


@pytest.mark.req("UWS-10.3", "AGT-08.2")
async def test_node_whose_heartbeat_could_not_be_stored_is_not_lost(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await office.node("writer-1")
    await office.send(node)

    async with _outage(office, monkeypatch, "run") as has_failed:
        await node.beat()
        await has_failed(1)

    await office.age(node.name, 35)
    assert await office.alerts() == []


@asynccontextmanager
async def _outage(
    office: Office, monkeypatch: pytest.MonkeyPatch, *operations: str
) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Let the database fail; yield what waits until it has failed so often."""
    failures = 0

    async def fails(*_: object) -> None:
        nonlocal failures
        failures += 1
        await _unavailable()

    async def has_failed(count: int) -> None:
        async with asyncio.timeout(SOON):
            while failures < count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    with monkeypatch.context() as outage:
        for operation in operations or ("read", "run", "run_and_announce"):
            outage.setattr(type(office.chat.database), operation, fails)
        yield has_failed


async def _is_resolved(office: Office, count: int) -> bool:
    return [alert.resolved_at is None for alert in await office.alerts()] == [False] * count


async def _is_raised(office: Office, count: int) -> bool:
    return len(await office.alerts()) == count


@pytest.mark.req("UWS-10.3")
async def test_silence_counts_only_while_the_registry_listens(office: Office) -> None:
    node = await office.node("writer-1")
    silent = await office.send(node)
    other = await office.send(await office.node("writer-2", slots=2))
    await office.age(node.name, 1_000)
    await office.silence(other, 1_000)
    office.registry = office.new_registry()

    await office.listen(29)
    assert await office.alerts() == []
    await office.listen(2)
    assert [alert.kind for alert in await office.alerts()] == ["node_lost"]
    await office.listen(60)
    assert [alert.kind for alert in await office.alerts()] == ["node_lost", "task_stuck"]
    assert (await office.command(silent)).problem == "lost"


@pytest.mark.req("UWS-10.3", "AGT-08.2")
@pytest.mark.parametrize("operation", ["read", "run"])
async def test_outage_of_the_database_loses_no_node(
    office: Office, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await office.node("writer-1")
    command_id = await office.send(node)
    await office.age(node.name, 35)  # what it said meanwhile was not stored

    with monkeypatch.context() as outage:
        outage.setattr(type(office.chat.database), operation, _unavailable)
        for _ in range(4):
            with suppress(DatabaseUnavailable):
                await office.listen(CHECK_SECONDS)

    assert await office.alerts() == []
    assert (await office.command(command_id)).problem is None
    await office.listen(29)
    assert await office.alerts() == []
    await office.listen(2)
    assert [alert.kind for alert in await office.alerts()] == ["node_lost"], "now it is really silent"


async def _unavailable(*_: object) -> None:
    raise DatabaseUnavailable("The database can't be reached.")


@pytest.mark.req("UWS-10.3", "AGT-08.2")
@pytest.mark.parametrize("clock", ["process", "database"])
async def test_server_that_stood_still_loses_no_node(
    office: Office, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await office.node("writer-1")
    command_id = await office.send(node)

    if clock == "process":  # a stopped process
        office.seconds += 40
        await office.age(node.name, 40)
    else:  # a machine that was paused, whose own clock stood still
        ahead = timedelta(seconds=40)
        monkeypatch.setattr(repository, "database_time", lambda connection: database_time(connection) + ahead)

    assert await office.alerts() == []
    assert (await office.command(command_id)).problem is None
    await office.listen(29)
    assert await office.alerts() == []
    await office.listen(2)
    assert [alert.kind for alert in await office.alerts()] == ["node_lost"], "now it is really silent"
