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


@pytest.fixture
async def chat(upgraded_database: Callable[[], str]) -> AsyncIterator[ChatUser]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Chat"), RULES)
    yield ChatUser(database, user, project.id, project.agents[0].id)
    await database.close()
