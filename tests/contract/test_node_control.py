"""Control of a node: signals to all nodes, to a type and to one, on a queue of their own."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from artel.bus.bus import Bus, Delivery, QueueSpec
from artel.bus.topology import command_queue, commands_of, control_key
from artel.contract.envelope import Control, ControlType, Envelope, Event
from artel.contract.node_messages import ConfigParams
from artel.contract.nodes import NodeControl
from artel.nodes.control import ControlListener
from artel.nodes.status import NodeStatus
from tests.buses import SOON, Inbox, World, command
from tests.nodes import agent_file

pytestmark = pytest.mark.anyio


class Node:
    """A node that records what control signals do to it."""

    def __init__(self) -> None:
        self.status = NodeStatus(agent_file())
        self.calls: list[tuple[str, Any]] = []

    async def stop_task(self, task_id: str, signalled_at: datetime) -> bool:  # noqa: ARG002
        is_running = self.status.is_running(task_id)
        self.status.ended(task_id)
        self.calls.append(("stop", task_id))
        return is_running

    async def pause(self) -> None:
        self.calls.append(("pause", None))

    async def resume(self) -> None:
        self.calls.append(("resume", None))
        raise RuntimeError("as the test wants it")

    async def shutdown(self, reason: str, grace_seconds: float | None = None) -> None:
        self.calls.append(("shutdown", (reason, grace_seconds)))

    async def configure(self, parameters: ConfigParams) -> None:
        self.calls.append(("config", parameters.model_dump(exclude_none=True)))


class Operator:
    """Sends control signals to a node and waits for its reports."""

    def __init__(self, bus: Bus, node: Node) -> None:
        self.bus = bus
        self.node = node
        self.reports: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def subscribe(self) -> None:
        """Receive the reports of the node."""
        name = f"reports.{self.node.status.uid}"
        await self.bus.subscribe(
            QueueSpec(name, ("evt.node.control_applied",), exclusive=True, durable=False), self._note
        )

    async def _note(self, delivery: Delivery) -> None:
        assert isinstance(delivery.envelope.data, Event)
        if delivery.envelope.nodeuid == self.node.status.uid:
            await self.reports.put(delivery.envelope.data.event_data)

    async def send(self, control_type: ControlType, target: str | None = None, **parameters: Any) -> None:
        """Send a signal, by default to the node by its name."""
        control = Control(control_type=control_type, reason="maintenance", parameters=parameters)
        key = control_key(target or self.node.status.file.name, control_type)
        assert await self.bus.publish(key, Envelope.of(control, source="operator"))

    async def applied(self, control_type: ControlType, target: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a signal and return the report."""
        await self.send(control_type, target, **parameters)
        return await asyncio.wait_for(self.reports.get(), SOON)


@pytest.fixture
async def operator(world: World) -> AsyncIterator[Operator]:
    node = Node()
    listener = ControlListener(await world.bus(), node)
    await listener.start()
    operator = Operator(await world.bus(), node)
    await operator.subscribe()
    yield operator
    await listener.stop()


@pytest.mark.req("AGT-07.2")
async def test_signals_by_name_type_and_to_all_are_applied(operator: Operator) -> None:
    node = operator.node
    for task in ("task-1", "task-2", "task-3"):
        node.status.began(task, "write_article")

    reports = [
        await operator.applied("stop", task_id="task-1"),
        await operator.applied("stop", node.status.file.type, target_node=node.status.file.name),
        await operator.applied("pause", "all", target_node=node.status.uid),
        await operator.applied("shutdown"),
        await operator.applied("shutdown", grace_seconds=5),
    ]

    assert node.calls == [
        ("stop", "task-1"),
        ("stop", "task-2"),
        ("stop", "task-3"),
        ("pause", None),
        ("shutdown", ("maintenance", None)),
        ("shutdown", ("maintenance", 5.0)),
    ]
    assert [(each["control_type"], each["applied"], each["detail"]) for each in reports] == [
        ("stop", True, "stopped task-1"),
        ("stop", True, "stopped task-2, task-3"),
        ("pause", True, "paused"),
        ("shutdown", True, "shutting down"),
        ("shutdown", True, "shutting down"),
    ]


