"""What one agent remembers, as the agent itself sees it: nothing else can be reached through it."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from artel.agent_memory import transactions as memories
from artel.agent_memory.index_queue import Waiting
from artel.agent_memory.indexer import Indexer
from artel.agent_memory.repository import NewMemory, StoredMemory, Unindexed
from artel.db.engine import Database
from artel.db.tenant import Tenant
from artel.errors import ArtelError, ConfigurationInvalid
from artel.logs import get_logger
from artel.vector_index.bm25 import likeness
from artel.vector_index.embedder import Embedder
from artel.vector_index.ranking import fuse
from artel.vector_index.search import search_memory
from artel.vector_index.store import EVERYTHING, Filter, Hit, MemoryStore, MemoryUnavailable, collection_name

T = TypeVar("T")

AT_ONCE_SECONDS = 5.0
MAX_KNOWN = 10_000  # collections; beyond that we look again

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that was searched for, and how well it fits; scores compare only within one answer."""

    memory: StoredMemory
    score: float


@dataclass(frozen=True, slots=True)
class ContextParts:
    """What the context stores of a process share."""

    database: Database
    store: MemoryStore
    embedder: Embedder
    indexer: Indexer
    known: set[str]  # collections that were there when we looked
    running: set[asyncio.Task[Any]]  # work that goes on though nobody waits for it any more


class AgentContextStore:
    """The memory of one agent."""

    def __init__(self, parts: ContextParts, tenant: Tenant, project_id: int, agent_id: int, agent_name: str) -> None:
        self._parts = parts
        self._tenant, self._project_id, self._agent_id = tenant, project_id, agent_id
        self.collection = collection_name(tenant.user_id, project_id, agent_name)

    async def ensure(self) -> bool:
        """Make the collection if it is missing, and have it filled from the rows; return whether it was missing."""
        parts = self._parts
        missing = await self._asked(parts.store.ensure_collection(self.collection))
        if missing and not parts.store.needs_rebuild:  # else everything is indexed again anyway
            await parts.database.run(memories.reset_indexed, self._tenant, self._project_id, self._agent_id)
        if missing:
            parts.indexer.wake()
        if len(parts.known) >= MAX_KNOWN:
            parts.known.clear()
        parts.known.add(self.collection)
        return missing

    async def search(self, query: str, top_k: int = 5, where: Filter = EVERYTHING) -> list[Recalled]:
        """Return the memories that fit best, best first; those that are not indexed yet are searched by their words."""
        parts = self._parts
        if self.collection not in parts.known:
            await self.ensure()
        # Read before the index is searched: what is indexed in between is found there.
        unindexed = await parts.database.read(memories.not_indexed, self._tenant, self._project_id, self._agent_id)
        hits = await self._asked(search_memory(parts.store, parts.embedder, self.collection, query, top_k, where))
        waiting = [one for one in unindexed if one.matches(where)]
        if waiting and (by_words := await asyncio.to_thread(_by_words, query, waiting)):
            hits = fuse([hits, by_words], top_k)
        if not hits:
            return []
        ids = [hit.id for hit in hits]
        rows = await parts.database.read(memories.by_ids, self._tenant, self._project_id, self._agent_id, ids)
        return [Recalled(rows[hit.id], hit.score) for hit in hits if hit.id in rows]

    async def get(self, memory_id: str) -> StoredMemory:
        """Return one memory of the agent; raise MemoryNotFound if it has no such memory."""
        return await self._parts.database.read(memories.get, self._tenant, self._project_id, self._agent_id, memory_id)

    async def add(self, new: NewMemory) -> StoredMemory:
        """Store a memory, which can be found from then on; if the index is down, as soon as it is back."""
        parts = self._parts
        parts.indexer.take_in_hand(new.id)
        indexed = 0
        try:
            stored = await parts.database.run(memories.add, self._tenant, self._project_id, self._agent_id, new)
            row = Waiting(stored.id, stored.content, stored.type, stored.success, stored.created_at)
            indexed = await self._at_once(parts.indexer.index([row]))
        finally:
            parts.indexer.let_go(new.id)
            if not indexed:  # whatever the reason, be it that nobody waits for the answer any more
                parts.indexer.wake()
        return stored

    async def clear(self) -> int:
        """Forget everything; return how many memories there were. The collection stays."""
        parts = self._parts
        deleted = await parts.database.run(memories.clear, self._tenant, self._project_id, self._agent_id)
        await self._at_once(parts.indexer.carry_out_chores())
        return deleted

    async def _at_once(self, work: Coroutine[Any, Any, int]) -> int:
        """Wait for the index for a moment; what it doesn't manage is left to the background."""
        parts = self._parts
        task = asyncio.create_task(work)
        parts.running.add(task)
        task.add_done_callback(parts.running.discard)
        try:
            async with asyncio.timeout(AT_ONCE_SECONDS):
                return await asyncio.shield(task)
        except (ArtelError, TimeoutError) as failure:
            detail = failure.detail if isinstance(failure, ArtelError) else "The memory index did not answer in time."
            log.warning("memory_index_lags", reason=detail)
            parts.indexer.state.failed(detail)
            parts.indexer.wake()
            return 0

    async def _asked(self, call: Coroutine[Any, Any, T]) -> T:
        state = self._parts.indexer.state
        try:
            return await call
        except MemoryUnavailable as failure:
            state.failed(failure.detail)
            self._parts.indexer.wake()
            raise
        except ConfigurationInvalid as failure:  # the operator's affair, not that of whoever searches
            log.warning("memory_index_misconfigured", reason=failure.detail)
            state.failed(failure.detail)
            raise MemoryUnavailable("The memory index isn't set up rightly. The server's log says why.") from failure


def _by_words(query: str, memories: Sequence[Unindexed]) -> list[Hit]:
    """Return the memories, which are newest first, that have words of the query; of equals the newest is the best."""
    scores = ((one.id, likeness(query, one.content), 1 - place / 1_000) for place, one in enumerate(memories))
    return [Hit(memory_id, score * newness) for memory_id, score, newness in scores if score > 0]
