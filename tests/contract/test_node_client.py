"""Contract of commands to nodes: sent until they are answered, by the instance that the registry knows."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import Engine, event
from structlog.testing import capture_logs

from artel.bus.bus import MAX_DELIVERIES, Delivery, QueueSpec
from artel.bus.local import LocalBroker, LocalBus
from artel.bus.receiver import Received
from artel.bus.topology import command_queue, commands_of, event_key, signals_to
from artel.contract.agent_file import AgentFile
from artel.contract.envelope import MAX_BYTES, Command, Control, Envelope, Error, Event, Result
from artel.contract.node_messages import Progress
from artel.db import retries
from artel.errors import DatabaseUnavailable, ServerBusy
from artel.ids import uuid7
from artel.nodes.status import NodeStatus
from artel.registry import node_client, repository
from artel.registry.commands import NewCommand, NodeCommandRepository, Problem
from artel.registry.node_client import NodeClient, NodeLost
from artel.registry.service import NodeRegistry
from tests.actors.chat_user import ChatUser
from tests.node_worlds import until

pytestmark = [pytest.mark.anyio, pytest.mark.any_database]

NAME = "agent.composer.001"
FILE = AgentFile.model_validate(
    {
        "name": NAME,
        "type": "composer",
        "brain": {"model": "gpt-4o", "system_prompt": "You compose."},
        "capabilities": [{"name": "compose"}],
    }
)


@dataclass
class Scene:
    """A registered node that the test plays, and a client with commands for it."""

    chat: ChatUser
    broker: LocalBroker
    bus: LocalBus
    client: NodeClient
    deliveries: list[Delivery] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    progress: list[Progress] = field(default_factory=list)

    async def register(self) -> int:
        """Register a new instance of the node and return its epoch."""
        return await self.chat.database.run(repository.register, NodeStatus(FILE, "local").passport())

    async def take(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.arrived.set()

    async def command(self, epoch: int = 1, number: int = 0) -> NewCommand:
        session = await self.chat.session()
        turn = await self.chat.accept(session)
        ids = uuid7(), self.chat.project_id, turn.id, turn.id, 0, number
        new = NewCommand(*ids, NAME, "uid", epoch, Command(action="answer"))
        await self.chat.database.of(self.chat.user).run(lambda tx: NodeCommandRepository(tx).add(new))
        return new

    @asynccontextmanager
    async def asking(self, new: NewCommand) -> AsyncIterator["asyncio.Task[Envelope]"]:
        """Ask, and wait until the command has arrived."""
        self.arrived.clear()
        deadline = time.monotonic() + 60
        ask = self.client.ask(self.chat.user, new, deadline, self.progress.append)
        asking = asyncio.get_running_loop().create_task(ask)
        try:
            await asyncio.wait({asyncio.ensure_future(self.arrived.wait()), asking}, return_when="FIRST_COMPLETED")
            yield asking
        finally:
            asking.cancel()

    async def reply(self, text: str, epoch: int | None, delivery: Delivery | None = None) -> None:
        """Send an answer to a delivery, by default the last one."""
        answer = Envelope.of(Result(output=text), source=NAME, nodeuid="uid", nodeepoch=epoch)
        assert await self.bus.reply(delivery or self.deliveries[-1], answer)

    async def status_of(self, command: NewCommand) -> str:
        found = await self.chat.database.read(lambda c: NodeCommandRepository(c, self.chat.user).get(command.id))
        assert found is not None
        return found.status


@pytest.fixture
async def scene(chat: ChatUser, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(node_client, "LOOK_SECONDS", 0.01)
    broker = LocalBroker()
    bus, node_bus = LocalBus(broker), LocalBus(broker, name=NAME)
    client = NodeClient(bus, chat.database, NodeRegistry(chat.database, bus, protocol="local"))
    await client.start()
    made = Scene(chat, broker, node_bus, client)
    await made.register()
    await node_bus.subscribe(QueueSpec(command_queue(NAME), (commands_of(NAME),)), made.take, at_once=10)
    yield made
    await client.close()
    for each in (bus, node_bus):
        await each.close(grace_seconds=0)


@pytest.mark.req("AGT-10.5", "AGT-07.1")
async def test_answer_of_an_older_instance_is_refused(scene: Scene) -> None:
    command = await scene.command()
    async with scene.asking(command) as asking:
        assert await scene.register() == 2  # the node was started again

        for older in (1, 0, None):
            await scene.reply("Old.", older)
        await scene.reply("New.", 2)

        answer = await asyncio.wait_for(asking, 30)
    assert isinstance(answer.data, Result)
    assert answer.data.output == "New."


@pytest.mark.req("AGT-10.1")
async def test_answer_that_comes_while_the_database_is_away_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)
    failures = 0

    async def fails(_database: object, query: object, *_: object) -> None:
        nonlocal failures
        failures += query is repository.newest_instance
        raise DatabaseUnavailable("The database can't be reached.")

    command = await scene.command()
    async with scene.asking(command) as asking:
        with monkeypatch.context() as outage:
            outage.setattr(type(scene.chat.database), "read", fails)
            await scene.reply("Done.", 1)
            await until(lambda: failures > MAX_DELIVERIES)

        answer = await asyncio.wait_for(asking, 30)
    assert isinstance(answer.data, Result)
    assert len(scene.deliveries) == 1, "the answer was lost, and the command sent again"


@pytest.mark.req("AGT-07.1")
async def test_node_that_was_not_sent_a_command_can_not_answer_it(scene: Scene) -> None:
    first, second = await scene.command(), await scene.command()
    async with scene.asking(first) as asking, scene.asking(second) as another:
        of_first, of_second = scene.deliveries
        # Reports of progress, which every node can read, name all commands.
        for guess in (first.id, f"{first.id}.", f"{first.id}{(of_second.correlation_id or '')[len(second.id) :]}", ""):
            await scene.reply("Forged.", 1, replace(of_second, correlation_id=guess))
        await scene.reply("Of the second.", 1, of_second)
        await scene.reply("Of the first.", 1, of_first)
        answers = await asyncio.wait_for(asyncio.gather(asking, another), 30)
    assert [answer.data.output for answer in answers if isinstance(answer.data, Result)] == [
        "Of the first.",
        "Of the second.",
    ]


@pytest.mark.req("AGT-07.1")
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"x" * (MAX_BYTES + 1), "bytes"),
        (b"[" * 100_000, "not JSON"),
        (b'{"type": "ai.team.result", "source": "a", "data": {"metrics": {"cost_usd": -5}}}', "cost_usd"),
        (Envelope.of(Event(event_type="a"), source=NAME).to_bytes(), "ai.team.event"),
    ],
    ids=["too large", "too deep", "negative cost", "event"],
)
async def test_answer_that_can_not_be_read_ends_the_command_at_once(scene: Scene, body: bytes, problem: str) -> None:
    command = await scene.command()
    async with scene.asking(command) as asking:
        [sent] = scene.deliveries
        assert sent.reply_to is not None
        unreadable = Received(body, sent.reply_to, None, sent.correlation_id, attempt=1)
        assert scene.broker.publish(unreadable, 60, sent.reply_to)
        answer = await asyncio.wait_for(asking, 30)
    assert isinstance(answer.data, Error)
    assert answer.data.error.retryable  # by another node
    assert problem in answer.data.error.message


@pytest.mark.req("AGT-10.1")
async def test_command_is_sent_again_with_the_same_id_until_it_is_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_client, "REPEAT_SECONDS", 0.01)
    command = await scene.command()
    async with scene.asking(command) as asking:
        while len(scene.deliveries) < 3:
            scene.arrived.clear()
            await asyncio.wait_for(scene.arrived.wait(), 30)
        assert await scene.status_of(command) == "sent"
        await scene.reply("Done.", 1)
        await asyncio.wait_for(asking, 30)
    assert {delivery.envelope.id for delivery in scene.deliveries} == {command.id}


@pytest.mark.req("AGT-10.1")
async def test_command_is_not_sent_again_while_its_node_tells_that_it_works_on_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []
    command, status = await scene.command(), NodeStatus(FILE, "local")
    status.began(command.id, "answer")
    await scene.chat.database.run(repository.register, status.passport())
    command = replace(command, node_uid=status.uid)

    def look(*arguments: Any) -> Any:
        looks.append(arguments)
        return repository.look_at(*arguments)

    monkeypatch.setattr(node_client, "REPEAT_SECONDS", 0.0)
    monkeypatch.setattr(node_client, "look_at", look)
    async with scene.asking(command):
        await until(lambda: len(looks) >= 3)
        assert len(scene.deliveries) == 1

        status.ended(command.id)  # its answer got lost
        scene.arrived.clear()
        await scene.chat.database.run(repository.beat, NAME, status.uid, 0, status.status())
        await asyncio.wait_for(scene.arrived.wait(), 30)


@pytest.mark.req("AGT-10.1", "AGT-10.4")
async def test_command_of_a_node_that_is_restarted_again_and_again_is_given_up_without_copies(scene: Scene) -> None:
    registered = (await scene.chat.database.read(repository.find_nodes, name=NAME))[0]
    command = replace(await scene.command(), node_uid=registered.uid)
    with capture_logs() as logs:
        async with scene.asking(command) as asking:
            for restarts in (1, 2, 3):
                await scene.register()
                await until(lambda count=restarts: [line["event"] for line in logs].count("node_restarted") >= count)  # type: ignore[misc]
            with pytest.raises(NodeLost, match="restarted"):
                await asyncio.wait_for(asking, 30)
    assert len(scene.deliveries) == 1


@pytest.mark.req("AGT-10.1")
async def test_command_is_sent_again_when_the_answer_of_an_older_instance_was_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_client, "REPEAT_SECONDS", 1e9)
    command = await scene.command()
    async with scene.asking(command):
        await scene.register()
        scene.arrived.clear()
        await scene.reply("Old.", 1)
        await asyncio.wait_for(scene.arrived.wait(), 30)
    assert [delivery.envelope.id for delivery in scene.deliveries] == [command.id] * 2


@pytest.mark.req("AGT-10.4")
@pytest.mark.parametrize("problem", ["lost", "stuck"])
async def test_command_is_given_up_when_the_registry_gives_up_its_node(scene: Scene, problem: str) -> None:
    command = await scene.command()
    async with scene.asking(command) as asking:
        await scene.chat.database.run(repository.mark, problem, [command.id])  # type: ignore[arg-type]
        with pytest.raises(NodeLost, match=problem):
            await asyncio.wait_for(asking, 30)


@pytest.mark.req("AGT-10.4")
@pytest.mark.parametrize("problem", ["lost", "stuck"])
async def test_without_failover_the_late_answer_of_a_lost_node_counts(
    scene: Scene, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Problem | None] = []

    def look(*arguments: Any) -> Any:
        looks = repository.look_at(*arguments)
        seen.extend(look.problem for look in looks.values())
        return looks

    monkeypatch.setattr(node_client, "look_at", look)
    registry, bus = scene.client.registry, LocalBus(scene.broker)
    scene.client = NodeClient(bus, scene.chat.database, registry, fails_over=False)
    await scene.client.start()
    command = await scene.command()
    async with scene.asking(command) as asking:
        await scene.chat.database.run(repository.mark, problem, [command.id])
        await until(lambda: seen.count(problem) >= 3 or asking.done())
        assert not asking.done()

        await scene.reply("Late.", 1)

        answer = await asyncio.wait_for(asking, 30)
    assert isinstance(answer.data, Result)
    assert answer.data.output == "Late."
    await scene.client.close()
    await bus.close(grace_seconds=0)


@pytest.mark.req("AGT-10.3")
async def test_progress_of_the_task_is_passed_on(scene: Scene) -> None:
    command = await scene.command()
    async with scene.asking(command):
        for task_id in ("another", command.id):
            progress = Progress(task_id=task_id, elapsed_seconds=1, phase="execute", node=NAME)
            report = Event(event_type="task.progress", event_data=progress.model_dump())
            await scene.bus.publish(event_key("task", "progress"), Envelope.of(report, source=NAME))
        while not scene.progress:  # noqa: ASYNC110 - the handler runs in this loop
            await asyncio.sleep(0)
    assert [progress.task_id for progress in scene.progress] == [command.id]


@pytest.mark.req("AGT-10.4")
async def test_one_query_looks_after_all_commands_and_reads_no_contents(scene: Scene) -> None:
    commands = [await scene.command() for _ in range(3)]
    queries: list[tuple[str, str]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_context: Any) -> None:
        if "FROM node_commands" in statement:
            queries.append((statement, str(parameters)))

    async with scene.asking(commands[0]), scene.asking(commands[1]), scene.asking(commands[2]):
        event.listen(Engine, "before_cursor_execute", note)
        try:
            async with asyncio.timeout(30):
                while len(queries) < 4:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        finally:
            event.remove(Engine, "before_cursor_execute", note)
    for statement, parameters in queries[1:]:  # the first may have begun before the last command
        assert all(command.id in parameters for command in commands)
        assert "node_commands.command" not in statement
        assert "passport" not in statement


async def test_commands_of_a_project_are_limited(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_client, "MAX_IN_FLIGHT_OF_PROJECT", 1)
    first, second = await scene.command(), await scene.command()
    async with scene.asking(first), scene.asking(second) as asking:
        with pytest.raises(ServerBusy):
            await asyncio.wait_for(asking, 30)
    monkeypatch.setattr(node_client, "MAX_IN_FLIGHT_OF_PROJECT", 2)
    async with scene.asking(second):  # the first one left its place
        assert len(scene.deliveries) == 2


async def test_node_is_told_to_stop_a_task(scene: Scene) -> None:
    signals: list[Delivery] = []
    heard = asyncio.Event()

    async def control(delivery: Delivery) -> None:
        signals.append(delivery)
        heard.set()

    queue = QueueSpec("control", (signals_to(NAME),), exclusive=True, durable=False)
    await scene.bus.subscribe(queue, control)

    await scene.client.stop(NAME, "task-1", "cancelled")

    await asyncio.wait_for(heard.wait(), 30)
    [delivery] = signals
    assert isinstance(delivery.envelope.data, Control)
    assert delivery.envelope.data.parameters == {"task_id": "task-1"}