@pytest.mark.req("AGT-07.2", "AGT-07.3")
async def test_signals_to_other_nodes_are_ignored(operator: Operator) -> None:
    await operator.send("shutdown", operator.node.status.file.type, target_node="agent.writer.other")
    await operator.bus.publish(control_key("critic", "shutdown"), command())
    await operator.send("pause", "all", target_node=["not", "a", "name"])

    assert (await operator.applied("stop"))["detail"] == "stopped nothing"
    assert operator.node.calls == []


@pytest.mark.req("AGT-07.2")
async def test_bad_signals_are_refused_with_the_reason_and_stop_no_later_ones(operator: Operator) -> None:
    node, bus = operator.node, operator.bus

    with capture_logs() as lines:
        await bus.publish(control_key(node.status.file.name, "shutdown"), command())
        shutdown = Envelope.of(Control(control_type="shutdown"), source="operator")
        await bus.publish(control_key(node.status.file.name, "pause"), shutdown)
        mismatch = await asyncio.wait_for(operator.reports.get(), SOON)
        refusals = [
            await operator.applied("stop", task_id="task-9"),
            await operator.applied("stop", task_id=9),
            await operator.applied("resume"),
            await operator.applied("config"),
            await operator.applied("config", temperature=0.1, system_prompt="You are evil."),
            await operator.applied("config", max_tokens="many"),
            await operator.applied("config", heartbeat_interval_seconds=16),
            await operator.applied("shutdown", grace_seconds=-1),
            await operator.applied("stop", task="task-9"),
            await operator.applied("stop", task_id="9" * 256),
        ]

    assert not any(each["applied"] for each in (mismatch, *refusals))
    assert "shutdown" in mismatch["detail"]
    assert [
        word in each["detail"]
        for each, word in zip(
            refusals,
            (
                "task-9",
                "task_id",
                "RuntimeError",
                "temperature",
                "system_prompt",
                "max_tokens",
                "less than or equal to 12",
                "grace_seconds",
                "task_id",
                "255",
            ),
            strict=True,
        )
    ] == [True] * 10
    assert node.calls == [("stop", "task-9"), ("resume", None)]
    assert sum(line["event"] == "control_refused" for line in lines) == 11
    assert sum(line["event"] == "control_ignored" for line in lines) == 1


@pytest.mark.req("AGT-07.2")
async def test_signal_of_another_version_is_obeyed_and_what_was_ignored_is_said(operator: Operator) -> None:
    reports = [await operator.applied("pause", until="noon"), await operator.applied("shutdown", at="noon")]

    assert operator.node.calls == [("pause", None), ("shutdown", ("maintenance", None))]
    assert [(each["applied"], each["detail"]) for each in reports] == [
        (True, "paused; ignored parameters: until"),
        (True, "shutting down; ignored parameters: at"),
    ]


@pytest.mark.req("AGT-07.2")
async def test_shutdown_may_say_that_tasks_end_first(operator: Operator) -> None:
    NodeControl(control_type="shutdown", parameters={"drain": True})  # over HTTP

    assert (await operator.applied("shutdown", drain=True))["detail"] == "shutting down"
    assert operator.node.calls == [("shutdown", ("maintenance", None))]
    refused = await operator.applied("shutdown", drain=False)
    assert (refused["applied"], "drain" in refused["detail"]) == (False, True)


@pytest.mark.req("AGT-07.2")
async def test_settings_of_the_allow_list_change_at_run_time(operator: Operator) -> None:
    wanted: Any = {
        "temperature": 0.2,
        "max_tokens": 500,
        "log_level": "debug",
        "max_concurrent_tasks": 3,
        "heartbeat_interval_seconds": 5.0,
        "progress_interval_seconds": 15.0,
    }

    report = await operator.applied("config", **wanted, target_node=operator.node.status.file.name)

    assert report["applied"]
    assert operator.node.calls == [("config", wanted)]


@pytest.mark.req("AGT-07.2")
async def test_signal_overtakes_a_running_task(operator: Operator, world: World) -> None:
    name, work = operator.node.status.file.name, Inbox(held=True)
    await world.buses[0].subscribe(QueueSpec(command_queue(name), (commands_of(name),)), work)  # type: ignore[attr-defined]
    for _ in range(5):
        await operator.bus.publish(f"cmd.{name.replace('.', '_')}.write", command())
    await work.holds(1)

    assert (await operator.applied("pause"))["applied"]
    assert work.finished == 0
    work.go_on.set()
    await work.has_finished(5)
