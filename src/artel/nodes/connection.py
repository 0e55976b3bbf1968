"""How a node reaches its bus: one connection for its work, and one for each thread that sends events."""

import asyncio
from typing import Literal, Protocol

from artel.bus.bus import Bus, Sender
from artel.bus.local import LocalBroker, LocalBus
from artel.nodes.event_thread import OtherLoopSender


class NodeConnection(Protocol):
    """Opens the connections of one node."""

    protocol: Literal["amqp", "local"]

    async def bus(self) -> Bus:
        """Connect for the node's work; raise BusUnavailable."""

    async def sender(self) -> Sender:
        """Connect for events, in the event loop of another thread."""


class RabbitConnection:
    """Connections to RabbitMQ, named after the node so that operators find them."""

    protocol: Literal["amqp", "local"] = "amqp"

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name

    async def bus(self) -> Bus:
        from artel.bus.rabbit import RabbitBus  # lazy: an embedded node does without the library

        return await RabbitBus.connect(self._url, name=self._name)

    async def sender(self) -> Sender:
        from artel.bus.rabbit import RabbitSender

        return await RabbitSender.connect(self._url, name=f"{self._name}-events")


class LocalConnection:
    """Buses on the broker inside this process."""

    protocol: Literal["amqp", "local"] = "local"

    def __init__(self, broker: LocalBroker, name: str) -> None:
        self._broker = broker
        self._name = name
        self._bus: LocalBus | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def bus(self) -> Bus:
        self._bus, self._loop = LocalBus(self._broker, name=self._name), asyncio.get_running_loop()
        return self._bus

    async def sender(self) -> Sender:
        if self._bus is None or self._loop is None:
            raise RuntimeError("the node connects first")
        return OtherLoopSender(self._bus, self._loop)
