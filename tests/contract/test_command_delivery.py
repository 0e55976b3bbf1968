"""Commands that another node is meant for, and those that come late: on the bus inside the process and on RabbitMQ."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artel.bus.bus import QueueSpec
from artel.bus.topology import any_key, command_key, command_queue, commands_of, shared_queue
from artel.contract.agent_file import AgentFile
from artel.contract.envelope import Command, Envelope, Result
from artel.nodes.commands import CLOCK_SKEW_SECONDS
from artel.nodes.node import AgentNode
from tests.agents import SilentBrain
from tests.buses import Inbox, wait_for_dead_letters
from tests.node_worlds import CATS, LocalWorld, NodeBrain, Nodes, RabbitWorld, code_of, node_file
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["local", "rabbit"])
async def nodes(request: pytest.FixtureRequest, services: ServiceRun, tmp_path: Path) -> AsyncIterator[Nodes]:
    """Nodes on either bus."""
    nodes = Nodes(LocalWorld() if request.param == "local" else RabbitWorld(services.rabbitmq()), tmp_path / "data")
    yield nodes
    await nodes.close()


def another(file: AgentFile) -> AgentFile:
    """Return the file of another agent of the same type."""
    return file.model_copy(update={"name": f"{file.name}b"})


@pytest.mark.req("AGT-07.3")
async def test_each_command_to_any_node_of_a_type_is_answered_by_its_target(nodes: Nodes) -> None:
    file = node_file()
    first, second, client = await nodes.start(file), await nodes.start(another(file)), await nodes.client()
    targets: dict[str, AgentNode] = {}
    for number in range(10):
        target = (first, second)[number % 2]
        sent = await client.send(any_key(file.type), "write_article", CATS, target_node=target.name)
        targets[sent.id] = target

    answers = await client.received(10)

    assert {answer.subject: answer.source for answer in answers} == {
        command: target.name for command, target in targets.items()
    }
    assert all(isinstance(answer.data, Result) for answer in answers)
    assert len(answers) == 10


@pytest.mark.req("AGT-07.3")
async def test_command_that_is_forwarded_keeps_its_id_its_sender_and_the_rest_of_its_time(nodes: Nodes) -> None:
    file, inbox = node_file(), Inbox()
    await nodes.start(file)
    client, target = await nodes.client(), another(file).name
    await client.bus.subscribe(QueueSpec(command_queue(target), (commands_of(target),)), inbox)

    times = {"timeout_seconds": 60, "age_seconds": 20}
    sent = await client.send(any_key(file.type), "write_article", CATS, target_node=target, **times)
    await inbox.holds(1)

    [delivery] = inbox.deliveries
    assert delivery.envelope == sent
    assert (delivery.key, delivery.reply_to) == (command_key(target, "write_article"), client.queue)
    assert delivery.correlation_id == sent.id
    assert delivery.ttl_seconds is not None
    assert 0 < delivery.ttl_seconds <= 40


@pytest.mark.req("AGT-07.3")
@pytest.mark.parametrize("target", ["agent.nobody", "no name"])
async def test_command_to_any_node_of_a_type_for_a_node_that_is_not_there_is_refused(nodes: Nodes, target: str) -> None:
    file, brain = node_file(), NodeBrain()
    node, client = await nodes.start(file, brain), await nodes.client()
    command = Command(action="write_article", params=CATS, target_node=target)
    envelope = Envelope.of(command, source="client")

    refusal = await client.bus.request(any_key(file.type), envelope, timeout_seconds=60)
    [letter] = await wait_for_dead_letters(client.bus, shared_queue(file.type))

    assert code_of(refusal) == ("FAILED_PRECONDITION" if target == "agent.nobody" else "INVALID_ARGUMENT")
    assert target in str(refusal.data)
    assert (Envelope.from_bytes(letter.body).id, letter.reason) == (envelope.id, "failed")
    assert isinstance((await client.ask(node, "write_article", CATS)).data, Result)
    assert len(brain.asked) == 3


@pytest.mark.req("AGT-07.1")
async def test_command_that_no_broker_drops_is_late_by_the_clock_of_its_sender(nodes: Nodes) -> None:
    """Its expiration is longer than its time limit, as that of a client that sets none."""
    file, brain = node_file(), NodeBrain()
    node, client = await nodes.start(file, brain), await nodes.client()

    late = await client.ask(node, "write_article", CATS, timeout_seconds=10, age_seconds=11)
    forwarded = await client.send(
        any_key(file.type), "write_article", CATS, timeout_seconds=10, age_seconds=11, target_node="agent.nobody"
    )
    [dropped] = await client.answers_to(forwarded)

    assert (code_of(late), code_of(dropped)) == ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")
    assert brain.asked == []


@pytest.mark.req("AGT-06.2", "AGT-07.1")
@pytest.mark.parametrize(("ttl_seconds", "tolerance"), [(1000, 0), (300, CLOCK_SKEW_SECONDS)])
async def test_time_that_a_command_has_surely_waited_is_not_given_to_its_task(
    nodes: Nodes, ttl_seconds: float, tolerance: float
) -> None:
    node, client = await nodes.start(brain=SilentBrain()), await nodes.client()
    fields: dict[str, Any] = {"timeout_seconds": 300, "ttl_seconds": ttl_seconds, "age_seconds": 299.5 + tolerance}

    answer = await client.ask(node, "write_article", CATS, **fields)

    assert code_of(answer) == "DEADLINE_EXCEEDED"


async def test_messages_say_after_which_time_the_broker_drops_them(nodes: Nodes) -> None:
    client, inbox = await nodes.client(), Inbox()
    name = node_file().name
    await client.bus.subscribe(QueueSpec(command_queue(name), (commands_of(name),)), inbox)

    await client.send(command_key(name, "write"), "write", {}, ttl_seconds=7.5)
    await inbox.holds(1)

    assert [delivery.ttl_seconds for delivery in inbox.deliveries] == [7.5]
