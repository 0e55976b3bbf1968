"""The Protocol of a memory index, its data types, and the names of collections."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias, runtime_checkable

from artel.errors import ArtelError, ConfigurationInvalid, Kind

MAX_TOP_K = 100
_AGENT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{1,198}[A-Za-z0-9]")  # valid in every engine
_AGENT_COLLECTION = re.compile(r"user(\d+)_project(\d+)_([a-z][a-z0-9_-]{0,62})_context", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Vector: TypeAlias = Collection[float]  # an embedding: a numpy array or another sequence of numbers


class MemoryUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="memory_unavailable"):
    """The memory index is down or overloaded; everything else works without it."""


class EmbeddingsUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="embeddings_unavailable"):
    """Texts can't be embedded; memory is searched by words only."""


@dataclass(frozen=True, slots=True)
class Point:
    """A memory in the index; without a vector it is found by words only."""

    id: str
    collection: str
    text: str
    vector: Vector | None
    type: str
    success: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions of a search; both dates are inclusive."""

    type: str | None = None
    success: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, type_: str, success: bool, created_at: datetime | int) -> bool:
        """Return whether a memory meets the conditions; its time may be given in microseconds since the epoch."""
        at = created_at if isinstance(created_at, int) else microseconds(created_at)
        return (
            self.type in (None, type_)
            and self.success in (None, success)
            and (self.since is None or at >= microseconds(self.since))
            and (self.until is None or at <= microseconds(self.until))
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found; scores are between 0 and 1 and comparable only within one search."""

    id: str
    score: float


EVERYTHING = Filter()


class MemoryStore(Protocol):
    """An index of memories in logical collections; every method may raise `MemoryUnavailable`."""

    @property
    def needs_rebuild(self) -> bool:
        """Whether the index was recreated, so that every memory has to be indexed again."""

    async def rebuilt(self) -> None:
        """Record that every memory has been indexed again."""

    async def ensure_collection(self, name: str) -> bool:
        """Create the collection with its indexes if missing; return whether it was missing."""

    async def upsert(self, points: Sequence[Point]) -> None:
        """Store points, replace those with the same id and collection, and create missing collections."""

    async def search(
        self,
        collection: str,
        text: str,
        vector: Vector | None,
        top_k: int,
        where: Filter = EVERYTHING,
        size: int | None = None,
    ) -> list[Hit]:
        """Return hits, best first: by words only, or by words and meaning if there is a vector.

        `size` is the number of memories in the collection; without it they are counted.
        """

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        """Delete some memories of the collection; unknown ids are ignored."""

    async def clear(self, collection: str) -> None:
        """Delete every memory but keep the collection."""

    async def drop(self, collection: str) -> None:
        """Delete the collection and its memories."""

    async def rename(self, old: str, new: str) -> None:
        """Move every memory to the new name; idempotent, so it can be repeated after an interruption."""

    async def count(self, collection: str) -> int:
        """Return the number of memories in the collection."""

    async def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""

    async def healthy(self) -> bool:
        """Return whether the index works; the first call opens it."""

    async def close(self) -> None:
        """Finish running calls and close the index."""


@runtime_checkable
class VectorReader(Protocol):
    """An index in this process, from which vectors can be read back quickly."""

    async def vectors(self, collection: str, ids: Sequence[str]) -> "dict[str, Vector]":
        """Return the vectors that it has of these memories, by id."""


def collection_name(user_id: int, project_id: int, agent_name: str) -> str:
    """Return the name of an agent's collection, which is unique."""
    if user_id < 0 or project_id < 0 or not _AGENT_NAME.fullmatch(agent_name):
        raise ConfigurationInvalid(
            f"Invalid collection for user {user_id}, project {project_id}, agent {agent_name!r}."
        )
    return f"user{user_id}_project{project_id}_{agent_name}_context"


def collection_owner(name: str) -> tuple[int, int, str] | None:
    """Return user id, project id and agent name from a name made by `collection_name`, or None."""
    found = _AGENT_COLLECTION.fullmatch(name)
    return (int(found[1]), int(found[2]), found[3]) if found else None


def check_collection(name: str) -> str:
    """Return the name; raise ConfigurationInvalid if it isn't valid in every engine."""
    if not _COLLECTION.fullmatch(name):
        raise ConfigurationInvalid(
            f"A memory collection can't be called {name!r}: use 3 to 200 letters, digits, - and _,"
            " with a letter or digit at both ends."
        )
    return name


def by_collection(points: Iterable[Point]) -> dict[str, list[Point]]:
    """Group points by collection; of several points with one id the last is used."""
    grouped: dict[str, dict[str, Point]] = {}
    for point in points:
        grouped.setdefault(check_collection(point.collection), {})[point.id] = point
    return {collection: list(members.values()) for collection, members in grouped.items()}


def checked_vector(vector: Vector | None, dimensions: int) -> list[float] | None:
    """Return the vector as a list, or None without an embedder; raise ValueError on wrong dimensions."""
    if vector is None or dimensions == 0:
        return None
    if len(vector) != dimensions:
        raise ValueError(f"a vector of {len(vector)} dimensions in an index of {dimensions}")
    to_list: Callable[[], list[float]] | None = getattr(vector, "tolist", None)  # numpy's own is 50 times faster
    return to_list() if to_list else [float(number) for number in vector]


def microseconds(moment: datetime) -> int:
    """Return microseconds since the epoch, which engines compare exactly; naive times are UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
