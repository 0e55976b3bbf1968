"""The only module that builds requests to an index that tenants share.

A scope belongs to one collection, and all its requests are filtered by that collection. No other module builds filters
or requests; a test checks the syntax trees of the stores. Point ids are derived from the collection too, so that the
id of another tenant's memory never selects a point of that tenant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from uuid import UUID

from artel.vector_index.bm25 import document_vector, full_match, query_vector
from artel.vector_index.late_module import LateModule
from artel.vector_index.search import best_by_words, combine
from artel.vector_index.store import (
    EVERYTHING,
    Filter,
    Hit,
    Point,
    Vector,
    check_collection,
    checked_vector,
    microseconds,
)

if TYPE_CHECKING:
    from types import ModuleType

    import qdrant_edge as edge
    from qdrant_client import models
else:
    edge = LateModule("qdrant_edge")  # takes 6 MB, which a server without memories can do without

DENSE, SPARSE = "dense", "bm25"
COLLECTION, REGISTERED = "collection", "registered"
ID, TYPE, SUCCESS, CREATED_AT = "id", "type", "success", "created_at"
PAGE = 256


class _CollectionScope(ABC):
    """The common part of both scopes; the engines' classes have the same names, except for the range."""

    def __init__(self, engine: ModuleType, range_class: str, collection: str, dimensions: int) -> None:
        self._engine: Any = engine
        self._range: Any = getattr(engine, range_class)
        self._collection = check_collection(collection)
        self._dimensions = dimensions
        # Every collection numbers its words differently, so that a posting list of the engine has points of one tenant
        # only: that halves the search time at 100,000 points and makes it independent of other tenants.
        self.salt = int.from_bytes(_digest(b"artel.words", self._collection)[:4], "little")

    @property
    def marker_id(self) -> str:
        """The id of the marker, a point that exists as long as the collection, even when it is empty."""
        return _uuid(b"artel.marker", self._collection)

    def best(
        self, results: Iterable[Iterable[Any]], text: str, documents: int, vector: Vector | None, top_k: int
    ) -> list[Hit]:
        """Return the best hits of the searches for a text and vector in a collection of so many memories."""
        found = [[Hit(point.payload[ID], float(point.score)) for point in points] for points in results]
        if vector is None or not self._dimensions:
            return best_by_words(found[0], top_k)
        *words, meaning = found  # there is no search by words for a text without words
        return combine(words[0] if words else (), meaning, full_match(text, documents), top_k)

    def _point_id(self, memory_id: str) -> str:
        return _uuid(b"artel.memory", f"{self._collection}/{memory_id}")  # collection names contain no /

    def _filter(self, where: Filter = EVERYTHING, *others: Any) -> Any:
        engine = self._engine
        must = [engine.FieldCondition(key=COLLECTION, match=engine.MatchValue(value=self._collection)), *others]
        if where.type is not None:
            must.append(engine.FieldCondition(key=TYPE, match=engine.MatchValue(value=where.type)))
        if where.success is not None:
            must.append(engine.FieldCondition(key=SUCCESS, match=engine.MatchValue(value=int(where.success))))
        if where.since is not None or where.until is not None:
            since = None if where.since is None else microseconds(where.since)
            until = None if where.until is None else microseconds(where.until)
            must.append(engine.FieldCondition(key=CREATED_AT, range=self._range(gte=since, lte=until)))
        return engine.Filter(must=must)

    def point(self, point: Point) -> Any:
        """Return a memory in the engine's format."""
        words, dense = document_vector(point.text), checked_vector(point.vector, self._dimensions)
        vectors: dict[str, Any] = {} if dense is None else {DENSE: dense}
        if words.indices:
            vectors[SPARSE] = self._sparse_vector(words, self.salt)
        payload = {
            COLLECTION: self._collection,
            ID: point.id,
            TYPE: point.type,
            SUCCESS: int(point.success),  # a number: qdrant-edge 0.9 can't match booleans
            CREATED_AT: microseconds(point.created_at),
        }
        return self._make_point(self._point_id(point.id), vectors, payload)

    def copy(self, record: Any, source: _CollectionScope) -> Any:
        """Return a copy of another collection's point for this one."""
        vectors = dict(record.vector or {})
        if SPARSE in vectors:
            vectors[SPARSE] = self._sparse_vector(vectors[SPARSE], source.salt ^ self.salt)
        payload = {**record.payload, COLLECTION: self._collection}
        return self._make_point(self._point_id(record.payload[ID]), vectors, payload)

    def marker(self) -> Any:
        """Return the marker of the collection."""
        return self._make_point(self.marker_id, {}, {REGISTERED: self._collection})

    @abstractmethod
    def _make_point(self, point_id: str, vectors: dict[str, Any], payload: dict[str, Any]) -> Any: ...

    def _queries(self, text: str, vector: Vector | None) -> list[tuple[str, Any]]:
        """Return the named vectors to search and the query for each: words first, then meaning."""
        words, dense = query_vector(text), checked_vector(vector, self._dimensions)
        queries: list[tuple[str, Any]] = []
        if words.indices:
            queries.append((SPARSE, self._sparse_vector(words, self.salt)))
        if dense is not None:
            queries.append((DENSE, dense))
        return queries

    def _sparse_vector(self, words: Any, salt: int) -> Any:
        pairs = sorted((index ^ salt, value) for index, value in zip(words.indices, words.values, strict=True))
        return self._engine.SparseVector(indices=[index for index, _ in pairs], values=[value for _, value in pairs])


