"""What an agent on a node remembers between tasks, for each tenant apart.

The texts are rows of a SQLite file in the node's folder; the vector index finds them. A row is written first and marked
when it is in the index, so that nothing is lost when the index is down or a process ends in between.
"""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from artel.contract.agent_file import LongTerm
from artel.errors import ArtelError, ConfigurationInvalid, Kind
from artel.ids import uuid7
from artel.logs import get_logger
from artel.nodes.sqlite_file import open_file
from artel.settings import MEMORY_PROVIDERS, Settings
from artel.text import storable
from artel.tools.recall import MAX_CONTENT_CHARACTERS, NOTE, Recollection
from artel.vector_index.store import EVERYTHING, Filter, MemoryUnavailable, Point

if TYPE_CHECKING:
    from pydantic import JsonValue

    from artel.vector_index.embedder import Embedder
    from artel.vector_index.store import MemoryStore, Vector

T = TypeVar("T")

MAX_MEMORIES = 10_000  # of one tenant; the oldest are forgotten
MAX_METADATA_CHARACTERS = 4_000
MAX_INDEXED_AT_ONCE = 64

_SCHEMA = """
CREATE TABLE IF NOT EXISTS memories (
    id TEXT PRIMARY KEY,
    collection TEXT NOT NULL,
    content TEXT NOT NULL,
    type TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at TEXT NOT NULL,
    is_indexed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS memories_by_collection ON memories (collection, id);
CREATE INDEX IF NOT EXISTS memories_not_indexed ON memories (collection, id) WHERE is_indexed = 0;
"""

log = get_logger(__name__)


class MemoryInvalid(ArtelError, kind=Kind.INVALID, code="memory_invalid"):
    """A memory can't be stored as it is."""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """A memory; `score` is 0 if it was not searched for."""

    id: str
    content: str
    type: str
    metadata: "Mapping[str, JsonValue]"
    created_at: datetime
    score: float = 0.0


