"""The index on a Qdrant server: one physical collection for all agents, or one each."""

import asyncio
import math
from collections.abc import Awaitable, Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeVar

from artel.errors import ArtelError, ConfigurationInvalid
from artel.logs import get_logger
from artel.vector_index.gate import (
    COLLECTION,
    CREATED_AT,
    DENSE,
    PAGE,
    REGISTERED,
    SPARSE,
    SUCCESS,
    TYPE,
    QdrantGate,
    hits,
    memory_ids,
)
from artel.vector_index.ranking import bounded, by_words, candidates, fuse
from artel.vector_index.store import (
    EVERYTHING,
    Filter,
    Hit,
    MemoryUnavailable,
    Point,
    Vector,
    by_collection,
    is_agent_collection,
)

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, models

T = TypeVar("T")
Layout = Literal["shared", "per_agent"]

DEADLINE_SECONDS = 5.0
OLDEST_VERSION = (1, 19)  # the first that can tell how rare a word is within one tenant
IN_MEMORY = ":memory:"
MODEL = "artel_model"

log = get_logger(__name__)


class QdrantStore:
    """Logical collections on a Qdrant server; `:memory:` is the client's own imitation of one, for tests."""

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
        from qdrant_client import AsyncQdrantClient

        self._client: AsyncQdrantClient = (
            AsyncQdrantClient(IN_MEMORY)
            if url == IN_MEMORY
            else AsyncQdrantClient(
                url=url, api_key=api_key, timeout=math.ceil(deadline_seconds), check_compatibility=False
            )
        )
        self._is_server = url != IN_MEMORY
        self._layout = layout
        self._model, self._dimensions = f"{model}/{dimensions}", dimensions
        # Servers with different models can run side by side while the operator changes from one to the other.
        self._shared = f"artel_memory_{blake2b(self._model.encode(), digest_size=4).hexdigest()}"
        self._deadline_seconds = deadline_seconds
        self._homes: set[str] = set()  # physical collections that we have seen
        self._names: set[str] = set()  # logical ones
        self._making = asyncio.Lock()
        self._closed = False
        self.needs_rebuild = False

    async def rebuilt(self) -> None:
        """Say that every memory has been indexed again."""
        self.needs_rebuild = False

    async def ensure_collection(self, name: str) -> bool:
        """Make the collection with its indexes; return whether it was missing."""
        gate = self._gate(name)
        made = await self._make_home(name)
        if self._layout == "per_agent" or name in self._names:
            self._names.add(name)
            return made
        home = self._home(name)
        marked = await self._ask(self._client.retrieve(home, [gate.marker_id], with_payload=False))
        if not marked:
            await self._ask(self._client.upsert(home, [gate.marker()], wait=True))
        self._names.add(name)
        return not marked

    async def upsert(self, points: Sequence[Point]) -> None:
        """Store points; they can be found when this returns."""
        homes: dict[str, list[models.PointStruct]] = {}
        for name, members in by_collection(points).items():
            await self.ensure_collection(name)
            homes.setdefault(self._home(name), []).extend(map(self._gate(name).point, members))
        for home, together in homes.items():
            for start in range(0, len(together), PAGE):
                some = together[start : start + PAGE]
                await self._ask(self._client.upsert(home, some, wait=True))

    async def search(
        self, collection: str, text: str, vector: Vector | None, top_k: int, where: Filter = EVERYTHING
    ) -> list[Hit]:
        """Search by words, and by meaning too when there is a vector, in one request."""
        gate = self._gate(collection)
        requests = gate.searches(text, vector, candidates(top_k), where)
        if bounded(top_k) == 0 or not requests or not await self._has_home(collection):
            return []
        answers = await self._ask(self._client.query_batch_points(self._home(collection), requests))
        found = [hits(answer.points) for answer in answers]
        return fuse(found, top_k) if gate.by_meaning(vector) else by_words(found[0], top_k)

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        """Forget some memories."""
        gate, wanted = self._gate(collection), list(ids)
        if wanted and await self._has_home(collection):
            await self._ask(self._client.delete(self._home(collection), gate.some(wanted), wait=True))

    async def clear(self, collection: str) -> None:
        """Forget every memory of the collection, which stays."""
        gate = self._gate(collection)
        if await self._has_home(collection):
            await self._ask(self._client.delete(self._home(collection), gate.all(), wait=True))

    async def drop(self, collection: str) -> None:
        """Remove the collection and what is in it."""
        gate, home = self._gate(collection), self._home(collection)
        if not await self._has_home(collection):
            return
        if self._layout == "per_agent":
            await self._ask(self._client.delete_collection(home))
            self._homes.discard(home)
        else:
            await self.clear(collection)
            await self._ask(self._client.delete(home, [gate.marker_id], wait=True))
        self._names.discard(collection)

    async def rename(self, old: str, new: str) -> None:
        """Copy every memory to the other name, then drop the old one."""
        source, target = self._gate(old), self._gate(new)
        if old == new:
            return
        await self.ensure_collection(new)
        while await self._has_home(old):
            records, _ = await self._ask(
                self._client.scroll(self._home(old), source.all(), limit=PAGE, with_payload=True, with_vectors=True)
            )
            if not records:
                break
            await self._ask(self._client.upsert(self._home(new), target.copies(records, source), wait=True))
            await self.delete(old, memory_ids(records))
        await self.drop(old)

    async def count(self, collection: str) -> int:
        """Return how many memories the collection holds."""
        gate = self._gate(collection)
        if not await self._has_home(collection):
            return 0
        answer = await self._ask(self._client.count(self._home(collection), gate.all(), exact=True))
        return answer.count

    async def collections(self) -> list[str]:
        """Return the names of all collections, sorted; on a server that others use too, only those that are ours."""
        if self._layout == "per_agent":
            there = await self._ask(self._client.get_collections())
            return sorted(c.name for c in there.collections if is_agent_collection(c.name) or c.name in self._names)
        if not await self._has_home(self._shared):
            return []
        marked = await self._ask(self._client.facet(self._shared, REGISTERED, limit=1_000_000, exact=True))
        return sorted(str(mark.value) for mark in marked.hits if mark.count)

    async def healthy(self) -> bool:
        """Ask the server for its version."""
        try:
            await self._check_version()
        except ArtelError:
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._client.close()

    def _gate(self, collection: str) -> QdrantGate:
        return QdrantGate(collection, self._dimensions)

    def _home(self, collection: str) -> str:
        """Return the physical collection that a logical one lives in."""
        return self._shared if self._layout == "shared" else collection

    async def _has_home(self, collection: str) -> bool:
        home = self._home(collection)
        if home not in self._homes and await self._model_of(home) == self._model:
            self._homes.add(home)
        return home in self._homes

    async def _model_of(self, home: str) -> str | None:
        """Return the model that a physical collection was made for, if there is one."""
        await self._check_version()
        if not await self._ask(self._client.collection_exists(home)):
            return None
        info = await self._ask(self._client.get_collection(home))
        if not info.config.metadata or MODEL not in info.config.metadata:
            raise ConfigurationInvalid(f"The Qdrant server has a collection {home} that Artel didn't make.")
        return str(info.config.metadata[MODEL])

    async def _make_home(self, collection: str) -> bool:
        """Make the physical collection if it is missing or was made for another model."""
        home = self._home(collection)
        async with self._making:
            if await self._has_home(collection):
                return False
            other = await self._model_of(home)
            if other is not None:
                log.warning("memory_collection_replaced", collection=home, model=self._model, instead_of=other)
                await self._ask(self._client.delete_collection(home))
            await self._ask(_create(self._client, home, self._model, self._dimensions, self._layout))
            if self._is_server:  # the imitation has no indexes, and warns
                for field, schema in _indexes(self._layout).items():
                    await self._ask(self._client.create_payload_index(home, field, schema, wait=True))
            self._homes.add(home)
            # That a new agent's own collection is new is nothing to worry about; whoever ensured it is told.
            self.needs_rebuild |= other is not None or self._layout == "shared"
        return True

    async def _check_version(self) -> None:
        if self._closed:
            raise MemoryUnavailable("The memory index is closed.")
        version = (await self._ask(self._client.info())).version
        if tuple(int(part) for part in version.split("-")[0].split(".")[:2]) < OLDEST_VERSION:
            raise ConfigurationInvalid(f"The Qdrant server has version {version}; Artel needs 1.19 or newer.")

    async def _ask(self, call: Awaitable[T]) -> T:
        from httpx import HTTPError
        from qdrant_client.http.exceptions import ApiException

        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await call
        except (ApiException, HTTPError, OSError, TimeoutError, RuntimeError) as failure:
            if isinstance(failure, RuntimeError) and not self._closed:
                raise
            self._homes.clear()  # somebody may have removed what we knew: look again
            self._names.clear()
            log.warning("memory_index_unavailable", error=f"{type(failure).__name__}: {failure}"[:300])
            raise MemoryUnavailable("The Qdrant server can't be reached.", retry_after=5) from failure


async def _create(client: "AsyncQdrantClient", home: str, model: str, dimensions: int, layout: Layout) -> None:
    from qdrant_client import models

    dense = {DENSE: models.VectorParams(size=dimensions, distance=models.Distance.COSINE)} if dimensions else {}
    await client.create_collection(
        home,
        vectors_config=dense,
        sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        # One graph per tenant instead of one for all, as Qdrant advises for tenants in one collection.
        hnsw_config=models.HnswConfigDiff(payload_m=16, m=0) if layout == "shared" else None,
        metadata={MODEL: model},
    )


def _indexes(layout: Layout) -> "dict[str, models.KeywordIndexParams | models.IntegerIndexParams]":
    from qdrant_client import models

    keyword, integer = models.KeywordIndexType.KEYWORD, models.IntegerIndexType.INTEGER
    return {
        COLLECTION: models.KeywordIndexParams(type=keyword, is_tenant=layout == "shared"),
        REGISTERED: models.KeywordIndexParams(type=keyword),
        TYPE: models.KeywordIndexParams(type=keyword),
        SUCCESS: models.IntegerIndexParams(type=integer, lookup=True, range=False),
        CREATED_AT: models.IntegerIndexParams(type=integer, lookup=False, range=True),
    }
