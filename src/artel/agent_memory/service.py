"""The memory of all agents: one per process."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artel.agent_memory import index_queue
from artel.agent_memory.context_store import AgentContextStore, ContextParts
from artel.agent_memory.indexer import Indexer
from artel.db.engine import Database
from artel.db.tenant import Tenant
from artel.vector_index.embedder import Embedder
from artel.vector_index.store import MemoryStore

if TYPE_CHECKING:
    from artel.vector_index.minilm import Array


@dataclass(frozen=True, slots=True)
class MemoryHealth:
    """How the index is doing; rows are stored whatever happens to it."""

    index_ok: bool
    embeddings: str  # the model's name, or "none"
    words_only: bool
    waiting: int  # memories that aren't in the index yet
    detail: str | None


class Memories:
    """Gives every agent its context store, and keeps the index up with the rows in the background."""

    def __init__(self, database: Database, store: MemoryStore, embedder: Embedder) -> None:
        self._database, self._store, self._embedder = database, store, embedder
        self.indexer = Indexer(database, store, embedder)
        self._parts = ContextParts(database, store, embedder, self.indexer, set(), set())
        self._background: asyncio.Task[None] | None = None

    def context_store(self, tenant: Tenant, project_id: int, agent_id: int, agent_name: str) -> AgentContextStore:
        """Return the memory of one agent."""
        return AgentContextStore(self._parts, tenant, project_id, agent_id, agent_name)

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Return vectors of texts; raise EmbeddingsUnavailable when there is no model for it."""
        return await self._embedder.embed(texts)

    def wake(self) -> None:
        """Say that there are new rows, or chores for the index."""
        self.indexer.wake()

    def start(self, busy: Callable[[], bool] = lambda: False) -> None:
        """Begin to index in the background, whenever nobody is busy."""
        self._background = asyncio.create_task(self.indexer.run(busy), name="memory indexer")

    async def health(self, *, count_waiting: bool = False) -> MemoryHealth:
        """Say how the index did lately; only counting asks the database."""
        state = self.indexer.state
        waiting = await self._database.read(index_queue.count_waiting) if count_waiting else state.waiting
        embeddings = self._embedder.name
        return MemoryHealth(state.ok, embeddings, self._embedder.dimensions == 0, waiting, state.detail)

    async def start_over(self) -> int:
        """Empty the index and let every memory be indexed again; return how many there are."""
        collections = await self._store.collections()  # first: it says why, if the index can't be used
        await self.indexer.prepare()
        await self._database.run(index_queue.start_over, collections)
        await self.indexer.reset()
        await self.indexer.carry_out_chores()
        return await self._database.read(index_queue.count_waiting)

    async def close(self) -> None:
        """Stop indexing; what remains waits in the rows. Then let go of index and model."""
        tasks: list[asyncio.Task[Any]] = [*self._parts.running, *([self._background] if self._background else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task
        await self._store.close()
        await self._embedder.close()
