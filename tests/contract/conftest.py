"""Fixtures that contract tests share."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from artel.auth.accounts import create_account
from artel.contract.http import NewProject
from artel.db import schema
from artel.db.engine import Database
from artel.projects.transactions import create_project
from tests.actors.chat_user import RULES, ChatUser
from tests.buses import LocalWorld, RabbitWorld, Wire, World, assert_no_new_tasks, running
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
