"""The one place that builds the server's parts and takes them down again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from artel.auth.jwks import KeySet
from artel.auth.login import Login
from artel.auth.passwords import Passwords
from artel.auth.secret import load_or_make_secret
from artel.auth.tokens import Tokens
from artel.data_folder import DataFolder
from artel.db import schema
from artel.db.engine import Database
from artel.memories.service import Memories
from artel.memory.providers import MemorySettings, make_embedder, make_store
from artel.projects.projects import ProjectRules
from artel.settings import Settings


@dataclass(frozen=True, slots=True)
class Container:
    """The parts of a running server."""

    settings: Settings
    folder: DataFolder
    database: Database
    passwords: Passwords
    tokens: Tokens
    login: Login
    project_rules: ProjectRules
    memories: Memories
    opened: AsyncExitStack

    @classmethod
    async def open(cls, settings: Settings) -> "Container":
        """Build everything; raise, with nothing left open, when a part can't work."""
        async with AsyncExitStack() as opened:
            folder = DataFolder.open(settings.data_dir, lock_beside=settings.sqlite_file)
            opened.callback(folder.close)
            database = await opened.enter_async_context(usable_database(settings))
            memories = await opened.enter_async_context(usable_memories(settings, database))
            memories.start()
            return cls._build(settings, folder, database, memories, opened.pop_all())

    @classmethod
    def _build(
        cls, settings: Settings, folder: DataFolder, database: Database, memories: Memories, opened: AsyncExitStack
    ) -> "Container":
        passwords = Passwords()
        tokens = make_tokens(settings)
        return cls(
            settings=settings,
            folder=folder,
            database=database,
            passwords=passwords,
            tokens=tokens,
            login=Login(database, passwords, tokens),
            project_rules=ProjectRules(
                max_projects=settings.max_projects_per_user,
                max_agents=settings.max_agents_per_project,
                planner_model=settings.planner_model,
            ),
            memories=memories,
            opened=opened,
        )

    async def close(self) -> None:
        """Take everything down, in the reverse order."""
        self.passwords.close()
        await self.opened.aclose()


def open_database(settings: Settings) -> Database:
    """Answer the configured database, unconnected."""
    return Database(
        settings.sqlalchemy_url,
        connections=settings.database_connections,
        synchronous=settings.sqlite_synchronous,
    )


@asynccontextmanager
async def usable_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the configured database with the schema that this version works with; a SQLite one is brought to it."""
    database = open_database(settings)
    try:
        if settings.is_embedded:
            await asyncio.to_thread(schema.upgrade, database.engine)
        else:
            await database.read(schema.require_usable)
        yield database
    finally:
        await database.close()


def memory_settings(settings: Settings) -> MemorySettings:
    """Answer what the settings say about memory."""
    url, key = settings.qdrant_url, settings.qdrant_api_key
    return MemorySettings(
        data_dir=settings.data_dir,
        provider=settings.memory_provider,
        url=url.get_secret_value() if url else None,
        api_key=key.get_secret_value() if key else None,
        layout=settings.qdrant_layout,
        embedding_model=settings.embedding_model,
        embedding_dimensions=settings.embedding_dimensions,
    )


@asynccontextmanager
async def usable_memories(settings: Settings, database: Database) -> AsyncIterator[Memories]:
    """Build the memory of the agents; index and model are opened when they are first needed."""
    chosen = memory_settings(settings)
    embedder = make_embedder(chosen)
    memories = Memories(database, make_store(chosen, embedder), embedder)
    try:
        yield memories
    finally:
        await memories.close()


def make_tokens(settings: Settings) -> Tokens:
    """Answer what issues and verifies tokens."""
    secret = settings.jwt_secret.get_secret_value() if settings.jwt_secret else load_or_make_secret(settings.data_dir)
    keys = KeySet(settings.jwks_url.get_secret_value()) if settings.jwks_url else None
    return Tokens(secret, settings.token_lifetime_seconds, keys, settings.issuer or "", settings.audience or "")
