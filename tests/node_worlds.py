"""Nodes for tests: started in the test's process, on the bus inside it or on RabbitMQ, and who sends them commands."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from pydantic import SecretStr

from artel.brain.brain import Brain, Completion, Request
from artel.bus.bus import DEFAULT_TTL_SECONDS, Bus, Delivery, QueueSpec
from artel.bus.local import LocalBroker, LocalBus
from artel.bus.rabbit import RabbitBus
from artel.bus.topology import command_key, reply_queue
from artel.contract.agent_file import AgentFile
from artel.contract.envelope import Command, Envelope, Error, Result
from artel.nodes.connection import LocalConnection, NodeConnection, RabbitConnection
from artel.nodes.node import AgentNode
from artel.settings import Settings
from artel.tools.node_approvals import ApprovedCall
from artel.tools.policy import arguments_hash
from tests.agents import Reply, ScriptedBrain

NODE_KEY = SecretStr("the key of the server and its nodes in tests")
SOON = 120.0  # timeout that only a broken test reaches

ARTICLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "topic": {"type": "string", "minLength": 1},
        "style": {"type": "string", "enum": ["formal", "casual"], "default": "formal"},
        "length": {"type": "integer", "minimum": 1, "default": 1000},
    },
    "required": ["topic"],
    "additionalProperties": False,
}
CATS = {"topic": "cats"}


def capability(**fields: Any) -> dict[str, Any]:
    return {"name": "write_article", "input_schema": ARTICLE, "prompt_template": "Write about {topic}.", **fields}


def node_file(**sections: Any) -> AgentFile:
    """Return the file of an agent with a name and a type of its own, because tests share the broker."""
    mark = uuid4().hex[:12]
    capability = {
        "name": "write_article",
        "input_schema": ARTICLE,
        "prompt_template": 'Write about "{topic}" in a {style} style, {length} words.',
    }
    fields: dict[str, Any] = {
        "name": f"agent.writer.n{mark}",
        "type": f"writer_{mark}",
        "brain": {"model": "gpt-4", "system_prompt": "You are a writer."},
        "capabilities": [capability],
        "registry": {"enabled": False},
    }
    return AgentFile.model_validate(fields | sections)


class NodeBrain(ScriptedBrain):
    """Follows a script; documents of capabilities come from scripts of their own."""

    def __init__(self, *script: Reply, documents: dict[str, list[Reply]] | None = None) -> None:
        super().__init__(*script)
        self._documents = {name: list(replies) for name, replies in (documents or {}).items()}

    def _next(self, request: Request) -> Reply:
        name = request.response_format.name if request.response_format else ""
        if self._documents.get(name):
            return self._documents[name].pop(0)
        return super()._next(request)


class HeldBrain(ScriptedBrain):
    """Completes when the test lets it; structured questions at once."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def complete(self, request: Request, stream: Any = None) -> Completion:
        if request.response_format is None:
            self.begun.set()
            await self.go_on.wait()
        return await super().complete(request, stream)


class World(Protocol):
    """A broker."""

    def connection(self, name: str) -> NodeConnection: ...

    async def bus(self) -> Bus: ...

    async def close(self) -> None: ...


class LocalWorld:
    """A broker inside the process."""

    def __init__(self) -> None:
        self.broker = LocalBroker()
        self._buses: list[Bus] = []

    def connection(self, name: str) -> NodeConnection:
        return LocalConnection(self.broker, name)

    async def bus(self) -> Bus:
        self._buses.append(LocalBus(self.broker, name="client"))
        return self._buses[-1]

    async def close(self) -> None:
        for bus in self._buses:
            await bus.close(grace_seconds=0)


