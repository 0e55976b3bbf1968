"""The registry of nodes: finds them by name, type, capability and labels, chooses one for a task, and controls them."""

import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Literal

from sqlalchemy import Connection

from artel.bus.bus import Bus
from artel.bus.topology import control_key
from artel.contract.envelope import Control, Envelope
from artel.contract.node_messages import REGISTRY
from artel.contract.passport import NOT_READY_SECONDS, NodeState
from artel.db.engine import Database
from artel.errors import NodeNotFound, NodeUnreachable
from artel.poller import Poller
from artel.registry import repository
from artel.registry.listener import NodeListener
from artel.registry.monitor import CHECK_SECONDS, Monitor
from artel.registry.node import RegisteredNode
from artel.registry.selectors import Selector
from artel.registry.stop_signal import CONTROL_TTL_SECONDS

CLEAN_UP_SECONDS = 3_600.0
STUCK_SECONDS = 90.0  # three intervals between reports of progress
IDLE_SECONDS = 600.0  # longer than a call of a model or tool

EVERYTHING = Selector()


class NodeRegistry:
    """The nodes of the operator. Every process can read; those that are started also listen to nodes and check them.

    `protocol` is that of the bus. Nodes on an in-process bus can be used only by the process that they are in.
    """

    def __init__(
        self,
        database: Database,
        bus: Bus,
        *,
        protocol: Literal["amqp", "local"] = "amqp",
        stuck_seconds: float = STUCK_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        alerted: Callable[[str], None] = lambda _kind: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._bus = bus
        self._protocol = protocol
        self._monitor = Monitor(database, bus, stuck_seconds, alerted, clock)
        self._listener = NodeListener(database, bus, self._monitor, idle_seconds)
        self._clock = clock
        self._cleaned_up_at = clock() - CLEAN_UP_SECONDS  # so that servers that are often restarted do it, too
        self._checks = Poller("nodes", self.check, CHECK_SECONDS, "nodes_not_checked")

    async def start(self) -> None:
        """Listen to nodes, and check them every few seconds."""
        await self._listener.start()
        self._checks.start()

    async def close(self) -> None:
        """Stop checking and listening; other processes, or the next start, go on."""
        await self._checks.close()
        await self._listener.close()

    async def check(self) -> None:
        """Look for lost nodes and stuck tasks, and once an hour clean up."""
        await self._monitor.check()
        if self._clock() - self._cleaned_up_at >= CLEAN_UP_SECONDS:
            self._cleaned_up_at = self._clock()
            await self._database.run(repository.clean_up)

    async def nodes(
        self,
        selector: Selector = EVERYTHING,
        *,
        node_type: str | None = None,
        capability: str | None = None,
        state: NodeState | None = None,
    ) -> list[RegisteredNode]:
        """Return the nodes that are not forgotten and meet all conditions, by name."""
        found = await self._database.read(repository.find_nodes, node_type=node_type)
        return [
            node
            for node in found
            if (capability is None or capability in node.capabilities)
            and (state is None or node.state is state)
            and selector.matches(node.passport.metadata.labels)
        ]

    async def find(self, name: str) -> RegisteredNode | None:
        """Return a node by its name; None if there is none, or it is forgotten."""
        found = await self._database.read(repository.find_nodes, name=name)
        return found[0] if found else None

    async def get(self, name: str) -> RegisteredNode:
        """Return a node by its name, or raise NodeNotFound."""
        node = await self.find(name)
        if node is None:
            raise NodeNotFound(f"There is no node {name!r}. Run `artel node list` to see all nodes.")
        return node

    async def alive(self, allowed: Collection[str] = ("*",)) -> list[RegisteredNode]:
        """Return the nodes that would take a task from this process now, by name."""
        found = await self._database.read(repository.find_nodes, protocol=self._protocol, newer_than=NOT_READY_SECONDS)
        return [node for node in found if self._is_usable(node, frozenset(), allowed)]

    async def choose(
        self,
        capabilities: Iterable[str] = (),
        *,
        node_type: str | None = None,
        name: str | None = None,
        allowed: Collection[str] = ("*",),
        without: Collection[str] = (),
        accepts: Callable[[RegisteredNode], bool] = lambda _node: True,
    ) -> RegisteredNode | None:
        """Return the least loaded node that takes tasks and has all the capabilities; None if there is none.

        Of nodes that are equally loaded, the one that was not chosen for the longest time is returned. `allowed` are
        globs of names, `without` are names of nodes that were tried already, `accepts` refuses others.
        """
        wanted = frozenset(capabilities)

        def transaction(connection: Connection) -> RegisteredNode | None:
            conditions: dict[str, Any] = {"name": name, "node_type": node_type, "protocol": self._protocol}
            found = repository.find_nodes(connection, **conditions, newer_than=NOT_READY_SECONDS)
            usable = (node for node in found if node.name not in without and self._is_usable(node, wanted, allowed))
            accepted = [node for node in usable if accepts(node)]
            if not accepted:
                return None
            chosen = min(accepted, key=_preference)
            repository.note_chosen(connection, chosen.name)
            return chosen

        return await self._database.run(transaction)

    async def unavailable(
        self,
        capabilities: Iterable[str] = (),
        *,
        node_type: str | None = None,
        name: str | None = None,
        allowed: Collection[str] = ("*",),
        without: Collection[str] = (),
    ) -> list[RegisteredNode]:
        """Return the nodes that have all the capabilities but take no tasks now, and may soon, by name.

        They are paused, are draining, or were heard of a short time ago. The other parameters are those of `choose`.
        """
        wanted = frozenset(capabilities)
        found = await self._database.read(
            repository.find_nodes, name=name, node_type=node_type, protocol=self._protocol, with_gone=True
        )
        able = (node for node in found if not node.takes_tasks and wanted <= node.capabilities)
        return [node for node in able if node.name not in without and _is_allowed(node, allowed)]

    async def epoch_of(self, name: str) -> int:
        """Return the epoch of the newest instance of a name, also if it is gone; 0 if there never was one."""
        return (await self._database.read(repository.newest_instance, name))[1]

    async def control(self, name: str, control: Control) -> None:
        """Send a signal to a node; raise NodeNotFound, NodeUnreachable or BusUnavailable."""
        node = await self.get(name)
        key, envelope = control_key(node.name, control.control_type), Envelope.of(control, source=REGISTRY)
        if not await self._bus.publish(key, envelope, ttl_seconds=CONTROL_TTL_SECONDS):
            raise NodeUnreachable(
                f"Node {name} does not listen; its last heartbeat was {node.heartbeat_age:.0f} s ago. It has ended, or "
                "it uses another message bus than this server."
            )

    def _is_usable(self, node: RegisteredNode, wanted: frozenset[str], allowed: Collection[str]) -> bool:
        return (
            node.takes_tasks
            and wanted <= node.capabilities
            and _is_allowed(node, allowed)
            and (self._protocol == "amqp" or node.uid in self._listener.heard)
        )


def _is_allowed(node: RegisteredNode, allowed: Collection[str]) -> bool:
    return any(fnmatchcase(node.name, pattern) for pattern in allowed)


def _preference(node: RegisteredNode) -> tuple[float, datetime, str]:
    return node.load, node.chosen_at or datetime.min.replace(tzinfo=node.heartbeat_at.tzinfo), node.name
