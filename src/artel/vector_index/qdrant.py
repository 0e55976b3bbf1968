"""The index on a Qdrant server: one physical collection for all agents, or one per agent."""

import asyncio
import math
from collections.abc import Awaitable, Iterable, Sequence
from hashlib import blake2b
from typing import Literal, TypeVar

from httpx import HTTPError
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException

from artel.errors import ArtelError, ConfigurationInvalid
from artel.logs import get_logger
from artel.vector_index.collection_scope import (
    COLLECTION,
    CREATED_AT,
    DENSE,
    PAGE,
    REGISTERED,
    SPARSE,
    SUCCESS,
    TYPE,
    QdrantScope,
    memory_ids,
)
from artel.vector_index.search import candidate_count, clamp_top_k
from artel.vector_index.store import (
    EVERYTHING,
    Filter,
    Hit,
    MemoryUnavailable,
    Point,
    Vector,
    by_collection,
    collection_owner,
)

T = TypeVar("T")
Layout = Literal["shared", "per_agent"]

DEADLINE_SECONDS = 5.0
OLDEST_VERSION = (1, 19)  # the first that computes idf within one tenant
IN_MEMORY = ":memory:"
MODEL = "artel_model"

log = get_logger(__name__)


class QdrantStore:
    """Logical collections on a Qdrant server; `:memory:` is the client's in-memory mode, for tests."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        dimensions: int,
        layout: Layout = "shared",
        api_key: str | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._client = (
            AsyncQdrantClient(IN_MEMORY)
            if url == IN_MEMORY
            else AsyncQdrantClient(
                url=url, api_key=api_key, timeout=math.ceil(deadline_seconds), check_compatibility=False
            )
        )
        self._is_server = url != IN_MEMORY
        self._layout = layout
        self._model, self._dimensions = f"{model}/{dimensions}", dimensions
        # The name depends on the model, so that servers with the old and the new model can run side by side.
        self._shared = f"artel_memory_{blake2b(self._model.encode(), digest_size=4).hexdigest()}"
        self._deadline_seconds = deadline_seconds
        self._physical_names: set[str] = set()  # cache of existing physical collections
        self._names: set[str] = set()  # cache of existing logical collections
        self._create_lock = asyncio.Lock()
        self._closed = False
        self.needs_rebuild = False

    async def rebuilt(self) -> None:
        self.needs_rebuild = False

    async def ensure_collection(self, name: str) -> bool:
        scope = self._scope(name)
        created = await self._create_physical(name)
        if self._layout == "per_agent" or name in self._names:
            self._names.add(name)
            return created
        physical = self._physical_name(name)
        markers = await self._call(self._client.retrieve(physical, [scope.marker_id], with_payload=False))
        if not markers:
            await self._call(self._client.upsert(physical, [scope.marker()], wait=True))
        self._names.add(name)
        return not markers

    async def upsert(self, points: Sequence[Point]) -> None:
        """Store points and wait until they can be found."""
        by_physical: dict[str, list[models.PointStruct]] = {}
        for name, members in by_collection(points).items():
            await self.ensure_collection(name)
            by_physical.setdefault(self._physical_name(name), []).extend(map(self._scope(name).point, members))
        for physical, structs in by_physical.items():
            for start in range(0, len(structs), PAGE):
                some = structs[start : start + PAGE]
                await self._call(self._client.upsert(physical, some, wait=True))

    async def search(
        self,
        collection: str,
        text: str,
        vector: Vector | None,
        top_k: int,
        where: Filter = EVERYTHING,
        size: int | None = None,
    ) -> list[Hit]:
        """Search by words, and also by meaning if there is a vector, in one request."""
        scope = self._scope(collection)
        requests = scope.searches(text, vector, candidate_count(top_k), where)
        if clamp_top_k(top_k) == 0 or not requests or not await self._exists(collection):
            return []
        results = await self._call(self._client.query_batch_points(self._physical_name(collection), requests))
        documents = await self.count(collection) if size is None else size
        return scope.best((result.points for result in results), text, documents, vector, top_k)

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        scope, deleted = self._scope(collection), list(ids)
        if deleted and await self._exists(collection):
            await self._call(self._client.delete(self._physical_name(collection), scope.some(deleted), wait=True))

    async def clear(self, collection: str) -> None:
        scope = self._scope(collection)
        if await self._exists(collection):
            await self._call(self._client.delete(self._physical_name(collection), scope.all(), wait=True))

    async def drop(self, collection: str) -> None:
        scope, physical = self._scope(collection), self._physical_name(collection)
        if not await self._exists(collection):
            return
        if self._layout == "per_agent":
            await self._call(self._client.delete_collection(physical))
            self._physical_names.discard(physical)
        else:
            await self.clear(collection)
            await self._call(self._client.delete(physical, [scope.marker_id], wait=True))
        self._names.discard(collection)

    async def rename(self, old: str, new: str) -> None:
        source, target = self._scope(old), self._scope(new)
        if old == new:
            return
        await self.ensure_collection(new)
        while await self._exists(old):
            records, _ = await self._call(
                self._client.scroll(
                    self._physical_name(old), source.all(), limit=PAGE, with_payload=True, with_vectors=True
                )
            )
            if not records:
                break
            some = [target.copy(record, source) for record in records]
            await self._call(self._client.upsert(self._physical_name(new), some, wait=True))
            await self.delete(old, memory_ids(records))
        await self.drop(old)

    async def count(self, collection: str) -> int:
        scope = self._scope(collection)
        if not await self._exists(collection):
            return 0
        result = await self._call(self._client.count(self._physical_name(collection), scope.all(), exact=True))
        return result.count

    async def collections(self) -> list[str]:
        """Return the names of all collections of Artel, sorted; the server may have others."""
        if self._layout == "per_agent":
            existing = await self._call(self._client.get_collections())
            return sorted(c.name for c in existing.collections if collection_owner(c.name) or c.name in self._names)
        if not await self._exists(self._shared):
            return []
        markers = await self._call(self._client.facet(self._shared, REGISTERED, limit=1_000_000, exact=True))
        return sorted(str(marker.value) for marker in markers.hits if marker.count)

    async def healthy(self) -> bool:
        """Return whether the server responds with a supported version."""
        try:
            await self._check_version()
        except ArtelError:
            return False
        return True

    async def close(self) -> None:
        self._closed = True
        await self._client.close()

    def _scope(self, collection: str) -> QdrantScope:
        return QdrantScope(collection, self._dimensions)

    def _physical_name(self, collection: str) -> str:
        return self._shared if self._layout == "shared" else collection

    async def _exists(self, collection: str) -> bool:
        physical = self._physical_name(collection)
        if physical not in self._physical_names and await self._model_of(physical) == self._model:
            self._physical_names.add(physical)
        return physical in self._physical_names

    async def _model_of(self, physical: str) -> str | None:
        """Return the model that a physical collection was created for, or None if it doesn't exist."""
        await self._check_version()
        if not await self._call(self._client.collection_exists(physical)):
            return None
        info = await self._call(self._client.get_collection(physical))
        if not info.config.metadata or MODEL not in info.config.metadata:
            raise ConfigurationInvalid(
                f"The Qdrant server has a collection {physical} that Artel didn't create. Rename or delete it."
            )
        return str(info.config.metadata[MODEL])

    async def _create_physical(self, collection: str) -> bool:
        """Create the physical collection if it is missing or was created for another model."""
        physical, shared = self._physical_name(collection), self._layout == "shared"
        async with self._create_lock:
            if await self._exists(collection):
                return False
            other = await self._model_of(physical)
            if other is not None:
                log.warning("memory_collection_replaced", collection=physical, model=self._model, instead_of=other)
                await self._call(self._client.delete_collection(physical))
            cosine = models.Distance.COSINE
            dense = {DENSE: models.VectorParams(size=self._dimensions, distance=cosine)} if self._dimensions else {}
            await self._call(
                self._client.create_collection(
                    physical,
                    vectors_config=dense,
                    sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                    # One graph per tenant instead of one for all, as Qdrant advises for tenants in one collection.
                    hnsw_config=models.HnswConfigDiff(payload_m=16, m=0) if shared else None,
                    metadata={MODEL: self._model},
                )
            )
            keyword, integer = models.KeywordIndexType.KEYWORD, models.IntegerIndexType.INTEGER
            indexes: dict[str, models.KeywordIndexParams | models.IntegerIndexParams] = {
                COLLECTION: models.KeywordIndexParams(type=keyword, is_tenant=shared),
                REGISTERED: models.KeywordIndexParams(type=keyword),
                TYPE: models.KeywordIndexParams(type=keyword),
                SUCCESS: models.IntegerIndexParams(type=integer, lookup=True, range=False),
                CREATED_AT: models.IntegerIndexParams(type=integer, lookup=False, range=True),
            }
            if self._is_server:  # the in-memory mode has no indexes and warns
                for field, schema in indexes.items():
                    await self._call(self._client.create_payload_index(physical, field, schema, wait=True))
            self._physical_names.add(physical)
            # A new agent's own collection needs no rebuild of the others; ensure_collection reports it.
            self.needs_rebuild |= other is not None or shared
        return True

    async def _check_version(self) -> None:
        if self._closed:
            raise MemoryUnavailable("The memory index is closed.")
        version = (await self._call(self._client.info())).version
        if tuple(int(part) for part in version.split("-")[0].split(".")[:2]) < OLDEST_VERSION:
            raise ConfigurationInvalid(f"The Qdrant server has version {version}; Artel needs 1.19 or newer.")

    async def _call(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await call
        except (ApiException, HTTPError, OSError, TimeoutError, RuntimeError) as failure:
            if isinstance(failure, RuntimeError) and not self._closed:
                raise
            self._physical_names.clear()  # the cached collections may have been deleted
            self._names.clear()
            log.warning("memory_index_unavailable", error=f"{type(failure).__name__}: {failure}"[:300])
            raise MemoryUnavailable("The Qdrant server can't be reached.", retry_after=5) from failure