class RabbitWorld:
    """RabbitMQ."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._buses: list[Bus] = []

    def connection(self, name: str) -> NodeConnection:
        return RabbitConnection(self._url, name)

    async def bus(self) -> Bus:
        self._buses.append(await RabbitBus.connect(self._url, name="client"))
        return self._buses[-1]

    async def close(self) -> None:
        for bus in self._buses:
            await bus.close(grace_seconds=0)


class Client:
    """Sends commands and collects every answer, also one that comes twice."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.answers: list[Envelope] = []
        self.queue = reply_queue(f"client-{uuid4().hex}")
        self._changed = asyncio.Condition()

    async def open(self) -> None:
        spec = QueueSpec(self.queue, (), exclusive=True, durable=False)
        await self.bus.subscribe(spec, self._receive)

    async def send(self, key: str, action: str, params: dict[str, Any], **fields: Any) -> Envelope:
        """Send a command and return it; some fields are those of the message."""
        subject, age = fields.pop("subject", None), fields.pop("age_seconds", 0.0)
        message_id, ttl_seconds = fields.pop("message_id", None), fields.pop("ttl_seconds", DEFAULT_TTL_SECONDS)
        command = Command.model_validate({"action": action, "params": params, **fields})
        envelope = Envelope.of(command, source="client", subject=subject, message_id=message_id)
        if age:
            written = datetime.fromtimestamp(datetime.now(UTC).timestamp() - age, UTC)
            envelope = envelope.model_copy(update={"time": written})
        about = {"reply_to": self.queue, "correlation_id": envelope.id}
        assert await self.bus.publish(key, envelope, ttl_seconds=ttl_seconds, **about)
        return envelope

    async def ask(self, node: AgentNode, action: str, params: dict[str, Any], **fields: Any) -> Envelope:
        """Send a command to a node and return its answer."""
        before = len(self.answers)
        await self.send(command_key(node.name, action), action, params, **fields)
        return (await self.received(before + 1))[before]

    async def received(self, count: int) -> list[Envelope]:
        """Wait for that many answers and return all."""
        async with asyncio.timeout(SOON), self._changed:
            await self._changed.wait_for(lambda: len(self.answers) >= count)
        return list(self.answers)

    async def answers_to(self, command: Envelope) -> list[Envelope]:
        """Wait for an answer to a command without a subject, and return all that came."""

        def found() -> list[Envelope]:
            return [answer for answer in self.answers if answer.subject == command.id]

        async with asyncio.timeout(SOON), self._changed:
            await self._changed.wait_for(lambda: bool(found()))
        return found()

    async def _receive(self, delivery: Delivery) -> None:
        async with self._changed:
            self.answers.append(delivery.envelope)
            self._changed.notify_all()


class Nodes:
    """The nodes of a test, and their client."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.settings = Settings(data_dir=folder, node_key=NODE_KEY)
        self._nodes: list[AgentNode] = []
        self._client: Client | None = None

    async def start(self, file: AgentFile | None = None, brain: Brain | None = None, **settings: Any) -> AgentNode:
        """Start a node; nodes of the same name share their folder, as they do on one machine."""
        file, is_embedded = file or node_file(), settings.pop("is_embedded", False)
        chosen = self.settings.model_copy(update=settings)
        connection = self.world.connection(file.name)
        node = AgentNode(file, connection, brain or NodeBrain(), chosen, is_embedded=is_embedded)
        await node.start()
        self._nodes.append(node)
        return node

    async def client(self) -> Client:
        if self._client is None:
            self._client = Client(await self.world.bus())
            await self._client.open()
        return self._client

    async def close(self) -> None:
        for node in self._nodes:
            if not node.finished.done():
                await node.stop("the test is over", grace_seconds=0)
        await self.world.close()


def approved(node: AgentNode, call: dict[str, Any], /, **changes: Any) -> dict[str, Any]:
    """Return that a person has approved a call, as a worker space without a tenant tells it; changes make it wrong."""
    changes = {"key": NODE_KEY, "seconds": 600, "name": call["name"], "arguments": call["arguments"]} | changes
    key, seconds = changes.pop("key"), changes.pop("seconds")
    tool, arguments = changes.pop("name"), json.loads(changes.pop("arguments"))
    fields = {"user_id": None, "project_id": None, "task_id": "task-1", "call_id": call["id"], "node": node.name}
    signed = ApprovedCall(tool=tool, arguments_hash=arguments_hash(tool, arguments), **fields | changes)
    approval = signed.approval(key, int(time.time()) + seconds)
    return {"id": call["id"], "approved": True, "approval": approval.model_dump()}


def output_of(answer: Envelope) -> Any:
    """Return the output of a RESULT."""
    assert isinstance(answer.data, Result), answer.data
    return answer.data.output


def code_of(answer: Envelope) -> str:
    """Return the code of an ERROR."""
    assert isinstance(answer.data, Error), answer.data
    return answer.data.error.code


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition of the process itself is true."""
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
