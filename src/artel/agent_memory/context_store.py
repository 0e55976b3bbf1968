"""The memory of one agent, scoped to that agent."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from artel.agent_memory import transactions as memories
from artel.agent_memory.indexer import Indexer
from artel.agent_memory.repository import MemoryRepository, MemoryStats, NewMemory, StoredMemory, UnindexedMemory
from artel.db.engine import Database
from artel.db.tenant import Tenant
from artel.errors import ArtelError, ConfigurationInvalid, MemoryNotFound
from artel.logs import get_logger
from artel.vector_index.bm25 import word_scores
from artel.vector_index.embedder import Embedder
from artel.vector_index.ranking import fuse
from artel.vector_index.search import search_memory
from artel.vector_index.store import EVERYTHING, Filter, Hit, MemoryStore, MemoryUnavailable, collection_name

T = TypeVar("T")
P = ParamSpec("P")

INDEX_SECONDS = 5.0
MAX_CACHED_COLLECTIONS = 10_000

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory found by a search; scores are comparable only within one search."""

    memory: StoredMemory
    score: float


@dataclass(frozen=True, slots=True)
class ContextServices:
    """The services that all context stores of a process share."""

    database: Database
    store: MemoryStore
    embedder: Embedder
    indexer: Indexer
    existing_collections: set[str]  # a cache
    running: set[asyncio.Task[Any]]  # index operations, also those that their caller no longer awaits


class AgentContextStore:
    """The memory of one agent."""

    def __init__(
        self, services: ContextServices, tenant: Tenant, project_id: int, agent_id: int, agent_name: str
    ) -> None:
        self._services = services
        self._tenant, self._project_id, self._agent_id = tenant, project_id, agent_id
        self.collection = collection_name(tenant.user_id, project_id, agent_name)

    async def ensure(self) -> bool:
        """Create the collection if it is missing and queue its memories for indexing; return whether it was missing."""
        services = self._services
        missing = await self._call_index(services.store.ensure_collection(self.collection))
        if missing and not services.store.needs_rebuild:  # otherwise all memories are indexed again anyway
            await services.database.run(memories.reset_indexed, self._tenant, self._project_id, self._agent_id)
        if missing:
            services.indexer.wake()
        if len(services.existing_collections) >= MAX_CACHED_COLLECTIONS:
            services.existing_collections.clear()
        services.existing_collections.add(self.collection)
        return missing

    async def search(self, query: str, top_k: int = 5, where: Filter = EVERYTHING) -> list[Recalled]:
        """Return the best matching memories, best first; memories not yet indexed are searched by words only."""
        services = self._services
        if self.collection not in services.existing_collections:
            await self.ensure()
        # Read before searching the index, so that memories indexed in between are found there.
        unindexed = await self._read(MemoryRepository.not_indexed)
        hits = await self._call_index(
            search_memory(services.store, services.embedder, self.collection, query, top_k, where)
        )
        waiting = [memory for memory in unindexed if memory.matches(where)]
        if waiting and (by_words := await asyncio.to_thread(_search_by_words, query, waiting)):
            hits = fuse([hits, by_words], top_k)
        if not hits:
            return []
        ids = [hit.id for hit in hits]
        rows = await self._read(MemoryRepository.by_ids, ids)
        return [Recalled(rows[hit.id], hit.score) for hit in hits if hit.id in rows]

    async def get(self, memory_id: str) -> StoredMemory:
        """Return one memory of the agent; raise MemoryNotFound if there is none with this id."""
        found = await self._read(MemoryRepository.by_ids, [memory_id])
        if memory_id not in found:
            raise MemoryNotFound("Memory not found")
        return found[memory_id]

    async def page(self, where: Filter, limit: int, offset: int) -> tuple[list[StoredMemory], int]:
        """Return one page of the memories, newest first, and the total number."""
        return await self._read(MemoryRepository.page, where, limit, offset)

    async def after(self, memory_id: str) -> list[StoredMemory]:
        """Return the next memories after the given one, oldest first; an empty list at the end."""
        return await self._read(MemoryRepository.after, memory_id)

    async def stats(self) -> MemoryStats:
        """Return statistics of the memory."""
        return await self._read(MemoryRepository.stats)

    async def add(self, new: NewMemory) -> StoredMemory:
        """Store a memory and index it at once, or in the background if the index is down or slow."""
        services = self._services
        services.indexer.reserve(new.id)
        indexed = 0
        try:
            stored = await services.database.run(memories.add, self._tenant, self._project_id, self._agent_id, new)
            row = UnindexedMemory(stored.id, stored.content, stored.type, stored.success, stored.created_at)
            indexed = await self._run_with_timeout(services.indexer.index([row]))
        finally:
            services.indexer.release(new.id)
            if not indexed:  # for any reason, including cancellation
                services.indexer.wake()
        return stored

    async def clear(self) -> int:
        """Delete all memories but keep the collection; return the number of deleted memories."""
        services = self._services
        deleted = await services.database.run(memories.clear, self._tenant, self._project_id, self._agent_id)
        await self._run_with_timeout(services.indexer.run_chores())
        return deleted

    async def _read(
        self,
        query: Callable[Concatenate[MemoryRepository, int, int, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a query of the repository for the agent."""

        def read(connection: Connection) -> T:
            repository = MemoryRepository(connection, self._tenant)
            return query(repository, self._project_id, self._agent_id, *args, **kwargs)

        return await self._services.database.read(read)

    async def _run_with_timeout(self, work: Coroutine[Any, Any, int]) -> int:
        """Wait for an index operation with a timeout; after a failure the background indexer does the work."""
        services = self._services
        task = asyncio.create_task(work)
        services.running.add(task)
        task.add_done_callback(services.running.discard)
        try:
            async with asyncio.timeout(INDEX_SECONDS):
                return await asyncio.shield(task)
        except (ArtelError, TimeoutError) as failure:
            detail = failure.detail if isinstance(failure, ArtelError) else "The memory index did not answer in time."
            log.warning("memory_index_lags", reason=detail)
            services.indexer.state.failed(detail)
            services.indexer.wake()
            return 0

    async def _call_index(self, call: Coroutine[Any, Any, T]) -> T:
        state = self._services.indexer.state
        try:
            return await call
        except MemoryUnavailable as failure:
            state.failed(failure.detail)
            self._services.indexer.wake()
            raise
        except ConfigurationInvalid as failure:  # users can't fix it, so they only see that memory is unavailable
            log.warning("memory_index_misconfigured", reason=failure.detail)
            state.failed(failure.detail)
            raise MemoryUnavailable("The memory index is misconfigured. The server's log says why.") from failure


def _search_by_words(query: str, memories: Sequence[UnindexedMemory]) -> list[Hit]:
    """Return the memories that share words with the query; `memories` are newest first, which breaks ties."""
    scores = word_scores(query, (memory.content for memory in memories))
    found = enumerate(zip(memories, scores, strict=True))
    return [Hit(memory.id, score * (1 - index / 1_000)) for index, (memory, score) in found if score > 0]