class LongTermMemory:
    """The memories of one node, opened on first use."""

    def __init__(self, node: str, long_term: LongTerm, settings: Settings, folder: Path) -> None:
        """Raise ConfigurationInvalid if the provider is unknown or not installed."""
        if long_term.provider not in MEMORY_PROVIDERS:
            known = " or ".join(MEMORY_PROVIDERS)
            raise ConfigurationInvalid(f"{long_term.provider!r} is not a memory provider: choose {known}")
        from artel.vector_index.providers import make_embedder, make_store  # slow, and most nodes have no memory

        model = long_term.embedding_model or settings.embedding_model
        self._embedder: Embedder = make_embedder(settings.model_copy(update={"embedding_model": model}))
        here = {"data_dir": folder, "memory_provider": long_term.provider}
        self._index: MemoryStore = make_store(settings.model_copy(update=here), self._embedder)
        self._node, self._collection = node, long_term.collection
        self._rows = _Rows(folder)
        self._indexing = asyncio.Lock()

    def of(self, tenant: str) -> "TenantMemory":
        """Return the memory of one tenant."""
        return TenantMemory(self, f"{self._collection}_{tenant}_{_digest(self._node)}")

    async def close(self) -> None:
        """Close the index, the embedding model and the file."""
        await self._index.close()
        await self._embedder.close()
        await asyncio.to_thread(self._rows.close)

    async def add(self, collection: str, memory: NodeMemory) -> None:
        """Store a memory, and forget the oldest ones if there are too many."""
        forgotten = await asyncio.to_thread(self._rows.add, collection, memory)
        try:
            if forgotten:
                await self._index.delete(collection, forgotten)
            await self._index_rows(collection)
        except ArtelError as failure:  # it is indexed with the next one
            log.warning("memory_not_indexed", node=self._node, reason=failure.detail)

    async def search(self, collection: str, query: str, top_k: int, where: Filter) -> list[NodeMemory]:
        """Return the best matches, the best first."""
        from artel.vector_index.search import search_memory  # imported with the index

        try:
            await self._index_rows(collection)
        except ArtelError as failure:  # what is in the index is found
            log.warning("memory_not_indexed", node=self._node, reason=failure.detail)
        hits = await search_memory(self._index, self._embedder, collection, query, top_k, where)
        scores = {hit.id: hit.score for hit in hits}
        found = await asyncio.to_thread(self._rows.some, collection, tuple(scores))
        return [_scored(found[memory_id], score) for memory_id, score in scores.items() if memory_id in found]

    async def get(self, collection: str, memory_id: str) -> NodeMemory | None:
        """Return a memory by its id."""
        return (await asyncio.to_thread(self._rows.some, collection, (memory_id,))).get(memory_id)

    async def forget(self, collection: str) -> None:
        """Delete all memories of a collection; those in the index first, so that a failure can be tried again."""
        async with self._indexing:
            if await asyncio.to_thread(self._rows.has, collection):
                await self._index.ensure_collection(collection)  # opens the index
                await self._index.drop(collection)
                await asyncio.to_thread(self._rows.forget, collection)

    async def _index_rows(self, collection: str) -> None:
        """Index what is not in the index yet: new rows, or all rows if the index was made again."""
        async with self._indexing:
            is_new = await self._index.ensure_collection(collection)  # which also opens the index
            if self._index.needs_rebuild:
                await asyncio.to_thread(self._rows.mark_missing)
                await self._index.rebuilt()
            elif is_new:
                await asyncio.to_thread(self._rows.mark_missing, collection)
            while rows := await asyncio.to_thread(self._rows.not_indexed, collection):
                vectors = await self._vectors([row.content for row in rows])
                points = [
                    Point(row.id, collection, row.content, vector, row.type, success=True, created_at=row.created_at)
                    for row, vector in zip(rows, vectors, strict=True)
                ]
                await self._index.upsert(points)
                await asyncio.to_thread(self._rows.mark, [row.id for row in rows])

    async def _vectors(self, texts: Sequence[str]) -> "Sequence[Vector | None]":
        """Return the vectors of texts; without an embedding model they are found by words only."""
        return await self._embedder.embed(texts) if self._embedder.dimensions else [None] * len(texts)


class TenantMemory:
    """The memory of one tenant."""

    def __init__(self, memory: LongTermMemory, collection: str) -> None:
        self._memory = memory
        self.collection = collection

    async def store(self, content: str, metadata: "Mapping[str, JsonValue] | None" = None) -> str:
        """Store a text and return its id; `type` in the metadata is the sort of memory."""
        text, about = storable(content)[:MAX_CONTENT_CHARACTERS], dict(metadata or {})
        if not text.strip():
            raise MemoryInvalid("There is nothing to remember: the text is empty.")
        if len(json.dumps(about)) > MAX_METADATA_CHARACTERS:
            raise MemoryInvalid(f"The metadata have more than {MAX_METADATA_CHARACTERS} characters.")
        memory = NodeMemory(uuid7(), text, str(about.get("type", NOTE))[:40], about, datetime.now(UTC))
        await self._memory.add(self.collection, memory)
        return memory.id

    async def search(self, query: str, top_k: int = 5, where: Filter = EVERYTHING) -> list[NodeMemory]:
        """Return the best matches, the best first."""
        return await self._memory.search(self.collection, query, top_k, where)

    async def get(self, memory_id: str) -> NodeMemory | None:
        """Return a memory by its id, None if the tenant has no such memory."""
        return await self._memory.get(self.collection, memory_id)

    async def forget(self) -> None:
        """Delete all memories of the tenant."""
        await self._memory.forget(self.collection)


class NodeRecall:
    """The memory of one tenant, as the tools memory_read and memory_write use it."""

    def __init__(self, memory: TenantMemory) -> None:
        self._memory = memory

    async def search(self, query: str, top_k: int, type: str | None) -> list[Recollection]:  # noqa: A002
        """Return the best matches, the best first."""
        found = await self._memory.search(query, top_k, Filter(type=type))
        return [
            Recollection(
                memory.content,
                f"{memory.type} of {memory.created_at:%Y-%m-%d %H:%M}",
                memory.score,
                memory.type,
                memory.created_at,
            )
            for memory in found
        ]

    async def remember(self, content: str, type: str) -> str:  # noqa: A002
        """Store a text and return its id."""
        return await self._memory.store(content, {"type": type, "source": "agent"})


