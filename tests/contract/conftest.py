"""Fixtures that contract tests share."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from artel.auth.accounts import create_account
from artel.brain import litellm_client
from artel.brain.brain import Brain
from artel.brain.litellm_client import LiteLLM
from artel.brain.openai_compatible import OpenAICompatible
from artel.brain.retries import RetryingBrain
from artel.bus.bus import Bus
from artel.bus.local import LocalBus
from artel.bus.rabbit import RabbitBus
from artel.contract.http import NewProject
from artel.db import schema
from artel.db.engine import Database
from artel.projects.transactions import create_project
from tests import node_worlds
from tests.actors.chat_user import RULES, ChatUser
from tests.actors.model_caller import KEY, Pauses
from tests.actors.office import LONG_SECONDS, Office
from tests.buses import SOON, LocalWorld, RabbitWorld, Wire, World, assert_no_new_tasks, running
from tests.model_server import ModelServer
from tests.services import ServiceRun


@pytest.fixture
async def chat(upgraded_database: Callable[[], str]) -> AsyncIterator[ChatUser]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Chat"), RULES)
    yield ChatUser(database, user, project.id, project.agents[0].id)
    await database.close()


@pytest.fixture(params=["local", "rabbit"])
async def world(request: pytest.FixtureRequest, services: ServiceRun) -> AsyncIterator[World]:
    """Both implementations; afterwards check that closed buses leave no task behind."""
    before = running()
    made = LocalWorld() if request.param == "local" else RabbitWorld(services.rabbitmq())
    yield made
    await asyncio.gather(*(bus.close(grace_seconds=0) for bus in made.buses))
    await assert_no_new_tasks(before)


@pytest.fixture
async def wire(services: ServiceRun) -> AsyncIterator[Wire]:
    wire = Wire(services.rabbitmq())
    yield wire
    await wire.down()


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


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[node_worlds.Nodes]:
    """Nodes on the bus inside the process."""
    nodes = node_worlds.Nodes(node_worlds.LocalWorld(), tmp_path / "data")
    yield nodes
    await nodes.close()


@pytest.fixture(params=["local", "rabbit"])
async def anywhere(
    request: pytest.FixtureRequest, services: ServiceRun, tmp_path: Path
) -> AsyncIterator[node_worlds.Nodes]:
    """Nodes on either bus."""
    is_local = request.param == "local"
    world = node_worlds.LocalWorld() if is_local else node_worlds.RabbitWorld(services.rabbitmq())
    nodes = node_worlds.Nodes(world, tmp_path / "data")
    yield nodes
    await nodes.close()


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer().running() as server:
        yield server


@pytest.fixture(params=["direct", "litellm"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "litellm":
        litellm_client._import()  # it takes seconds, which must not count for the deadlines
    return name


@pytest.fixture
async def new_client(kind: str, models: ModelServer) -> AsyncIterator[Callable[..., Brain]]:
    made: list[Brain] = []

    def make(url: str = "", limit: int = 1_000_000) -> Brain:
        url = url or models.url
        if kind == "direct":
            made.append(OpenAICompatible(url, KEY, max_answer_bytes=limit))
        else:
            made.append(LiteLLM(KEY, url, max_answer_characters=limit))
        return made[-1]

    yield make
    for client in made:
        await client.close()


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def brain(new_client: Callable[..., Brain], pauses: Pauses) -> Brain:
    client = new_client()
    return RetryingBrain(lambda _model: client, sleep=pauses)


@pytest.fixture
def name() -> str:
    """A unique name, because tests share the broker."""
    return f"t{uuid4().hex[:12]}"


@pytest.fixture
async def bus(world: World) -> Bus:
    return await world.bus()


@pytest.fixture
async def rabbit(wire: Wire) -> AsyncIterator[RabbitBus]:
    """A bus on RabbitMQ whose connections can be cut."""
    before = running()
    bus = await RabbitBus.connect(await wire.up(), name="tests", deadline_seconds=SOON)
    yield bus
    await bus.close(grace_seconds=0)
    await wire.down()
    await assert_no_new_tasks(before)