class EdgeScope(_CollectionScope):
    """Builds the requests to qdrant-edge."""

    def __init__(self, collection: str, dimensions: int) -> None:
        super().__init__(edge, "RangeFloat", collection, dimensions)

    def searches(self, text: str, vector: Vector | None, limit: int, where: Filter) -> edge.QueryBatchRequest | None:
        """Return the searches for a text and vector; none if there are neither words nor a vector."""
        scope = self._filter(where)
        # Compute idf within this collection: other tenants' words must not change the scores.
        idf_params = edge.SearchParams(idf=edge.IdfParams(corpus=self._filter()))
        queries = [
            edge.QueryRequest(
                query=edge.Query.Nearest(query, using=using),
                filter=scope,
                limit=limit,
                with_payload=[ID],
                params=idf_params if using == SPARSE else None,
            )
            for using, query in self._queries(text, vector)
        ]
        return edge.QueryBatchRequest(queries) if queries else None

    def point_ids(self, ids: Iterable[str]) -> list[int | UUID | str]:
        """Return the ids of the points of some memories; no other collection has points with these ids."""
        return [self._point_id(memory_id) for memory_id in ids]

    @staticmethod
    def dense_vectors(records: Iterable[Any]) -> dict[str, Vector]:
        """Return the vectors of points that have one, by memory id."""
        return {record.payload[ID]: record.vector[DENSE] for record in records if DENSE in (record.vector or {})}

    def count(self) -> edge.CountRequest:
        return edge.CountRequest(filter=self._filter(), exact=True)

    def marker_count(self) -> edge.CountRequest:
        """Return the request for the number of markers: one or none."""
        marker = edge.FieldCondition(key=REGISTERED, match=edge.MatchValue(value=self._collection))
        return edge.CountRequest(filter=edge.Filter(must=[marker]), exact=True)

    def page(self) -> edge.ScrollRequest:
        """Return the request for the first points with payload and vectors."""
        return edge.ScrollRequest(filter=self._filter(), limit=PAGE, with_payload=True, with_vector=True)

    @staticmethod
    def upsert(points: Sequence[edge.Point]) -> edge.UpdateOperation:
        """Return the operation that stores points of any collection."""
        return edge.UpdateOperation.upsert_points(list(points))

    def delete(self, ids: Iterable[str]) -> edge.UpdateOperation:
        condition = edge.HasIdCondition({self._point_id(memory_id) for memory_id in ids})
        return edge.UpdateOperation.delete_points_by_filter(self._filter(EVERYTHING, condition))

    def clear(self) -> edge.UpdateOperation:
        return edge.UpdateOperation.delete_points_by_filter(self._filter())

    def unregister(self) -> edge.UpdateOperation:
        return edge.UpdateOperation.delete_points([self.marker_id])

    @staticmethod
    def collections() -> edge.FacetRequest:
        """Return the request for the names of all collections, which reads only markers."""
        return edge.FacetRequest(key=REGISTERED, limit=1_000_000, exact=True)

    def _make_point(self, point_id: str, vectors: dict[str, Any], payload: dict[str, Any]) -> edge.Point:
        return edge.Point(point_id, vectors, payload)


class QdrantScope(_CollectionScope):
    """Builds the requests to a Qdrant server."""

    def __init__(self, collection: str, dimensions: int) -> None:
        from qdrant_client import models

        super().__init__(models, "Range", collection, dimensions)

    def searches(self, text: str, vector: Vector | None, limit: int, where: Filter) -> list[models.QueryRequest]:
        """Return the searches for a text and vector; none if there are neither words nor a vector."""
        models, scope = self._engine, self._filter(where)
        idf_params = models.SearchParams(idf=models.IdfCorpusParams(corpus=self._filter()))
        return [
            models.QueryRequest(
                query=query,
                using=using,
                filter=scope,
                limit=limit,
                with_payload=[ID],
                params=idf_params if using == SPARSE else None,
            )
            for using, query in self._queries(text, vector)
        ]

    def all(self) -> models.Filter:
        """Return the filter for all points of the collection."""
        everything: models.Filter = self._filter()
        return everything

    def some(self, ids: Iterable[str]) -> models.Filter:
        """Return the filter for some points of the collection."""
        point_ids = [self._point_id(memory_id) for memory_id in ids]
        selected: models.Filter = self._filter(EVERYTHING, self._engine.HasIdCondition(has_id=point_ids))
        return selected

    def _make_point(self, point_id: str, vectors: dict[str, Any], payload: dict[str, Any]) -> Any:
        return self._engine.PointStruct(id=point_id, vector=vectors, payload=payload)


def memory_ids(records: Iterable[Any]) -> list[str]:
    """Return the memory ids of points."""
    return [record.payload[ID] for record in records]


def _uuid(purpose: bytes, key: str) -> str:
    return str(UUID(bytes=_digest(purpose, key)))


def _digest(purpose: bytes, key: str) -> bytes:
    return blake2b(key.encode(), digest_size=16, person=purpose).digest()
