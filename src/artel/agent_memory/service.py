"""The entry point to the memories of all agents; one per process."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artel.agent_memory import index_queue
from artel.agent_memory.context_store import AgentContextStore, ContextServices
from artel.agent_memory.indexer import Indexer
from artel.db.engine import Database
from artel.db.tenant import Tenant
from artel.vector_index.embedder import Embedder
from artel.vector_index.store import MemoryStore

if TYPE_CHECKING:
    from artel.vector_index.minilm import Array


@dataclass(frozen=True, slots=True)
class MemoryHealth:
    """The health of the index; rows are stored even when it is down."""

    index_ok: bool
    embeddings: str  # the model's name, or "none"
    words_only: bool
    waiting: int  # memories that are not in the index yet
    detail: str | None


class Memories:
    """Creates context stores of agents and runs the background indexer."""

    def __init__(self, database: Database, store: MemoryStore, embedder: Embedder) -> None:
        self._database, self._store, self._embedder = database, store, embedder
        self.indexer = Indexer(database, store, embedder)
        self._services = ContextServices(database, store, embedder, self.indexer, set(), set())
        self._background: asyncio.Task[None] | None = None

    def context_store(self, tenant: Tenant, project_id: int, agent_id: int, agent_name: str) -> AgentContextStore:
        """Return the context store of one agent."""
        return AgentContextStore(self._services, tenant, project_id, agent_id, agent_name)

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Return vectors of texts; raise EmbeddingsUnavailable if there is no model."""
        return await self._embedder.embed(texts)

    def wake(self) -> None:
        """Wake up the indexer because there are new rows or chores."""
        self.indexer.wake()

    def start(self, busy: Callable[[], bool] = lambda: False) -> None:
        """Start background indexing, which yields while `busy` returns True."""
        self._background = asyncio.create_task(self.indexer.run(busy), name="memory indexer")

    async def health(self, *, count_waiting: bool = False) -> MemoryHealth:
        """Return the health of the index; it reads the database only to count waiting memories."""
        state = self.indexer.state
        waiting = await self._database.read(index_queue.count_waiting) if count_waiting else state.waiting
        embeddings = self._embedder.name
        return MemoryHealth(state.ok, embeddings, self._embedder.dimensions == 0, waiting, state.detail)

    async def rebuild_index(self) -> int:
        """Empty the index and queue every memory for indexing; return their number."""
        collections = await self._store.collections()  # first, because its error says why the index can't be used
        await self.indexer.prepare()
        await self._database.run(index_queue.drop_collections, collections)
        await self.indexer.reset()
        await self.indexer.run_chores()
        return await self._database.read(index_queue.count_waiting)

    async def close(self) -> None:
        """Stop indexing and close the index and the embedding model; unindexed rows stay queued."""
        tasks: list[asyncio.Task[Any]] = [*self._services.running, *([self._background] if self._background else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task
        await self._store.close()
        await self._embedder.close()
