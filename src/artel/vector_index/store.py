"""The contract of a memory index: what goes in, what comes out, and how a collection is called."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from artel.errors import ArtelError, ConfigurationInvalid, Kind

MAX_TOP_K = 100
_AGENT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{1,198}[A-Za-z0-9]")  # what every engine takes as a name
_AGENT_COLLECTION = re.compile(r"user(\d+)_project(\d+)_([a-z][a-z0-9_-]{0,62})_context", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class MemoryUnavailable(ArtelError):
    """The memory index is down, or has too much to do; everything else works without it."""

    kind = Kind.UNAVAILABLE
    code = "memory_unavailable"


class Vector(Protocol):
    """What an embedder makes of a text: numbers in a row, numpy's or others."""

    def __len__(self) -> int:
        """Return how many."""

    def __iter__(self) -> Iterator[float]:
        """Return one after the other."""


@dataclass(frozen=True, slots=True)
class Point:
    """One memory as the index knows it; without a vector only its words are found."""

    id: str
    collection: str
    text: str
    vector: Vector | None
    type: str
    success: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Filter:
    """What a search is narrowed to; both dates are inclusive."""

    type: str | None = None
    success: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that was found; scores lie between 0 and 1 and compare only within one answer."""

    id: str
    score: float


EVERYTHING = Filter()


class MemoryStore(Protocol):
    """An index of memories in logical collections; every method may raise `MemoryUnavailable`."""

    @property
    def needs_rebuild(self) -> bool:
        """Whether the index was made anew, so that every memory has to be indexed again."""

    async def rebuilt(self) -> None:
        """Say that every memory has been indexed again."""

    async def ensure_collection(self, name: str) -> bool:
        """Make the collection with its indexes; return whether it was missing, and so is empty."""

    async def upsert(self, points: Sequence[Point]) -> None:
        """Store points, replacing those with the same id in the same collection; makes missing collections."""

    async def search(
        self, collection: str, text: str, vector: Vector | None, top_k: int, where: Filter = EVERYTHING
    ) -> list[Hit]:
        """Return the best hits first: by words alone, or by words and meaning when there is a vector."""

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        """Forget some memories of the collection; ids that it doesn't have are left alone."""

    async def clear(self, collection: str) -> None:
        """Forget every memory of the collection, which stays."""

    async def drop(self, collection: str) -> None:
        """Remove the collection and what is in it."""

    async def rename(self, old: str, new: str) -> None:
        """Move every memory to the other name; may be repeated when it was interrupted."""

    async def count(self, collection: str) -> int:
        """Return how many memories the collection holds."""

    async def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""

    async def healthy(self) -> bool:
        """Return whether the index can be used; the first call opens it."""

    async def close(self) -> None:
        """Finish what is running and let go of the index."""


def collection_name(user_id: int, project_id: int, agent_name: str) -> str:
    """Return the name of an agent's collection: two agents never share one."""
    if user_id < 0 or project_id < 0 or not _AGENT_NAME.fullmatch(agent_name):
        raise ConfigurationInvalid(f"No collection can be named after user {user_id}, {project_id}, {agent_name!r}.")
    return f"user{user_id}_project{project_id}_{agent_name}_context"


def is_agent_collection(name: str) -> bool:
    """Return whether `collection_name` could have made the name."""
    return _AGENT_COLLECTION.fullmatch(name) is not None


def collection_owner(name: str) -> tuple[int, int, str] | None:
    """Return the user, the project and the agent's name that `collection_name` made the name of."""
    found = _AGENT_COLLECTION.fullmatch(name)
    return (int(found[1]), int(found[2]), found[3]) if found else None


def check_collection(name: str) -> str:
    """Return the name if every engine can use it, and refuse it otherwise."""
    if not _COLLECTION.fullmatch(name):
        raise ConfigurationInvalid(
            f"A memory collection can't be called {name!r}: use 3 to 200 letters, digits, - and _,"
            " with a letter or digit at both ends."
        )
    return name


def by_collection(points: Iterable[Point]) -> dict[str, list[Point]]:
    """Return the points by their collection; of several with one id the last counts."""
    grouped: dict[str, dict[str, Point]] = {}
    for point in points:
        grouped.setdefault(check_collection(point.collection), {})[point.id] = point
    return {collection: list(members.values()) for collection, members in grouped.items()}


def checked_vector(vector: Vector | None, dimensions: int) -> list[float] | None:
    """Return the vector as engines take it; without an embedder (no dimensions) there is none."""
    if vector is None or dimensions == 0:
        return None
    if len(vector) != dimensions:
        raise ValueError(f"a vector of {len(vector)} dimensions for an index of {dimensions}")
    to_list: Callable[[], list[float]] | None = getattr(vector, "tolist", None)  # numpy's own is 50 times faster
    return to_list() if to_list else [float(number) for number in vector]


def microseconds(moment: datetime) -> int:
    """Return the moment as a whole number that engines compare exactly; without a zone it is UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
