"""The embedded index: qdrant-edge in the process, one shard for the server."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from artel.errors import ArtelError
from artel.vector_index.gate import EdgeGate, hits, memory_ids
from artel.vector_index.ranking import bounded, by_words, candidates, fuse
from artel.vector_index.shard import ShardFolder
from artel.vector_index.store import EVERYTHING, Filter, Hit, MemoryUnavailable, Point, Vector, by_collection
from artel.vector_index.worker import Worker

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, UpdateOperation
    from qdrant_edge import Point as EdgePoint

DEADLINE_SECONDS = 5.0
WRITE_DEADLINE_SECONDS = 60.0
READERS = 2
UPSERT_POINTS = 64  # converting points holds the interpreter lock: 2 ms for so many
# Flushing holds it too, until the disk is done: 15 ms for so many points, 60 to 300 for ten times as many. What was not
# flushed yet is in the engine's log and survives a kill.
FLUSH_AFTER_POINTS = 1_000


class EdgeStore:
    """A shard in a folder; searches run beside one writer, which is also the one that opens and closes."""

    def __init__(
        self, folder: Path, *, model: str, dimensions: int, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        self._folder = ShardFolder(folder, model, dimensions)
        self._dimensions = dimensions
        self._deadline_seconds = deadline_seconds
        self._shard: EdgeShard | None = None
        self._known: set[str] = set()
        self._unflushed = 0
        name = "memory index"
        self._readers = Worker(name, MemoryUnavailable, threads=READERS, deadline_seconds=deadline_seconds)
        self._writer = Worker(name, MemoryUnavailable, deadline_seconds=WRITE_DEADLINE_SECONDS)

    @property
    def needs_rebuild(self) -> bool:
        """Whether the shard was made anew, so that every memory has to be indexed again."""
        return self._folder.needs_rebuild

    async def rebuilt(self) -> None:
        """Say that every memory has been indexed again."""
        await self._opened()
        await self._writer.run(self._folder.rebuilt)

    async def ensure_collection(self, name: str) -> bool:
        """Mark the collection as existing; return whether it was missing."""
        return await self._writer.run(self._ensure, EdgeGate(name, self._dimensions), name)

    async def upsert(self, points: Sequence[Point]) -> None:
        """Store points, a few at a time so that others get their turn."""
        await self._writer.run(self._upsert, by_collection(points))

    async def search(
        self, collection: str, text: str, vector: Vector | None, top_k: int, where: Filter = EVERYTHING
    ) -> list[Hit]:
        """Search by words, and by meaning too when there is a vector."""
        gate = EdgeGate(collection, self._dimensions)
        if bounded(top_k) == 0:
            return []
        return await self._readers.run(_search, await self._opened(), gate, text, vector, top_k, where)

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        """Forget some memories."""
        gate = EdgeGate(collection, self._dimensions)
        if wanted := list(ids):
            await self._writer.run(self._update, gate.delete(wanted), len(wanted))

    async def clear(self, collection: str) -> None:
        """Forget every memory of the collection, which stays."""
        await self._writer.run(self._update, EdgeGate(collection, self._dimensions).clear())

    async def drop(self, collection: str) -> None:
        """Remove the collection and what is in it."""
        await self._writer.run(self._drop, EdgeGate(collection, self._dimensions), collection)

    async def rename(self, old: str, new: str) -> None:
        """Copy every memory to the other name, then drop the old one."""
        await self._writer.run(self._rename, old, new)

    async def count(self, collection: str) -> int:
        """Return how many memories the collection holds."""
        request = EdgeGate(collection, self._dimensions).count()
        return await self._readers.run((await self._opened()).count, request)

    async def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""
        marked = await self._readers.run((await self._opened()).facet, EdgeGate.collections())
        return sorted(str(mark.value) for mark in marked.hits if mark.count)  # a mark that is gone counts 0

    async def healthy(self) -> bool:
        """Open the shard if it isn't open, and ask it something."""
        try:
            await self._readers.run((await self._opened()).info)
        except ArtelError:
            return False
        return True

    async def close(self) -> None:
        """Finish what is running, write everything out and let go of the folder."""
        await self._readers.close()
        if not self._writer.closed:
            try:
                await self._writer.run(self._close)
            finally:
                await self._writer.close()

    async def _opened(self) -> "EdgeShard":
        if self._shard is not None:
            return self._shard
        return await self._writer.run_within(self._deadline_seconds, self._open)

    def _open(self) -> "EdgeShard":
        if self._shard is None:
            self._shard = self._folder.open()
        return self._shard

    def _close(self) -> None:
        if self._shard is not None:
            self._shard.close()
            self._shard = None
        self._folder.close()

    def _store(self, points: "Sequence[EdgePoint]") -> None:
        for start in range(0, len(points), UPSERT_POINTS):
            some = points[start : start + UPSERT_POINTS]
            self._update(EdgeGate.upsert(some), len(some))

    def _update(self, operation: "UpdateOperation", points: int = 1) -> None:
        shard = self._open()
        shard.update(operation)
        self._unflushed += points
        if self._unflushed >= FLUSH_AFTER_POINTS:
            shard.flush()
            self._unflushed = 0

    def _ensure(self, gate: EdgeGate, name: str) -> bool:
        if name in self._known:
            return False
        missing = self._open().count(gate.marker_count()) == 0
        if missing:
            self._store([gate.marker()])
        self._known.add(name)
        return missing

    def _upsert(self, points: dict[str, list[Point]]) -> None:
        pairs = []
        for name, members in points.items():
            gate = EdgeGate(name, self._dimensions)
            self._ensure(gate, name)
            pairs += [(gate, point) for point in members]
        for start in range(0, len(pairs), UPSERT_POINTS):
            self._store([gate.point(point) for gate, point in pairs[start : start + UPSERT_POINTS]])

    def _drop(self, gate: EdgeGate, name: str) -> None:
        self._update(gate.clear())
        self._update(gate.unregister())
        self._known.discard(name)

    def _rename(self, old: str, new: str) -> None:
        if old == new:
            return
        source, target = EdgeGate(old, self._dimensions), EdgeGate(new, self._dimensions)
        self._ensure(target, new)
        while records := self._open().scroll(source.page())[0]:
            self._store(target.copies(records, source))
            self._update(source.delete(memory_ids(records)), len(records))
        self._drop(source, old)


def _search(
    shard: "EdgeShard", gate: EdgeGate, text: str, vector: Vector | None, top_k: int, where: Filter
) -> list[Hit]:
    request = gate.searches(text, vector, candidates(top_k), where)
    if request is None:
        return []
    found = [hits(answer) for answer in shard.query_batch(request)]
    return fuse(found, top_k) if gate.by_meaning(vector) else by_words(found[0], top_k)
