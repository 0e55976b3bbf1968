"""A registry of nodes and its bus, for tests."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import update

from artel.alerts.transactions import list_alerts
from artel.bus.local import LocalBus
from artel.contract.envelope import Command
from artel.contract.http import PageRequest
from artel.contract.spaces import Alert
from artel.db.node_tables import node_commands, nodes
from artel.db.tables import turns
from artel.ids import uuid7
from artel.registry.commands import NewCommand, NodeCommand, NodeCommandRepository
from artel.registry.node import RegisteredNode
from artel.registry.service import NodeRegistry
from artel.remote_calls import database_time
from tests.actors.bus_node import SOON, BusNode
from tests.actors.chat_user import ChatUser

T = TypeVar("T")
TIMEOUT_SECONDS = 60.5  # of commands
CHECK_SECONDS = 10.0  # the longest time between two checks that are in time
LONG_SECONDS = 200.0  # longer than any silence that has to be noticed


@dataclass
class Office:
    """A registry and its bus, on the database of a user with a running turn."""

    chat: ChatUser
    bus: LocalBus
    registry: NodeRegistry
    turn_id: str
    seconds: float = 0.0  # since the registry listens
    numbers: list[int] = field(default_factory=list)
    alerted: list[str] = field(default_factory=list)  # kinds of alerts, as monitoring counts them

    def new_registry(self) -> NodeRegistry:
        """Return a registry that begins to listen now."""
        alerted, clock = self.alerted.append, lambda: self.seconds
        return NodeRegistry(self.chat.database, self.bus, protocol="local", alerted=alerted, clock=clock)

    async def listen(self, seconds: float) -> None:
        """Let the registry listen and check the nodes for this long."""
        until = self.seconds + seconds
        while self.seconds < until:
            self.seconds = min(until, self.seconds + CHECK_SECONDS)
            await self.registry.check()

    async def node(self, name: str, **fields: Any) -> BusNode:
        return await BusNode(self.bus, name, **fields).register()

    async def heard(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Wait until an event that was sent has been handled."""
        async with asyncio.timeout(SOON):
            while not (answer := await ask()):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return answer

    async def found(self, name: str) -> RegisteredNode:
        found = await self.registry.find(name)
        assert found is not None, f"{name} is not known"
        return found

    async def is_gone(self, name: str) -> bool:
        return await self.registry.find(name) is None

    async def has_tasks(self, name: str, count: int) -> bool:
        return (await self.found(name)).tasks == count

    async def phase_is(self, command_id: str, phase: str) -> bool:
        return (await self.command(command_id)).phase == phase

    async def names(self, **conditions: Any) -> list[str]:
        return [node.name for node in await self.registry.nodes(**conditions)]

    async def age(self, name: str, seconds: float) -> None:
        """Let the last heartbeat of a node be this old."""
        await self._shift(update(nodes).where(nodes.c.name == name), nodes.c.heartbeat_at, seconds)

    async def silence(self, command_id: str, seconds: float) -> None:
        """Let the last progress of a command be this old, or its sending."""
        command = await self.command(command_id)
        column = node_commands.c.updated_at if command.progress_at is None else node_commands.c.progress_at
        changed = update(node_commands).where(node_commands.c.id == command_id)
        await self._shift(changed, node_commands.c.updated_at, seconds)
        if column is node_commands.c.progress_at:
            await self._shift(changed, column, seconds)

    async def _shift(self, statement: Any, column: Any, seconds: float) -> None:
        def run(connection: Any) -> None:
            then = database_time(connection) - timedelta(seconds=seconds)
            connection.execute(statement.values({column.name: then}))

        await self.chat.database.run(run)

    async def end_earlier(self, seconds: float) -> None:
        """Let the turn have ended this long ago."""
        await self._shift(update(turns).where(turns.c.id == self.turn_id), turns.c.finished_at, seconds)

    async def send(self, node: BusNode, status: str = "sent") -> str:
        """Store a command to a node and return its id."""
        self.numbers.append(len(self.numbers))
        command = NewCommand(
            id=uuid7(),
            project_id=self.chat.project_id,
            turn_id=self.turn_id,
            task_id=f"{self.turn_id}:{len(self.numbers)}",
            step=0,
            attempt=0,
            node_name=node.name,
            node_uid=node.uid,
            node_epoch=node.epoch,
            command=Command(action="answer", params={"text": "Hello"}, timeout_seconds=TIMEOUT_SECONDS),
        )
        await self.chat.database.of(self.chat.user).run(lambda tx: NodeCommandRepository(tx).add(command, status))  # type: ignore[arg-type]
        return command.id

    async def command(self, command_id: str) -> NodeCommand:
        found = await self.chat.database.read(lambda c: NodeCommandRepository(c, self.chat.user).get(command_id))
        assert found is not None
        return found

    async def move(self, command_id: str, status: str, **values: Any) -> bool:
        return await self.chat.database.of(self.chat.user).run(
            lambda tx: NodeCommandRepository(tx).move(command_id, ("sending", "sent"), status, **values)  # type: ignore[arg-type]
        )

    async def alerts(self) -> list[Alert]:
        """Check the nodes, and return the alerts of the project, oldest first."""
        await self.registry.check()
        page = await self.chat.database.read(list_alerts, self.chat.user, self.chat.project_id, PageRequest(100))
        return page.items[::-1]
