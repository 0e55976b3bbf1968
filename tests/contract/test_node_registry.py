"""The registry of nodes on both databases: who registers, what nodes say, and who is chosen."""

from typing import Any

import pytest
from sqlalchemy import select, update

from artel.bus.local import LocalBus
from artel.contract.envelope import Error, Result
from artel.contract.passport import NodeState
from artel.db.node_tables import node_commands, nodes
from artel.registry import repository
from artel.registry.selectors import parse_selector
from artel.registry.service import NodeRegistry
from tests.actors.bus_node import BusNode
from tests.actors.chat_user import ChatUser
from tests.actors.office import TIMEOUT_SECONDS, Office

pytestmark = pytest.mark.anyio
HOUR = 3_600.0


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
    await office.heard(lambda: office.is_gone("writer-1"))
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
    await office.heard(lambda: office.is_gone(first.name))
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
    await office.heard(lambda: office.is_gone("writer-1"))
    await node.beat()  # overtaken by its own farewell
    await node.say("node.heartbeat", nonsense=True)
    await BusNode(office.bus, "writer-1").beat()  # knows no epoch, and has shown no passport
    assert (await office.node("writer-2")).epoch == 1, "what was sent before is handled now"
    assert await office.names() == ["writer-2"]


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
    await office.heard(lambda: office.has_tasks("a-busy", 3))
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
