"""The memories of all agents, and the memory of one agent."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from artel.agent_memory import index_queue
from artel.agent_memory import transactions as memories
from artel.agent_memory.indexer import Indexer
from artel.agent_memory.repository import (
    MAX_UNINDEXED,
    SEARCHED_CHARACTERS,
    Candidate,
    MemoryCounts,
    MemoryRepository,
    NewMemory,
    StoredMemory,
    UnindexedMemory,
)
from artel.agent_memory.small_collections import SmallCollections
from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.db.engine import Database
from artel.errors import ArtelError, ConfigurationInvalid
from artel.logs import get_logger
from artel.vector_index.bm25 import query_words, word_scores
from artel.vector_index.embedder import Embedder
from artel.vector_index.search import embed_query, recency, search_memory, with_candidates
from artel.vector_index.store import (
    EVERYTHING,
    Filter,
    Hit,
    MemoryStore,
    MemoryUnavailable,
    VectorReader,
    collection_name,
)

T = TypeVar("T")
P = ParamSpec("P")

INDEX_SECONDS = 5.0
MATCH_SECONDS = 0.3  # for the search of memories that are not indexed, besides the newest
MATCH_REST = 9  # times as long none is searched so again: of many searches at once it takes a tenth of the time
MAX_CACHED_COLLECTIONS = 10_000

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryHealth:
    """The health of the index; rows are stored even when it is down."""

    index_ok: bool
    embeddings: str  # the model's name, or "none"
    words_only: bool
    waiting: int  # memories that are not in the index yet
    detail: str | None


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory found by a search; scores are comparable only within one search."""

    memory: StoredMemory
    score: float


class Memories:
    """Creates context stores of agents and runs the background indexer; one per process."""

    def __init__(self, database: Database, store: MemoryStore, embedder: Embedder) -> None:
        self.database, self.store, self.embedder = database, store, embedder
        self.copies: SmallCollections | None = None
        if isinstance(store, VectorReader) and embedder.dimensions:  # an index server is searched itself
            self.copies = SmallCollections(database, store, embedder.dimensions)
        self.indexer = Indexer(database, store, embedder, *([self.copies.indexed] if self.copies else []))
        self.existing_collections: set[str] = set()  # a cache
        self.next_match = 0.0  # when unindexed memories besides the newest may be searched again
        # Index operations, also those that their caller no longer awaits, and the background indexer.
        self.running: set[asyncio.Task[Any]] = set()

    def context_store(self, user: Principal, project_id: int, agent_id: int, agent_name: str) -> "AgentContextStore":
        """Return the context store of one agent."""
        return AgentContextStore(self, user, project_id, agent_id, agent_name)

    def start(self, busy: Callable[[], bool] = lambda: False) -> None:
        """Start background indexing, which yields while `busy` returns True."""
        self.running.add(asyncio.create_task(self.indexer.run(busy), name="memory indexer"))

    async def health(self, *, count_waiting: bool = False) -> MemoryHealth:
        """Return the health of the index; it reads the database only to count waiting memories."""
        state, embedder = self.indexer.state, self.embedder
        waiting = await self.database.read(index_queue.count_waiting) if count_waiting else state.waiting
        return MemoryHealth(state.ok, embedder.name, embedder.dimensions == 0, waiting, state.detail)

    async def rebuild_index(self) -> int:
        """Empty the index and queue every memory for indexing; return their number."""
        collections = await self.store.collections()  # first, because its error says why the index can't be used
        await self.indexer.prepare()
        await self.database.run(index_queue.drop_collections, collections)
        await self.indexer.reset()
        await self.indexer.run_chores()
        return await self.database.read(index_queue.count_waiting)

    async def close(self) -> None:
        """Stop indexing and close the index and the embedding model; unindexed rows stay queued."""
        tasks = list(self.running)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task
        if self.copies is not None:
            await self.copies.close()
        await self.store.close()
        await self.embedder.close()