class _Rows:
    """The SQLite file; one connection, used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def add(self, collection: str, memory: NodeMemory) -> list[str]:
        """Store a memory; delete the oldest above the limit and return their ids."""
        row = (memory.id, collection, memory.content, memory.type, json.dumps(dict(memory.metadata)))

        def write(connection: sqlite3.Connection) -> list[str]:
            connection.execute(
                "INSERT INTO memories (id, collection, content, type, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?)",
                (*row, memory.created_at.isoformat()),
            )
            oldest = connection.execute(
                "SELECT id FROM memories WHERE collection = ? ORDER BY id DESC LIMIT -1 OFFSET ?",
                (collection, MAX_MEMORIES),
            ).fetchall()
            connection.executemany("DELETE FROM memories WHERE id = ?", oldest)
            return [memory_id for (memory_id,) in oldest]

        return self._run(write)

    def some(self, collection: str, ids: Sequence[str]) -> dict[str, NodeMemory]:
        """Return the memories of a collection that have these ids."""
        marks = ",".join("?" * len(ids))
        query = f"{_SELECT} WHERE collection = ? AND id IN ({marks})"
        rows = self._run(lambda connection: connection.execute(query, (collection, *ids)).fetchall())
        return {memory.id: memory for memory in map(_memory, rows)}

    def not_indexed(self, collection: str) -> list[NodeMemory]:
        """Return some memories that are not in the index."""
        query = f"{_SELECT} WHERE collection = ? AND is_indexed = 0 ORDER BY id LIMIT ?"
        rows = self._run(lambda connection: connection.execute(query, (collection, MAX_INDEXED_AT_ONCE)).fetchall())
        return [_memory(row) for row in rows]

    def mark(self, ids: Sequence[str]) -> None:
        """Note that memories are in the index."""
        rows = [(memory_id,) for memory_id in ids]
        self._run(lambda connection: connection.executemany("UPDATE memories SET is_indexed = 1 WHERE id = ?", rows))

    def mark_missing(self, collection: str | None = None) -> None:
        """Note that no memory of a collection, or none at all, is in the index."""
        statement = "UPDATE memories SET is_indexed = 0 WHERE ? IN (collection, '')"
        self._run(lambda connection: connection.execute(statement, (collection or "",)))

    def has(self, collection: str) -> bool:
        """Return whether a collection has memories."""
        query = "SELECT 1 FROM memories WHERE collection = ? LIMIT 1"
        return self._run(lambda connection: connection.execute(query, (collection,)).fetchone()) is not None

    def forget(self, collection: str) -> None:
        """Delete the memories of a collection."""
        self._run(lambda connection: connection.execute("DELETE FROM memories WHERE collection = ?", (collection,)))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run one transaction."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = open_file(self._folder / "memory.db", _SCHEMA, synchronous="FULL")
                with self._connection as connection:
                    return work(connection)
            except (sqlite3.Error, OSError) as failure:
                log.warning("memory_file_failed", error=str(failure))
                raise MemoryUnavailable("The node's memory can't be read or written. Its log says why.") from failure


_SELECT = "SELECT id, content, type, metadata, created_at FROM memories"


def _memory(row: tuple[str, str, str, str, str]) -> NodeMemory:
    memory_id, content, kind, metadata, created_at = row
    return NodeMemory(memory_id, content, kind, json.loads(metadata), datetime.fromisoformat(created_at))


def _scored(memory: NodeMemory, score: float) -> NodeMemory:
    return NodeMemory(memory.id, memory.content, memory.type, memory.metadata, memory.created_at, score)


def _digest(node: str) -> str:
    return blake2b(node.encode(), digest_size=4).hexdigest()
