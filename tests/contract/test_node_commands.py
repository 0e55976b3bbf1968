"""Commands to nodes on both databases: whose they are, and what ends them."""

from typing import Any

import pytest

from artel.bus.bus import BusUnavailable
from artel.bus.rabbit import RabbitBus
from artel.contract.envelope import Control, Envelope, Result
from artel.errors import Kind
from artel.registry.commands import NodeCommandRepository
from artel.registry.service import NodeRegistry
from tests.actors.bus_node import BusNode
from tests.actors.chat_user import ChatUser
from tests.actors.office import Office
from tests.buses import Wire
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio
HOUR = 3_600.0


@pytest.mark.req("AGT-10.4")
async def test_progress_of_an_older_instance_or_another_node_does_not_count(office: Office) -> None:
    old = await office.node("writer-1")
    new, other = await office.node("writer-1"), await office.node("writer-2")
    command_id = await office.send(new)

    await old.progress(command_id, "old")
    await other.progress(command_id, "other")
    await new.progress((await office.command(command_id)).task_id, "new")

    assert await office.heard(lambda: office.phase_is(command_id, "new"))


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
