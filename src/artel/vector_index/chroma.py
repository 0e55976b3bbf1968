"""The index in Chroma, an optional dependency that is imported only when it is configured.

Embedded Chroma has no sparse vectors. Each memory's document is therefore the list of its BM25 terms as numbers, found
by Chroma's full-text index and scored here, so that the ranking is the same as in other stores.
"""

import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from artel.errors import ArtelError, ConfigurationInvalid
from artel.vector_index.bm25 import document_vector, full_match, idf, query_vector
from artel.vector_index.engine_threads import EngineThreads, is_engine_failure
from artel.vector_index.search import best_by_words, best_first, candidate_count, clamp_top_k, combine
from artel.vector_index.store import (
    EVERYTHING,
    Filter,
    Hit,
    MemoryUnavailable,
    Point,
    Vector,
    by_collection,
    check_collection,
    checked_vector,
    microseconds,
)

T = TypeVar("T")

DEADLINE_SECONDS = 10.0
PAGE = 1_000  # below Chroma's largest batch


class ChromaStore:
    """A Chroma database in a folder, with one Chroma collection per agent; all calls run in one thread."""

    def __init__(
        self, folder: Path, *, model: str, dimensions: int, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        if importlib.util.find_spec("chromadb") is None:
            raise ConfigurationInvalid("The memory provider chroma isn't installed: pip install 'artel-ai[chroma]'")
        self._folder = folder
        self._model, self._dimensions = f"{model}/{dimensions}", dimensions
        self._open_client: Any = None
        self._collections: dict[str, Any] = {}
        self._thread = EngineThreads(
            "memory index (Chroma)", MemoryUnavailable, deadline_seconds=deadline_seconds, is_failure=_is_failure
        )
        self.needs_rebuild = False

    async def rebuilt(self) -> None:
        self.needs_rebuild = False

    async def ensure_collection(self, name: str) -> bool:
        """Create the collection if missing; return whether it was missing. Chroma indexes all metadata by itself."""
        return await self._thread.run(self._ensure, check_collection(name))

    async def upsert(self, points: Sequence[Point]) -> None:
        await self._thread.run(self._upsert, by_collection(points))

    async def search(
        self,
        collection: str,
        text: str,
        vector: Vector | None,
        top_k: int,
        where: Filter = EVERYTHING,
        size: int | None = None,
    ) -> list[Hit]:
        def search(found: Any) -> list[Hit]:
            words = _by_words(found, text, where)
            dense = checked_vector(vector, self._dimensions)
            if dense is None:
                return best_by_words(words, top_k)
            limit = candidate_count(top_k)
            documents = int(found.count()) if size is None else size
            meaning = _by_meaning(found, dense, limit, where)
            return combine(best_first(words)[:limit], meaning, full_match(text, documents), top_k)

        check_collection(collection)
        return await self._use(collection, search, []) if clamp_top_k(top_k) else []

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        deleted = list(set(ids))
        await self._use(collection, lambda found: found.delete(ids=deleted) if deleted else None, None)

    async def clear(self, collection: str) -> None:
        await self._use(collection, lambda found: found.delete(where={"dense": {"$gte": 0}}), None)

    async def drop(self, collection: str) -> None:
        await self._thread.run(self._drop, check_collection(collection))

    async def rename(self, old: str, new: str) -> None:
        await self._thread.run(self._rename, check_collection(old), check_collection(new))

    async def count(self, collection: str) -> int:
        return await self._use(collection, lambda found: int(found.count()), 0)

    async def collections(self) -> list[str]:
        return await self._thread.run(lambda: sorted(each.name for each in self._client().list_collections()))

    async def healthy(self) -> bool:
        try:
            await self._thread.run(lambda: self._client().heartbeat())
        except ArtelError:
            return False
        return True

    async def close(self) -> None:
        if not self._thread.closed:
            try:
                await self._thread.run(self._close)
            finally:
                await self._thread.close()

    async def _use(self, name: str, call: Callable[[Any], T], missing: T) -> T:
        """Call with Chroma's collection and return the result, or `missing` if there is none for this model."""

        def use() -> T:
            found = self._find(name)
            return missing if found is None else call(found)

        check_collection(name)
        return await self._thread.run(use)

    def _client(self) -> Any:
        if self._open_client is None:
            chromadb: Any = importlib.import_module("chromadb")
            self.needs_rebuild = not (self._folder / "chroma.sqlite3").exists()
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # By default Chroma also reads settings, which name classes to import, from .env in the current folder.
            settings = chromadb.Settings(_env_file=None, anonymized_telemetry=False)
            self._open_client = chromadb.PersistentClient(str(self._folder), settings)
        return self._open_client

    def _close(self) -> None:
        if self._open_client is not None:
            self._open_client.close()
            self._open_client = None
            self._collections.clear()

    def _find(self, name: str) -> Any:
        """Return Chroma's collection, or None if there is none for this model."""
        if name not in self._collections:
            metadata = {each.name: each.metadata for each in self._client().list_collections()}
            if (metadata.get(name) or {}).get("model") != self._model:
                return None
            self._collections[name] = self._client().get_collection(name, embedding_function=None)
        return self._collections[name]

    def _ensure(self, name: str) -> bool:
        if self._find(name) is not None:
            return False
        if name in {each.name for each in self._client().list_collections()}:  # created for another model
            self._client().delete_collection(name)
            self.needs_rebuild = True
        self._collections[name] = self._client().create_collection(
            name,
            embedding_function=None,
            metadata={"model": self._model},
            configuration={"hnsw": {"space": "cosine"}},
        )
        return True

    def _upsert(self, points: dict[str, list[Point]]) -> None:
        for name, members in points.items():
            self._ensure(name)
            for start in range(0, len(members), PAGE):
                some = members[start : start + PAGE]
                vectors = [checked_vector(point.vector, self._dimensions) for point in some]
                self._find(name).upsert(
                    ids=[point.id for point in some],
                    # Chroma requires a vector for each memory; searches filter out this placeholder by "dense".
                    embeddings=[vector or [1.0] * max(self._dimensions, 1) for vector in vectors],
                    metadatas=[
                        {
                            "type": point.type,
                            "success": int(point.success),
                            "created_at": microseconds(point.created_at),
                            "dense": int(vector is not None),
                        }
                        for point, vector in zip(some, vectors, strict=True)
                    ],
                    documents=[_document(point.text) for point in some],
                )

    def _drop(self, name: str) -> None:
        if self._find(name) is not None:
            self._client().delete_collection(name)
            del self._collections[name]

    def _rename(self, old: str, new: str) -> None:
        source = self._find(old)
        if old == new:
            return
        self._ensure(new)
        everything = ["embeddings", "metadatas", "documents"]
        while source is not None and (page := source.get(limit=PAGE, include=everything))["ids"]:
            self._find(new).upsert(ids=page["ids"], **{key: page[key] for key in everything})
            source.delete(ids=page["ids"])
        self._drop(old)


def _document(text: str) -> str:
    vector = document_vector(text)
    terms = zip(vector.indices, vector.values, strict=True)
    return " " + " ".join(f"{index:08x}:{weight!r}" for index, weight in terms) + " "


def _by_words(collection: Any, text: str, where: Filter) -> list[Hit]:
    terms = [f"{index:08x}" for index in query_vector(text).indices]
    if not terms:
        return []
    conditions = [{"$contains": f" {term}:"} for term in terms]
    found = collection.get(
        where_document=conditions[0] if len(conditions) == 1 else {"$or": conditions},
        include=["documents", "metadatas"],
    )
    by_document = [dict(term.split(":") for term in document.split()) for document in found["documents"]]
    weights = [{term: float(each[term]) for term in terms if term in each} for each in by_document]
    with_term = Counter(term for document in weights for term in document)
    total = collection.count()
    idfs = {term: idf(total, with_term[term]) for term in terms}
    return [
        Hit(memory_id, sum(idfs[term] * weight for term, weight in document.items()))
        for memory_id, document, metadata in zip(found["ids"], weights, found["metadatas"], strict=True)
        if document and where.matches(metadata["type"], bool(metadata["success"]), metadata["created_at"])
    ]


def _by_meaning(collection: Any, vector: list[float], limit: int, where: Filter) -> list[Hit]:
    conditions: list[dict[str, Any]] = [{"dense": {"$eq": 1}}]
    if where.type is not None:
        conditions.append({"type": {"$eq": where.type}})
    if where.success is not None:
        conditions.append({"success": {"$eq": int(where.success)}})
    if where.since is not None:
        conditions.append({"created_at": {"$gte": microseconds(where.since)}})
    if where.until is not None:
        conditions.append({"created_at": {"$lte": microseconds(where.until)}})
    found = collection.query(
        query_embeddings=[vector],
        n_results=limit,
        where=conditions[0] if len(conditions) == 1 else {"$and": conditions},
        include=["distances"],
    )
    distances = zip(found["ids"][0], found["distances"][0], strict=True)
    return [Hit(memory_id, 1 - distance) for memory_id, distance in distances]


def _is_failure(failure: Exception) -> bool:
    return is_engine_failure(failure) or type(failure).__module__.startswith("chromadb")
