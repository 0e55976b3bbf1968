"""A node as the registry knows one: it says on a real bus what nodes say, and does no work."""

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from artel.bus.bus import Bus, Delivery, QueueSpec
from artel.bus.rabbit import RabbitBus
from artel.bus.topology import command_key, event_key, signals_to
from artel.contract.envelope import Command, Control, Envelope, Error, Event, Result
from artel.contract.node_messages import REGISTER, REGISTRY
from artel.ids import uuid7

SOON = 60.0
T = TypeVar("T")


@dataclass
class BusNode:
    """One instance of a node."""

    bus: Bus
    name: str
    node_type: str = "writer"
    capabilities: tuple[str, ...] = ("write_article",)
    labels: dict[str, str] = field(default_factory=dict)
    slots: int = 1
    display_name: str = ""
    protocol: str = "local"
    uid: str = field(default_factory=uuid7)
    epoch: int = 0
    phase: str = "Running"
    ready: str = "True"
    tasks: tuple[str, ...] = ()
    signals: list[Control] = field(default_factory=list)
    began: str | None = None  # as a timestamp
    progress_seconds: float | None = None
    blocked_seconds: float = 0.0  # its event loop

    def status(self) -> dict[str, Any]:
        ready = {"type": "Ready", "status": self.ready}
        blocked = {"loop_blocked_seconds": self.blocked_seconds} if self.blocked_seconds else {}
        return {
            "phase": self.phase,
            "conditions": [ready | {"status": "False", "reason": "LoopBlocked"} if blocked else ready],
            "lease": {"holderIdentity": self.uid},
            "currentTasks": [
                {"taskId": task, "action": "write_article", "phase": "execute", "elapsedSeconds": 12.0}
                for task in self.tasks
            ],
            "totalTasksProcessed": 3,
            "uptime": 60.0,
            "metrics": {"memory_mb": 80.5} | blocked,
        }

    def passport(self) -> dict[str, Any]:
        began = {} if self.began is None else {"creationTimestamp": self.began}
        metadata = {"uid": self.uid, "name": self.name, "nodeType": self.node_type, "labels": self.labels}
        return {
            "metadata": metadata | began,
            "spec": {
                "capabilities": [
                    {"name": name, "version": "1.2", "parameters": {"languages": ["en"]}} for name in self.capabilities
                ],
                "endpoint": {"protocol": self.protocol, "queue": f"mindbus.cmd.{self.name}"},
                "displayName": self.display_name,
                "maxConcurrentTasks": self.slots,
                "progressIntervalSeconds": self.progress_seconds,
            },
            "status": self.status(),
        }

    async def ask(self, action: str, **params: Any) -> Result | Error:
        """Send a request to the registry and return its answer."""
        request = Envelope.of(Command(action=action, params=params), source=self.name)
        answer = await self.bus.request(command_key(REGISTRY, action), request, timeout_seconds=SOON)
        assert isinstance(answer.data, Result | Error)
        return answer.data

    async def register(self) -> "BusNode":
        """Register, and remember the epoch."""
        answer = await self.ask(REGISTER, passport=self.passport())
        assert isinstance(answer, Result), answer
        match answer.output:
            case {"epoch": int(epoch)}:
                self.epoch = epoch
            case other:
                raise AssertionError(other)
        return self

    async def beat(self, *, with_passport: bool = False, **changes: Any) -> None:
        """Send a heartbeat."""
        data = {"name": self.name, "uid": self.uid, "epoch": self.epoch, "status": self.status()}
        await self.say("node.heartbeat", **data, **({"passport": self.passport()} if with_passport else {}), **changes)

    async def leave(self) -> None:
        """Deregister."""
        await self.say("node.deregistered", name=self.name, uid=self.uid, epoch=self.epoch)

    async def progress(self, task_id: str, phase: str = "execute", **changes: Any) -> None:
        """Report progress of a task."""
        data = {"task_id": task_id, "elapsed_seconds": 31.0, "phase": phase, "node": self.name, "epoch": self.epoch}
        await self.say("task.progress", **data | changes)

    async def say(self, event_type: str, **data: Any) -> None:
        """Publish an event."""
        topic, _, kind = event_type.partition(".")
        event = Envelope.of(Event(event_type=event_type, event_data=data), source=self.name)
        assert await self.bus.publish(event_key(topic, kind), event), "nobody listens"

    async def listen(self) -> None:
        """Note the signals to this node."""

        async def note(delivery: Delivery) -> None:
            assert isinstance(delivery.envelope.data, Control)
            self.signals.append(delivery.envelope.data)

        spec = QueueSpec(f"test.ctl.{self.uid}", (signals_to(self.name),), exclusive=True, durable=False)
        await self.bus.subscribe(spec, note)

    async def signalled(self) -> Control:
        """Wait for a signal and return it."""
        async with asyncio.timeout(SOON):
            while not self.signals:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return self.signals.pop(0)


class NodesInThread:
    """Nodes for tests that have no event loop of their own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._bus = self.run(RabbitBus.connect(self._url, name="tests"))
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._bus.close(grace_seconds=0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SOON)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of a node and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SOON)

    def start(self, name: str, **fields: Any) -> BusNode:
        """Register a node that listens to signals."""
        node = BusNode(self._bus, name, protocol="amqp", **fields)
        self.run(node.register())
        self.run(node.listen())
        return node
