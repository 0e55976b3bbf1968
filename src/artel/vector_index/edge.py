"""The embedded index: qdrant-edge in this process, one shard for the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from artel.errors import ArtelError
from artel.vector_index.collection_scope import EdgeScope, memory_ids
from artel.vector_index.engine_threads import EngineThreads
from artel.vector_index.search import candidate_count, clamp_top_k
from artel.vector_index.shard import ShardFolder
from artel.vector_index.store import EVERYTHING, Filter, Hit, MemoryUnavailable, Point, Vector, by_collection

if TYPE_CHECKING:
    from pathlib import Path

    from qdrant_edge import EdgeShard, UpdateOperation
    from qdrant_edge import Point as EdgePoint

DEADLINE_SECONDS = 5.0
WRITE_DEADLINE_SECONDS = 60.0  # also of lists
READERS = 2
MAX_COUNTS = 10_000
UPSERT_POINTS = 64  # converting that many points holds the interpreter lock for 2 ms
# Flushing also holds the interpreter lock until the disk is done: 15 ms for that many points, 60 to 300 for ten times
# as many. Unflushed points are in the engine's write-ahead log and survive a kill.
FLUSH_AFTER_POINTS = 1_000


class EdgeStore:
    """A shard in a folder; searches run concurrently with one writer thread, which also opens and closes it."""

    def __init__(
        self, folder: Path, *, model: str, dimensions: int, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        self._folder = ShardFolder(folder, model, dimensions)
        self._dimensions = dimensions
        self._deadline_seconds = deadline_seconds
        self._shard: EdgeShard | None = None
        self._ensured: set[str] = set()
        # Numbers of memories, each valid until the next write; nobody else writes to the shard.
        self._counts: dict[str, tuple[int, int]] = {}
        self._writes = 0
        self._unflushed = 0
        name = "memory index"
        self._readers = EngineThreads(name, MemoryUnavailable, threads=READERS, deadline_seconds=deadline_seconds)
        self._writer = EngineThreads(name, MemoryUnavailable, deadline_seconds=WRITE_DEADLINE_SECONDS)

    @property
    def needs_rebuild(self) -> bool:
        return self._folder.needs_rebuild

    async def rebuilt(self) -> None:
        await self._open_shard()
        await self._writer.run(self._folder.rebuilt)

    async def ensure_collection(self, name: str) -> bool:
        return await self._writer.run(self._ensure, EdgeScope(name, self._dimensions), name)

    async def upsert(self, points: Sequence[Point]) -> None:
        """Store points, a few at a time so that other threads can run."""
        await self._writer.run(self._upsert, by_collection(points))

    async def search(
        self,
        collection: str,
        text: str,
        vector: Vector | None,
        top_k: int,
        where: Filter = EVERYTHING,
        size: int | None = None,
    ) -> list[Hit]:
        scope = EdgeScope(collection, self._dimensions)
        if clamp_top_k(top_k) == 0:
            return []
        shard = await self._open_shard()

        def search() -> list[Hit]:
            request = scope.searches(text, vector, candidate_count(top_k), where)
            if request is None:
                return []
            documents = shard.count(scope.count()) if size is None else size
            return scope.best(shard.query_batch(request), text, documents, vector, top_k)

        return await self._readers.run(search)

    async def vectors(self, collection: str, ids: Sequence[str]) -> dict[str, Vector]:
        scope = EdgeScope(collection, self._dimensions)
        shard = await self._open_shard()
        return await self._readers.run(lambda: scope.dense_vectors(shard.retrieve(scope.point_ids(ids), True, True)))

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        scope = EdgeScope(collection, self._dimensions)
        if deleted := list(ids):
            await self._writer.run(self._update, scope.delete(deleted), len(deleted))

    async def clear(self, collection: str) -> None:
        await self._writer.run(self._update, EdgeScope(collection, self._dimensions).clear())

    async def drop(self, collection: str) -> None:
        await self._writer.run(self._drop, EdgeScope(collection, self._dimensions), collection)

    async def rename(self, old: str, new: str) -> None:
        await self._writer.run(self._rename, old, new)

    async def count(self, collection: str) -> int:
        known = self._counts.get(collection)
        if known is not None and known[0] == self._writes:
            return known[1]
        request = EdgeScope(collection, self._dimensions).count()
        shard, writes = await self._open_shard(), self._writes
        counted = await self._readers.run(shard.count, request)
        if len(self._counts) >= MAX_COUNTS:
            self._counts.clear()
        self._counts[collection] = writes, counted
        return counted

    async def collections(self) -> list[str]:
        shard = await self._open_shard()  # no conversation waits for this list: it may take longer than a search
        markers = await self._readers.run_within(WRITE_DEADLINE_SECONDS, shard.facet, EdgeScope.collections())
        return sorted(str(marker.value) for marker in markers.hits if marker.count)  # deleted markers count 0

    async def healthy(self) -> bool:
        try:
            await self._readers.run((await self._open_shard()).info)
        except ArtelError:
            return False
        return True

    async def close(self) -> None:
        """Finish running calls, flush the shard and release the folder."""
        await self._readers.close()
        if not self._writer.closed:
            try:
                await self._writer.run(self._close)
            finally:
                await self._writer.close()

    async def _open_shard(self) -> EdgeShard:
        if self._shard is not None:
            return self._shard
        return await self._writer.run_within(self._deadline_seconds, self._open)

    def _open(self) -> EdgeShard:
        if self._shard is None:
            try:
                self._shard = self._folder.open()
            except ImportError as failure:  # a native module, which not every machine can load
                problem = f"The memory index can't be loaded: {failure}. Install Artel again."
                raise MemoryUnavailable(problem, retry_after=60) from failure
        return self._shard

    def _close(self) -> None:
        if self._shard is not None:
            self._shard.close()
            self._shard = None
        self._folder.close()

    def _store(self, points: Sequence[EdgePoint]) -> None:
        for start in range(0, len(points), UPSERT_POINTS):
            some = points[start : start + UPSERT_POINTS]
            self._update(EdgeScope.upsert(some), len(some))

    def _update(self, operation: UpdateOperation, points: int = 1) -> None:
        shard = self._open()
        try:
            shard.update(operation)
        finally:
            self._writes += 1
        self._unflushed += points
        if self._unflushed >= FLUSH_AFTER_POINTS:
            shard.flush()
            self._unflushed = 0

    def _ensure(self, scope: EdgeScope, name: str) -> bool:
        if name in self._ensured:
            return False
        missing = self._open().count(scope.marker_count()) == 0
        if missing:
            self._store([scope.marker()])
        self._ensured.add(name)
        return missing

    def _upsert(self, points: dict[str, list[Point]]) -> None:
        pairs = []
        for name, members in points.items():
            scope = EdgeScope(name, self._dimensions)
            self._ensure(scope, name)
            pairs += [(scope, point) for point in members]
        for start in range(0, len(pairs), UPSERT_POINTS):
            self._store([scope.point(point) for scope, point in pairs[start : start + UPSERT_POINTS]])

    def _drop(self, scope: EdgeScope, name: str) -> None:
        self._update(scope.clear())
        self._update(scope.unregister())
        self._ensured.discard(name)

    def _rename(self, old: str, new: str) -> None:
        if old == new:
            return
        source, target = EdgeScope(old, self._dimensions), EdgeScope(new, self._dimensions)
        self._ensure(target, new)
        while records := self._open().scroll(source.page())[0]:
            self._store([target.copy(record, source) for record in records])
            self._update(source.delete(memory_ids(records)), len(records))
        self._drop(source, old)
