"""Copies of the small collections that are searched most, in this process, within a limit of bytes.

Every change of an agent's memories raises its `memory_version` in the same transaction. A copy is used only if it has
the version that the database had when the search began, or a later one; otherwise what has changed is read first. So a
search finds what any process has stored, and nothing that any process has deleted.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from sys import getsizeof
from typing import Any

from sqlalchemy import Connection

from artel.agent_memory.indexer import AgentKey
from artel.agent_memory.repository import MemoryRepository, MemoryStamp, StoredMemory
from artel.agent_memory.small_collection import SLOT_BYTES, SmallCollection
from artel.agent_memory.transactions import MemoriesAdded
from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.db.engine import Database
from artel.vector_index.bm25 import document_vector
from artel.vector_index.store import Vector, VectorReader

MAX_MEMORIES = 1_000  # of a collection; larger ones are searched in the index
MAX_COLLECTION_BYTES = 8 * 1024**2
MAX_BYTES = 16 * 1024**2  # of all copies
MAX_WAITING = 100  # additions to one collection that came before an earlier one
MAX_IN_INDEX = 10_000
IN_INDEX_SECONDS = 300.0  # until a collection that was too large is looked at again
KEEP_SECONDS = 60.0  # after a copy was used it is not dropped for another one: reading 1,000 memories takes 0.1 s
RETRY_SECONDS = 5.0  # until vectors that the index did not have are looked up again
ROWS_PER_CHECK = 50  # rows that are read between two checks of the size
INLINE_CHARACTERS = 4_000  # of memories that are split into words in the event loop (half a millisecond), or wait


@dataclass(frozen=True, slots=True)
class _Changes:
    """The difference between a copy and the rows."""

    version: int
    is_large: bool  # then the rest is incomplete
    stamps: list[MemoryStamp]
    contents: dict[str, StoredMemory]  # of memories that are new or have another content


@dataclass(slots=True)
class _Copy:
    collection: SmallCollection
    bytes: int = 0
    used_at: float = field(default_factory=time.monotonic)
    waiting: dict[int, tuple[StoredMemory, ...]] = field(default_factory=dict)  # added memories, by version


class SmallCollections:
    """The copies of one process, the least recently used first."""

    def __init__(self, database: Database, index: VectorReader, dimensions: int) -> None:
        self._database, self._index, self._dimensions = database, index, dimensions
        self._copies: OrderedDict[AgentKey, _Copy] = OrderedDict()
        self._bytes = 0
        self._in_index: dict[AgentKey, float] = {}  # until when they are searched there
        self._loading: dict[AgentKey, asyncio.Task[None]] = {}
        self._new_vectors: dict[AgentKey, dict[str, tuple[datetime, Vector]]] = {}  # that arrived during a load
        database.on_commit(MemoriesAdded, self.added)

    async def get(
        self,
        user: Principal,
        project_id: int,
        agent_id: int,
        name: str,
        version: int,
        opened: Callable[[], Awaitable[object]],
    ) -> SmallCollection | None:
        """Return the collection with this name, as of this version or later; None if it is too large or gone.

        `opened` is called before the index is read.
        """
        key = user.user_id, project_id, agent_id
        if self._in_index.get(key, 0.0) > time.monotonic():
            return None
        copy = self._copies.get(key)
        if copy is None or _is_old(copy.collection, version):
            loading = self._loading.get(key)
            if loading is not None:  # it may have read an older version
                await asyncio.wait([loading])
            copy = self._copies.get(key)
            if copy is None or _is_old(copy.collection, version):
                loading = self._loading.get(key) or self._load_in_background(user, key, name, opened)
                await asyncio.shield(loading)
            copy = self._copies.get(key)
        if copy is None or copy.collection.version < version:
            return None
        self._copies.move_to_end(key)
        copy.used_at = time.monotonic()
        return copy.collection

    def peek(self, key: AgentKey) -> SmallCollection | None:
        """Return the copy of whatever version, if there is one."""
        copy = self._copies.get(key)
        return copy.collection if copy else None

    def added(self, hint: MemoriesAdded) -> None:
        """Add the memories of a committed transaction to the copy, if it has all changes before."""
        copy = self._copies.get(hint.agent)
        if copy is None or hint.version <= copy.collection.version:
            return
        copy.waiting[hint.version] = hint.memories
        self._add_waiting(hint.agent, copy)

    def indexed(self, key: AgentKey, vectors: Mapping[str, tuple[datetime, Vector]]) -> None:
        """Set the vectors of memories, given by id with the time that their content was stored."""
        arrived = self._new_vectors.get(key)
        if arrived is not None and len(arrived) < MAX_MEMORIES:  # the load may have read the rows before
            arrived.update(vectors)
        copy = self._copies.get(key)
        if copy is not None:
            _set_vectors(copy.collection, vectors)

    async def close(self) -> None:
        """Stop reading, and drop all copies."""
        for loading in list(self._loading.values()):
            loading.cancel()
        self._copies.clear()

    def _load_in_background(
        self, user: Principal, key: AgentKey, name: str, opened: Callable[[], Awaitable[object]]
    ) -> asyncio.Task[None]:
        """Start to read what has changed, for all searches that wait for it."""
        loading = asyncio.create_task(self._load(user, key, name, opened))
        self._loading[key], self._new_vectors[key] = loading, {}
        loading.add_done_callback(lambda _: self._new_vectors.pop(key, None))
        loading.add_done_callback(lambda _: self._loading.pop(key, None))
        loading.add_done_callback(lambda task: task.cancelled() or task.exception())  # mark as retrieved
        return loading

    async def _load(self, user: Principal, key: AgentKey, name: str, opened: Callable[[], Awaitable[object]]) -> None:
        await opened()
        copy = self._copies.get(key) or _Copy(SmallCollection(self._dimensions))
        collection = copy.collection
        copied = {memory.id: memory.stored_at for memory in collection.memories}
        changes = await self._database.read(_changes, user, key[1], key[2], copied)
        if changes is None or changes.is_large:
            self._drop(key)
            if changes is not None:
                self._search_in_index(key)
            return
        new = list(changes.contents.values())
        words = await asyncio.to_thread(lambda: [document_vector(memory.content) for memory in new])
        if collection.version < changes.version:  # otherwise hints were faster
            _apply(collection, changes, zip(new, words, strict=True))
        await self._read_vectors(collection, name)
        if key in self._copies or self._make_room(collection.bytes):
            self._copies[key] = copy
            self._add_waiting(key, copy)
            _set_vectors(collection, self._new_vectors[key])
        else:
            self._search_in_index(key)

    async def _read_vectors(self, collection: SmallCollection, name: str) -> None:
        """Read the vectors of indexed memories that have none in the copy."""
        wanted = collection.without_vector()
        collection.retry_at = time.monotonic() if wanted else None  # if this fails, the next search tries it again
        if not wanted:
            return
        for memory_id, vector in (await self._index.vectors(name, wanted)).items():
            memory = collection.get(memory_id)
            if memory is not None and memory.indexed_at:
                collection.set_vector(memory_id, memory.stored_at, vector, memory.indexed_at)
        collection.retry_at = time.monotonic() + RETRY_SECONDS if collection.without_vector() else None

    def _add_waiting(self, key: AgentKey, copy: _Copy) -> None:
        """Add memories whose turn it is, and count the bytes."""
        collection = copy.collection
        for version in [version for version in copy.waiting if version <= collection.version]:
            del copy.waiting[version]
        while (memories := copy.waiting.get(collection.version + 1)) is not None:
            if _characters(memories) > INLINE_CHARACTERS:
                break
            del copy.waiting[collection.version + 1]
            for memory in memories:
                collection.add(memory, document_vector(memory.content))
            collection.version += 1
        waiting = [memory for memories in copy.waiting.values() for memory in memories]
        if len(copy.waiting) > MAX_WAITING or _characters(waiting) > INLINE_CHARACTERS:
            copy.waiting.clear()  # the next search reads them
            waiting = []
        size = collection.bytes + sum(SLOT_BYTES + getsizeof(memory.content) for memory in waiting)
        self._bytes += size - copy.bytes
        copy.bytes = size
        if len(collection) > MAX_MEMORIES or copy.bytes > MAX_COLLECTION_BYTES:
            self._drop(key)
            self._search_in_index(key)
        while self._bytes > MAX_BYTES:
            self._drop(next(iter(self._copies)))

    def _make_room(self, size: int) -> bool:
        """Drop copies that were not used for a while, until there is room; return whether there is."""
        while self._bytes + size > MAX_BYTES:
            oldest = next(iter(self._copies), None)
            if oldest is None or time.monotonic() - self._copies[oldest].used_at < KEEP_SECONDS:
                return False
            self._drop(oldest)
        return True

    def _drop(self, key: AgentKey) -> None:
        copy = self._copies.pop(key, None)
        if copy is not None:
            self._bytes -= copy.bytes
            copy.bytes = 0  # if it is being read, it may return

    def _search_in_index(self, key: AgentKey) -> None:
        """Make no copy of a collection for some time: it is too large, or others need the room."""
        if len(self._in_index) >= MAX_IN_INDEX:
            self._in_index.clear()
        self._in_index[key] = time.monotonic() + IN_INDEX_SECONDS


def _is_old(collection: SmallCollection, version: int) -> bool:
    is_retried = collection.retry_at is not None and time.monotonic() >= collection.retry_at
    return collection.version < version or is_retried


def _characters(memories: Iterable[StoredMemory]) -> int:
    return sum(len(memory.content) for memory in memories)


def _set_vectors(collection: SmallCollection, vectors: Mapping[str, tuple[datetime, Vector]]) -> None:
    for memory_id, (stored_at, vector) in vectors.items():
        collection.set_vector(memory_id, stored_at, vector, datetime.now(UTC))


def _changes(
    connection: Connection, user: Principal, project_id: int, agent_id: int, copied: Mapping[str, datetime]
) -> _Changes | None:
    """Return what has changed since a copy was made; None if the agent does not exist."""
    version = AgentRepository(connection, user).memory_version(project_id, agent_id)()
    if version is None:
        return None
    rows = MemoryRepository(connection, user)
    stamps = rows.stamps(project_id, agent_id, MAX_MEMORIES + 1)
    if len(stamps) > MAX_MEMORIES:
        return _Changes(version, True, [], {})
    changed = [stamp.id for stamp in stamps if copied.get(stamp.id) != stamp.stored_at]
    contents: dict[str, StoredMemory] = {}
    characters = 0
    for start in range(0, len(changed), ROWS_PER_CHECK):
        found = rows.by_ids(project_id, agent_id, changed[start : start + ROWS_PER_CHECK])
        contents |= found
        characters += sum(len(memory.content) for memory in found.values())
        if characters > MAX_COLLECTION_BYTES:
            return _Changes(version, True, [], {})
    return _Changes(version, False, stamps, contents)


def _apply(collection: SmallCollection, changes: _Changes, new: Any) -> None:
    """Bring a copy up to date."""
    stamps = {stamp.id: stamp for stamp in changes.stamps}
    gone = [memory.id for memory in collection.memories if memory.id not in stamps or memory.id in changes.contents]
    if gone:
        collection.remove(gone)
    for memory, words in new:
        collection.add(memory, words)
    for memory in list(collection.memories):
        stamp = stamps[memory.id]
        if (memory.pinned_at, memory.indexed_at) != (stamp.pinned_at, stamp.indexed_at):
            collection.mark(memory.id, stamp.pinned_at, stamp.indexed_at)
    collection.version = changes.version
