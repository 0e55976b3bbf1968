"""The registry of nodes on both databases: what nodes say on a bus, who is chosen, what is lost or stuck."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy import select, update

from artel.alerts.transactions import list_alerts
from artel.bus.bus import MAX_DELIVERIES, BusUnavailable, Delivery, QueueSpec
from artel.bus.local import LocalBus
from artel.bus.rabbit import RabbitBus
from artel.contract.envelope import Command, Control, Envelope, Error, Event, Result
from artel.contract.http import PageRequest
from artel.contract.passport import NodeState
from artel.contract.spaces import Alert
from artel.db import retries
from artel.db.node_tables import node_commands, nodes
from artel.db.tables import turns
from artel.errors import DatabaseUnavailable, Kind
from artel.ids import uuid7
from artel.registry import repository
from artel.registry.commands import NewCommand, NodeCommand, NodeCommandRepository
from artel.registry.node import RegisteredNode
from artel.registry.selectors import parse_selector
from artel.registry.service import NodeRegistry
from artel.remote_calls import database_time
from tests.actors.bus_node import SOON, BusNode
from tests.actors.chat_user import ChatUser
from tests.buses import Wire
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio

T = TypeVar("T")
TIMEOUT_SECONDS = 60.5  # of commands
HOUR = 3_600.0
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


@pytest.fixture
async def office(chat: ChatUser) -> AsyncIterator[Office]:
    bus = LocalBus()
    turn = await chat.accept(await chat.session())
    office = Office(chat, bus, None, turn.id)  # type: ignore[arg-type]
    office.registry = office.new_registry()
    await office.registry.start()
    await office.listen(LONG_SECONDS)
    yield office
    await office.registry.close()
    await bus.close(grace_seconds=0)


@pytest.mark.req("AGT-10.4")
async def test_node_that_registers_hears_which_commands_were_given_up_and_may_still_wait_for_it(office: Office) -> None:
    node, other = await office.node("writer-1"), await office.node("writer-2")
    given_up = [await office.send(node, status) for status in ("lost", "cancelled")]
    for status in ("sending", "sent", "answered"):
        await office.send(node, status)
    await office.send(other, "lost")
    expired = await office.send(node, "lost")
    old = update(node_commands).where(node_commands.c.id == expired)
    await office._shift(old, node_commands.c.created_at, TIMEOUT_SECONDS + 1)

    answer = await node.ask("register", passport=node.passport())

    assert isinstance(answer, Result)
    output: Any = answer.output
    assert sorted(output["given_up"]) == sorted(given_up)


@pytest.mark.req("AGT-08.1", "AGT-04.4")
async def test_registered_node_has_its_passport_and_each_instance_a_higher_epoch(office: Office) -> None:
    first = await office.node("writer-1", labels={"env": "test"})
    again = await BusNode(office.bus, "writer-1", uid=first.uid).register()
    second = await office.node("writer-1")

    assert (first.epoch, again.epoch, second.epoch) == (1, 1, 2)
    node = await office.found("writer-1")
    assert (node.uid, node.epoch, node.state, node.node_type) == (second.uid, 2, NodeState.ALIVE, "writer")
    [capability] = node.passport.spec.capabilities
    assert (capability.name, capability.version, capability.parameters) == (
        "write_article",
        "1.2",
        {"languages": ["en"]},
    )
    assert await office.registry.epoch_of("writer-1") == 2


@pytest.mark.req("AGT-08.1")
async def test_late_request_of_an_older_instance_gets_no_epoch_while_the_later_one_lives(office: Office) -> None:
    later = await office.node("writer-1", began="2026-01-01T00:00:01Z")
    older = BusNode(office.bus, "writer-1", began="2026-01-01T00:00:00Z")

    answer = await older.ask("register", passport=older.passport())

    assert isinstance(answer, Error)
    assert answer.error.code == "ABORTED"
    node = await office.found("writer-1")
    assert (node.uid, node.epoch) == (later.uid, 1)
    await later.leave()
    await office.heard(lambda: _is_gone(office, "writer-1"))
    assert (await older.register()).epoch == 2, "a clock that is behind must not keep a node away"


@pytest.mark.req("AGT-08.1")
async def test_name_with_the_address_of_a_live_node_is_refused(office: Office) -> None:
    first = await office.node("agent.writer.001")
    second = BusNode(office.bus, "agent_writer.001")

    answer = await second.ask("register", passport=second.passport())
    await second.beat(with_passport=True)
    await office.node("other")  # handled later than the heartbeat

    assert isinstance(answer, Error)
    assert answer.error.code == "ALREADY_EXISTS"
    assert "agent.writer.001" in answer.error.message
    assert await office.names() == ["agent.writer.001", "other"]
    await first.register()
    await first.leave()
    await office.heard(lambda: _is_gone(office, first.name))
    assert (await second.register()).epoch == 1


@pytest.mark.req("AGT-08.1")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"metadata": None}, "metadata: "),
        ({"metadata": {"uid": "u", "name": "a b", "nodeType": "writer"}}, "metadata.name: 'a b'"),
        ({"metadata": {"uid": "u", "name": "registry", "nodeType": "writer"}}, "metadata.name: 'registry'"),
        ({"metadata": {"uid": "u", "name": "w", "nodeType": "all"}}, "metadata.nodeType: 'all'"),
        ({"labels": "x" * 200_000}, "200000 characters"),
    ],
)
async def test_invalid_passport_is_refused_with_the_field(office: Office, change: dict[str, Any], problem: str) -> None:
    node = BusNode(office.bus, "writer-1")

    answer = await node.ask("register", passport=node.passport() | change)

    assert isinstance(answer, Error)
    assert answer.error.code == "INVALID_ARGUMENT"
    assert problem in answer.error.message
    assert await office.names() == []
    unknown = await node.ask("dance")
    assert isinstance(unknown, Error)
    assert unknown.error.code == "UNIMPLEMENTED"


@pytest.mark.req("AGT-08.2")
async def test_state_follows_from_the_age_of_the_heartbeat(office: Office) -> None:
    node = await office.node("writer-1")
    states: list[NodeState | None] = []
    for seconds in (14, 16, 29, 31, 89, 91):
        await office.age("writer-1", seconds)
        found = await office.registry.find("writer-1")
        states.append(found.state if found else None)

    assert states == ["ALIVE", "NOT_READY", "NOT_READY", "OFFLINE", "OFFLINE", None]
    assert await office.registry.epoch_of("writer-1") == 1, "the epoch of a forgotten node is lost"
    node.tasks, node.phase = ("t1",), "Paused"
    await node.beat()
    await office.heard(lambda: office.registry.find("writer-1"))
    back = await office.found("writer-1")
    assert (back.state, back.passport.status.phase, back.tasks) == (NodeState.ALIVE, "Paused", 1)
    assert not back.takes_tasks
    await node.leave()
    await office.heard(lambda: _is_gone(office, "writer-1"))
    await node.beat()  # overtaken by its own farewell
    await node.say("node.heartbeat", nonsense=True)
    await BusNode(office.bus, "writer-1").beat()  # knows no epoch, and has shown no passport
    assert (await office.node("writer-2")).epoch == 1, "what was sent before is handled now"
    assert await office.names() == ["writer-2"]


async def _is_gone(office: Office, name: str) -> bool:
    return await office.registry.find(name) is None


@pytest.mark.req("AGT-08.2")
async def test_heartbeat_of_a_replaced_instance_is_ignored(office: Office) -> None:
    old = await office.node("writer-1")
    new = await office.node("writer-1")
    await office.age("writer-1", 40)

    await old.beat()
    await old.beat(with_passport=True)
    await office.node("other")  # handled later than the heartbeats

    node = await office.found("writer-1")
    assert (node.uid, node.state) == (new.uid, NodeState.OFFLINE)


@pytest.mark.req("AGT-08.2")
async def test_heartbeat_with_a_passport_registers_a_node_that_the_registry_does_not_know(office: Office) -> None:
    silent, restored = BusNode(office.bus, "silent"), BusNode(office.bus, "restored", epoch=7)
    await silent.beat(with_passport=True)
    await restored.beat(with_passport=True)

    await office.heard(lambda: office.registry.find("silent"))
    await office.heard(lambda: office.registry.find("restored"))
    assert ((await office.found("silent")).epoch, (await office.found("restored")).epoch) == (1, 7)
    assert (await silent.register()).epoch == 1
    for epoch in (0, 2):
        await BusNode(office.bus, "silent", epoch=epoch).beat(with_passport=True)
    await BusNode(office.bus, "claim", epoch=1_000_001).beat(with_passport=True)
    await office.node("other")
    assert (await office.found("silent")).uid == silent.uid, "a heartbeat took the name of a live node"
    assert await office.registry.find("claim") is None, "a heartbeat used up the epochs of a name"


@pytest.mark.req("AGT-08.1")
async def test_names_that_were_silent_for_long_make_room(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "MAX_NODES", 2)
    for name in ("old", "silent"):
        await office.node(name)
    await office.age("silent", 23 * HOUR)

    refused = await BusNode(office.bus, "new").ask("register", passport=BusNode(office.bus, "new").passport())
    assert isinstance(refused, Error)
    assert refused.error.code == "RESOURCE_EXHAUSTED"
    await office.age("old", 25 * HOUR)
    await office.node("new")

    assert [await office.registry.epoch_of(name) for name in ("old", "silent", "new")] == [0, 1, 1]


@pytest.mark.req("AGT-08.3", "AGT-04.4")
async def test_nodes_are_found_by_type_capability_labels_and_state(office: Office) -> None:
    await office.node("critic-1", node_type="critic", capabilities=("review_text",), labels={"env": "test"})
    await office.node("writer-1", capabilities=("write_article", "improve_text"), labels={"cores": "8"})
    await office.node("writer-2", labels={"env": "prod", "cores": "2"})
    await office.age("writer-2", 40)

    assert await office.names(node_type="writer") == ["writer-1", "writer-2"]
    assert await office.names(capability="improve_text") == ["writer-1"]
    assert await office.names(selector=parse_selector("env in (test, prod), !cores")) == ["critic-1"]
    assert await office.names(selector=parse_selector("cores > 2")) == ["writer-1"]
    assert await office.names(state=NodeState.OFFLINE) == ["writer-2"]
    assert await office.names(node_type="poet") == []


@pytest.mark.req("AGT-04.4")
async def test_passport_that_an_earlier_version_took_hides_no_other_node(office: Office) -> None:
    await office.node("writer-1")
    await office.node("writer-2")

    def spoil(connection: Any) -> None:
        of_node = nodes.c.name == "writer-1"
        passport = connection.execute(select(nodes.c.passport).where(of_node)).scalar_one()
        passport["spec"]["maxConcurrentTasks"] = 0
        connection.execute(update(nodes).where(of_node).values(passport=passport))

    await office.chat.database.run(spoil)

    assert await office.names() == ["writer-2"]
    chosen = await office.registry.choose()
    assert chosen is not None
    assert chosen.name == "writer-2"


@pytest.mark.req("AGT-08.3", "AGT-04.4")
async def test_least_loaded_node_with_all_capabilities_is_chosen(office: Office) -> None:
    both = ("write_article", "improve_text")
    busy = await office.node("a-busy", capabilities=both, slots=2, tasks=("t1",))
    await office.node("b-free", capabilities=both, slots=2)
    await office.node("c-free", capabilities=both, slots=2)
    await office.node("d-paused", capabilities=both, phase="Paused")
    await office.node("e-draining", capabilities=both, phase="Draining")
    await office.node("b-without-lock", capabilities=both, ready="False")
    await office.node("f-offline", capabilities=both)
    await office.age("f-offline", 16)
    await office.node("g-less", capabilities=("write_article",))

    async def chosen(capabilities: tuple[str, ...] = both, **conditions: Any) -> str | None:
        node = await office.registry.choose(capabilities, **conditions)
        return node.name if node else None

    assert [await chosen() for _ in range(4)] == ["b-free", "c-free", "b-free", "c-free"]
    for name in ("b-free", "c-free"):
        node = await office.found(name)
        for _ in range(2):
            await office.send(BusNode(office.bus, name, uid=node.uid, epoch=1))
    assert await chosen() == "a-busy", "commands that are on their way do not count"
    busy.tasks = ("t1", "t2", "t3")
    await busy.beat()
    await office.heard(lambda: _has_tasks(office, "a-busy", 3))
    assert await chosen(without=("b-free",)) == "c-free"
    assert await chosen(("write_article",)) == "g-less"
    assert await chosen(allowed=("a-*", "d-*")) == "a-busy"
    assert await chosen(allowed=()) is None
    assert await chosen(accepts=lambda node: node.name.startswith("c")) == "c-free"
    assert await chosen(name="b-free") == "b-free"
    assert await chosen(name="d-paused") is None
    assert await chosen(node_type="critic") is None
    assert await chosen(("dance",)) is None
    assert [node.name for node in await office.registry.alive(("?-free",))] == ["b-free", "c-free"]


@pytest.mark.req("AGT-08.3")
async def test_nodes_that_take_no_tasks_now_are_told_from_those_that_never_will(office: Office) -> None:
    both = ("write_article", "improve_text")
    await office.node("a-free", capabilities=both)
    await office.node("b-paused", capabilities=both, phase="Paused")
    await office.node("c-without-lock", capabilities=both, ready="False")
    await office.node("d-blocked", capabilities=both, blocked_seconds=20.0)
    await office.node("d-draining", capabilities=both, phase="Draining")
    gone = await office.node("e-gone", capabilities=both)
    await office.chat.database.run(repository.deregister, gone.name, gone.uid)
    for name, age in (("f-silent", 40), ("g-forgotten", 100)):
        await office.node(name, capabilities=both)
        await office.age(name, age)
    await office.node("h-less", capabilities=("write_article",), phase="Paused")

    async def away(**conditions: Any) -> list[tuple[str, bool]]:
        return [(node.name, node.is_paused) for node in await office.registry.unavailable(both, **conditions)]

    waiting = [("b-paused", True), ("c-without-lock", True)]
    names = ("d-blocked", "d-draining", "e-gone", "f-silent")
    assert await away() == [*waiting, *((name, False) for name in names)]
    assert await away(allowed=("b-*", "c-*"), without=("c-without-lock",)) == waiting[:1]
    assert await away(name="e-gone") == [("e-gone", False)]
    assert await away(node_type="critic") == []
    assert "e-gone" not in await office.names()


async def _has_tasks(office: Office, name: str, count: int) -> bool:
    return (await office.found(name)).tasks == count


async def test_node_on_the_bus_of_another_process_is_not_chosen(office: Office, chat: ChatUser) -> None:
    await office.node("writer-1")
    await office.node("remote", protocol="amqp")
    other_bus = LocalBus()
    other = NodeRegistry(chat.database, other_bus, protocol="local")

    assert await other.find("writer-1") is not None
    assert await other.choose(("write_article",)) is None
    chosen = await office.registry.choose(("write_article",))
    assert chosen is not None
    assert chosen.name == "writer-1"
    await other_bus.close()


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
    await office.heard(lambda: _phase_is(office, command_id, "critique"))
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


async def _phase_is(office: Office, command_id: str, phase: str) -> bool:
    return (await office.command(command_id)).phase == phase


@pytest.mark.req("AGT-10.4")
async def test_task_that_waits_for_a_slot_or_reports_no_progress_is_not_stuck(office: Office) -> None:
    full = await office.node("full", tasks=("another",))
    quiet = await office.node("quiet", slots=5)
    waiting, working = await office.send(full), await office.send(quiet)
    quiet.tasks = (working,)
    await quiet.beat()
    await office.heard(lambda: _has_tasks(office, "quiet", 1))
    for command_id in (waiting, working):
        await office.silence(command_id, 200)

    assert await office.alerts() == []
    await full.progress(waiting)
    await office.heard(lambda: _phase_is(office, waiting, "execute"))
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
        await office.heard(lambda: _phase_is(office, command_id, phase))
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
    await office.heard(lambda: _is_gone(office, "leaving"))

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
    await office.heard(lambda: _is_gone(office, node.name))


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


@pytest.mark.req("AGT-10.4")
async def test_progress_of_an_older_instance_or_another_node_does_not_count(office: Office) -> None:
    old = await office.node("writer-1")
    new, other = await office.node("writer-1"), await office.node("writer-2")
    command_id = await office.send(new)

    await old.progress(command_id, "old")
    await other.progress(command_id, "other")
    await new.progress((await office.command(command_id)).task_id, "new")

    assert await office.heard(lambda: _phase_is(office, command_id, "new"))


async def test_commands_are_their_owners_and_change_their_status_once(office: Office, chat: ChatUser) -> None:
    node = await office.node("writer-1")
    command_id = await office.send(node, "sending")
    command = await office.command(command_id)
    stranger = type(chat.user)(chat.user.user_id + 1)

    def read(connection: Any, user: Any) -> list[Any]:
        commands = NodeCommandRepository(connection, user)
        return [commands.get(command_id), commands.of_task(command.task_id), commands.of_turn(office.turn_id)]

    assert await chat.database.read(read, chat.user) == [command, [command], [command]]
    assert await chat.database.read(read, stranger) == [None, [], []]
    answer = Envelope.of(Result(output="Hi"), source=node.name)
    assert await chat.database.of(chat.user).run(lambda tx: NodeCommandRepository(tx).answered(command_id, answer))
    assert not await office.move(command_id, "lost")
    answered = await office.command(command_id)
    assert (answered.status, answered.answer, answered.command) == ("answered", answer, command.command)


@pytest.mark.req("AGT-07.2")
async def test_task_of_a_turn_that_ended_without_its_host_is_stopped(office: Office, chat: ChatUser) -> None:
    node = await office.node("writer-1")
    await node.listen()
    running, left, done = await _of_an_ended_turn(office, chat, node)

    await office.registry.check()
    assert (await office.command(left)).status == "sent", "its host may still do it"
    await office.end_earlier(60)
    await office.registry.check()

    signal = await node.signalled()
    assert (signal.control_type, signal.parameters) == ("stop", {"task_id": left})
    assert [(await office.command(each)).status for each in (running, left, done)] == ["sent", "cancelled", "answered"]
    assert (await office.found("writer-1")).open_commands == 1
    await office.registry.check()
    assert node.signals == []


@pytest.mark.req("AGT-07.2")
async def test_node_that_could_not_be_told_to_stop_a_task_is_told_later(
    office: Office, chat: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await office.node("writer-1")
    await node.listen()
    _, left, _ = await _of_an_ended_turn(office, chat, node)
    await office.end_earlier(60)

    async def fails(*_: object, **__: object) -> bool:
        raise BusUnavailable("The message broker didn't answer.")

    with monkeypatch.context() as outage:
        outage.setattr(office.bus, "publish", fails)
        await office.registry.check()
    assert (await office.command(left)).status == "sent"
    await office.registry.check()

    assert (await node.signalled()).parameters == {"task_id": left}
    assert (await office.command(left)).status == "cancelled"


async def _of_an_ended_turn(office: Office, chat: ChatUser, node: BusNode) -> tuple[str, str, str]:
    """Return a command of a turn that runs, and two of one that has ended: without an answer, and with one."""
    session = await chat.session()
    turn = await chat.accept(session)
    await chat.start(session, turn.id)
    running = await office.send(node)
    office.turn_id = turn.id
    left, answered = await office.send(node), await office.send(node)
    await office.move(answered, "answered")
    assert await chat.finish(session, turn.id)
    return running, left, answered


@pytest.mark.req("UWS-10.3")
async def test_lost_node_without_tasks_is_counted_once(office: Office) -> None:
    await office.node("idle")
    await office.node("leaving")
    await office.age("idle", 31)

    await office.listen(60)

    assert office.alerted == ["node_lost"]


async def test_cleaning_up_deletes_old_rows(office: Office, chat: ChatUser) -> None:
    node = await office.node("writer-1")
    running, left, answered = await _of_an_ended_turn(office, chat, node)
    for command_id in (running, left, answered):
        await office.silence(command_id, 25 * HOUR)
    await office.age(node.name, 32 * 24 * HOUR)

    await NodeRegistry(chat.database, office.bus).check()  # the first one of a process

    assert ((await office.command(running)).status, (await office.command(left)).status) == ("sent", "sent")
    assert await chat.database.read(lambda c: NodeCommandRepository(c, chat.user).get(answered)) is None
    assert await office.registry.epoch_of("writer-1") == 0


@pytest.mark.req("AGT-07.2")
@pytest.mark.any_database
async def test_control_says_that_the_broker_is_away(office: Office, services: ServiceRun) -> None:
    await office.node("writer-1")
    wire = Wire(services.rabbitmq())
    bus = await RabbitBus.connect(await wire.up(), name="tests", deadline_seconds=5)
    registry = NodeRegistry(office.chat.database, bus)
    await wire.down()

    with pytest.raises(BusUnavailable) as refused:
        await registry.control("writer-1", Control(control_type="pause"))

    assert (refused.value.kind, refused.value.code) == (Kind.UNAVAILABLE, "bus_unavailable")
    await bus.close(grace_seconds=0)