class AgentContextStore:
    """The memory of one agent."""

    def __init__(self, shared: Memories, user: Principal, project_id: int, agent_id: int, agent_name: str) -> None:
        self._shared, self._database, self._indexer = shared, shared.database, shared.indexer
        self._user, self._project_id, self._agent_id = user, project_id, agent_id
        self.collection = collection_name(user.user_id, project_id, agent_name)

    async def ensure(self) -> bool:
        """Create the collection if it is missing and queue its memories for indexing; return whether it was missing."""
        store, existing = self._shared.store, self._shared.existing_collections
        missing = await self._call_index(store.ensure_collection(self.collection))
        if missing and not store.needs_rebuild:  # otherwise all memories are indexed again anyway
            await self._database.of(self._user).run(memories.reset_indexed, self._project_id, self._agent_id)
        if missing:
            self._indexer.wake()
        if len(existing) >= MAX_CACHED_COLLECTIONS:
            existing.clear()
        existing.add(self.collection)
        return missing

    async def search(
        self,
        query: str,
        top_k: int = 5,
        where: Filter = EVERYTHING,
        version: Awaitable[int | None] | None = None,
    ) -> list[Recalled]:
        """Return the best matching memories, best first.

        Memories not yet indexed are searched by words only, also while the index is down; MemoryUnavailable is raised
        then if none of them matches. Pinned ones are always considered: the best of them are found even if nothing
        in them matches. `version` is that of the agent's memory, from a transaction of the caller.
        """
        if self._shared.copies is not None:
            with suppress(MemoryUnavailable):
                found = await self._search_copy(self._shared.copies, query, top_k, where, version)
                if found is not None:
                    return found
        # Read before searching the index, so that memories indexed in between are found there.
        candidates = await self._candidates(query, where)
        hits: list[Hit]
        try:
            hits = await self._search_index(query, top_k, where)
        except MemoryUnavailable:
            hits = await asyncio.to_thread(_with_candidates, query, None, candidates, top_k, where)
            if not hits:  # nothing found would be a statement about memories that were not searched
                raise
        else:
            if candidates:
                hits = await asyncio.to_thread(_with_candidates, query, hits, candidates, top_k, where)
        rows = await self._read(MemoryRepository.by_ids, [hit.id for hit in hits]) if hits else {}
        return [Recalled(rows[hit.id], hit.score) for hit in hits if hit.id in rows]

    async def _search_copy(
        self,
        copies: SmallCollections,
        query: str,
        top_k: int,
        where: Filter,
        version: Awaitable[int | None] | None,
    ) -> list[Recalled] | None:
        """Search the copy of the collection in this process; return None if it is too large for one."""
        project_id, agent_id, vector = self._project_id, self._agent_id, None
        copy = copies.peek((self._user.user_id, project_id, agent_id))
        is_embedded = copy is not None and copy.has_vectors
        if is_embedded:  # meanwhile the transaction of the caller runs
            vector = await embed_query(self._shared.embedder, query)
        current = await version if version is not None else None
        if current is None:
            current = await self._database.read(_memory_version, self._user, project_id, agent_id)
        if current is None:  # the agent was deleted
            return []
        copy = await copies.get(self._user, project_id, agent_id, self.collection, current, self._open_index)
        if copy is None:
            return None
        if copy.has_vectors and not is_embedded:
            vector = await embed_query(self._shared.embedder, query)
        hits = copy.search(query, vector, top_k, where)
        found = ((copy.get(hit.id), hit.score) for hit in hits)
        return [Recalled(memory, score) for memory, score in found if memory is not None]

    async def _open_index(self) -> None:
        """Make sure that the index has the collection; a lost one is filled again."""
        if self.collection not in self._shared.existing_collections:
            await self.ensure()

    async def _search_index(self, query: str, top_k: int, where: Filter) -> list[Hit]:
        shared = self._shared
        await self._open_index()
        search = search_memory(shared.store, shared.embedder, self.collection, query, top_k, where)
        return await self._call_index(search)

    async def _candidates(self, query: str, where: Filter) -> list[Candidate]:
        """Return what is searched besides the index: memories that are not indexed yet, and the pinned ones."""
        newest = await self._read(MemoryRepository.candidates)
        unindexed = [memory for memory in newest if not memory.is_pinned]
        is_complete = len(unindexed) < MAX_UNINDEXED and not any(
            len(memory.content) == SEARCHED_CHARACTERS for memory in unindexed
        )
        words = [] if is_complete else query_words(query)
        started = time.monotonic()
        if not words or started < self._shared.next_match:
            return newest
        self._shared.next_match = started + MATCH_SECONDS
        try:
            matching = await self._matching(words, where)
        except TimeoutError:
            log.warning("unindexed_memories_not_searched", agent_id=self._agent_id)
            return newest
        finally:
            ended = time.monotonic()
            self._shared.next_match = ended + MATCH_REST * (ended - started)
        by_id = {memory.id: memory for memory in matching}
        read = [memory if memory.is_pinned else by_id.pop(memory.id, memory) for memory in newest]
        return [*read, *by_id.values()]

    async def _matching(self, words: Sequence[str], where: Filter) -> list[Candidate]:
        """Return the unindexed memories with most of the words; raise TimeoutError after MATCH_SECONDS."""

        def match(connection: Connection) -> list[Candidate]:
            repository = MemoryRepository(connection, self._user)
            return repository.matching_unindexed(self._project_id, self._agent_id, words, where)

        async with asyncio.timeout(MATCH_SECONDS):  # also for its turn among the searches of all users
            return await self._database.read_within(MATCH_SECONDS, match)

    async def get(self, memory_id: str) -> StoredMemory:
        """Return one memory of the agent; raise MemoryNotFound if there is none with this id."""
        return await self._database.read(memories.find, self._user, self._project_id, self._agent_id, memory_id)

    async def page(self, where: Filter, limit: int, offset: int) -> tuple[list[StoredMemory], int]:
        """Return one page of the memories, pinned ones first, then newest first, and the total number."""
        return await self._read(MemoryRepository.page, where, limit, offset)

    async def after(self, memory_id: str) -> list[StoredMemory]:
        """Return the next memories after the given one, oldest first; an empty list at the end."""
        return await self._read(MemoryRepository.after, memory_id)

    async def stats(self) -> MemoryCounts:
        """Return statistics of the memory."""
        return await self._read(MemoryRepository.stats)

    async def add(self, new: NewMemory) -> StoredMemory:
        """Store a memory and index it at once, or in the background if the index is down or slow."""
        store = self._database.of(self._user).run(memories.add, self._project_id, self._agent_id, new)
        return await self._store_and_index(new.id, store)

    async def edit(self, memory_id: str, content: str | None, pinned: bool | None) -> StoredMemory:
        """Change the content of a memory and index it again, or pin it; None does not change."""
        ids = self._project_id, self._agent_id, memory_id
        store = self._database.of(self._user).run(memories.edit, *ids, content, pinned)
        return await (store if content is None else self._store_and_index(memory_id, store))

    async def forget(self, memory_id: str) -> None:
        """Delete a memory; raise MemoryNotFound if there is none with this id."""
        await self._database.of(self._user).run(memories.forget, self._project_id, self._agent_id, memory_id)
        await self._run_with_timeout(self._indexer.run_chores())

    async def _store_and_index(self, memory_id: str, store: Awaitable[StoredMemory]) -> StoredMemory:
        """Run a transaction that stores the content of a memory, and index it."""
        self._indexer.reserved.add(memory_id)
        indexed = 0
        try:
            stored = await store
            row = UnindexedMemory(
                stored.id, stored.content, stored.type, stored.success, stored.created_at, stored.edited_at
            )
            indexed = await self._run_with_timeout(self._indexer.index([row]))
        finally:
            self._indexer.reserved.discard(memory_id)
            if not indexed:  # for any reason, including cancellation
                self._indexer.wake()
        return stored

    async def clear(self) -> int:
        """Delete all memories but keep the collection; return the number of deleted memories."""
        deleted = await self._database.of(self._user).run(memories.clear, self._project_id, self._agent_id)
        await self._run_with_timeout(self._indexer.run_chores())
        return deleted

    async def _read(
        self,
        query: Callable[Concatenate[MemoryRepository, int, int, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a query of the repository for the agent."""

        def read(connection: Connection) -> T:
            repository = MemoryRepository(connection, self._user)
            return query(repository, self._project_id, self._agent_id, *args, **kwargs)

        return await self._database.read(read)

    async def _run_with_timeout(self, work: Coroutine[Any, Any, int]) -> int:
        """Wait for an index operation with a timeout; after a failure the background indexer does the work."""
        task, running = asyncio.create_task(work), self._shared.running
        running.add(task)
        task.add_done_callback(running.discard)
        try:
            async with asyncio.timeout(INDEX_SECONDS):
                return await asyncio.shield(task)
        except (ArtelError, TimeoutError) as failure:
            detail = failure.detail if isinstance(failure, ArtelError) else "The memory index did not answer in time."
            log.warning("memory_index_lags", reason=detail)
            self._indexer.state.failed(detail)
            self._indexer.wake()
            return 0

    async def _call_index(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return await call
        except MemoryUnavailable as failure:
            self._indexer.state.failed(failure.detail)
            self._indexer.wake()
            raise
        except ConfigurationInvalid as failure:  # users can't fix it, so they only see that memory is unavailable
            log.warning("memory_index_misconfigured", reason=failure.detail)
            self._indexer.state.failed(failure.detail)
            raise MemoryUnavailable("The memory index is misconfigured. The server's log says why.") from failure


def _memory_version(connection: Connection, user: Principal, project_id: int, agent_id: int) -> int | None:
    return AgentRepository(connection, user).memory_version(project_id, agent_id)()


def _with_candidates(
    query: str, hits: Sequence[Hit] | None, candidates: Sequence[Candidate], top_k: int, where: Filter
) -> list[Hit]:
    """Merge the hits of the index with the memories that are not indexed yet, and with the pinned ones.

    The hits are None if the index did not answer.
    """
    edited = {memory.id for memory in candidates if memory.edited_at and not memory.is_pinned}
    if hits is not None:  # the index has the old content of those that were edited
        hits = [hit for hit in hits if hit.id not in edited]
    matching = [memory for memory in candidates if where.matches(memory.type, memory.success, memory.created_at)]
    pinned = [memory for memory in matching if memory.is_pinned]
    pinned_ids = {memory.id for memory in pinned}
    waiting = [memory for memory in matching if memory.id not in pinned_ids]
    always = _rank_by_words(query, pinned) if query.strip() else []
    return with_candidates(hits, _rank_by_words(query, waiting), always, top_k)


def _rank_by_words(query: str, memories: Sequence[Candidate]) -> list[Hit]:
    """Return the memories with a score for words shared with the query, newest first among equals."""
    scores = word_scores(query, (memory.content for memory in memories))
    found = enumerate(zip(memories, scores, strict=True))
    return [Hit(memory.id, score * recency(index)) for index, (memory, score) in found]
