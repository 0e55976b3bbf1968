"""Commands that come late: on the bus inside the process and on RabbitMQ."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artel.bus.bus import QueueSpec
from artel.bus.topology import command_key, command_queue, commands_of
from artel.nodes.commands import CLOCK_SKEW_SECONDS
from tests.agents import SilentBrain
from tests.buses import Inbox
from tests.node_worlds import LocalWorld, NodeBrain, Nodes, RabbitWorld, code_of, node_file
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio

CATS = {"topic": "cats"}


@pytest.fixture(params=["local", "rabbit"])
async def nodes(request: pytest.FixtureRequest, services: ServiceRun, tmp_path: Path) -> AsyncIterator[Nodes]:
    """Nodes on either bus."""
    nodes = Nodes(LocalWorld() if request.param == "local" else RabbitWorld(services.rabbitmq()), tmp_path / "data")
    yield nodes
    await nodes.close()


@pytest.mark.req("AGT-07.1")
async def test_command_that_no_broker_drops_is_late_by_the_clock_of_its_sender(nodes: Nodes) -> None:
    """Its expiration is longer than its time limit, as that of a client that sets none."""
    file, brain = node_file(), NodeBrain()
    node, client = await nodes.start(file, brain), await nodes.client()

    late = await client.ask(node, "write_article", CATS, timeout_seconds=10, age_seconds=11)
    assert code_of(late) == "DEADLINE_EXCEEDED"
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
