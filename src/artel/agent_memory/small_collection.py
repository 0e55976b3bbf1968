"""All memories of one agent in this process: a search scans them exactly and reads nothing.

It finds and ranks like the index with the memories that are not indexed yet: those without a vector are found by words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from artel.agent_memory.repository import StoredMemory
from artel.vector_index.bm25 import SparseVector, full_match, idf, query_vector
from artel.vector_index.search import best_by_words, candidate_count, combine, recency, with_candidates
from artel.vector_index.store import EVERYTHING, Filter, Hit, Vector

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

SLOT_BYTES = 1_000  # of a memory, besides its content and its arrays
LOW_BITS = 0xFFFF  # of a term: few terms besides those of the query share them


class SmallCollection:
    """Memories with their words and vectors; each memory has a slot, and all arrays are in the order of the slots."""

    def __init__(self, dimensions: int) -> None:
        import numpy as np

        self.version = -1  # of the agent's memory in the database, that this is a copy of
        self.retry_at: float | None = None  # when vectors that the index did not have are looked up again
        self._memories: list[StoredMemory] = []
        self._slots: dict[str, int] = {}
        self._content_bytes = 0
        # The arrays are longer than what they hold, so that adding a memory rarely copies them.
        self._vectors: Array = np.zeros((8, dimensions), np.float32)
        self._is_indexed: Array = np.zeros(8, np.bool_)
        self._is_pinned: Array = np.zeros(8, np.bool_)
        self._terms: Array = np.zeros(256, np.uint32)
        self._weights: Array = np.zeros(256, np.float32)
        self._owners: Array = np.zeros(256, np.int32)  # the slot of each term
        self._used = 0

    def __len__(self) -> int:
        return len(self._memories)

    @property
    def bytes(self) -> int:
        """About the memory that it takes."""
        arrays = self._vectors, self._is_indexed, self._terms, self._weights, self._owners
        return self._content_bytes + SLOT_BYTES * len(self) + sum(array.nbytes for array in arrays)

    @property
    def has_vectors(self) -> bool:
        """Whether any memory can be found by meaning."""
        return bool(self._is_indexed[: len(self)].any())

    @property
    def memories(self) -> Sequence[StoredMemory]:
        """Every memory, in no particular order."""
        return self._memories

    def get(self, memory_id: str) -> StoredMemory | None:
        """Return one of the memories, or None."""
        slot = self._slots.get(memory_id)
        return None if slot is None else self._memories[slot]

    def without_vector(self) -> list[str]:
        """Return the ids of the memories that are in the index, but have no vector here."""
        pairs = zip(self._memories, self._is_indexed, strict=False)
        return [memory.id for memory, is_indexed in pairs if memory.indexed_at and not is_indexed]

    def add(self, memory: StoredMemory, words: SparseVector) -> None:
        """Add a memory, which is found by its words until it gets a vector."""
        slot, begin, self._used = len(self), self._used, self._used + len(words.indices)
        self._memories.append(memory)
        self._slots[memory.id] = slot
        self._content_bytes += getsizeof(memory.content)
        self._terms, self._weights, self._owners = (
            _grown(array, self._used) for array in (self._terms, self._weights, self._owners)
        )
        self._terms[begin : self._used] = words.indices
        self._weights[begin : self._used] = words.values
        self._owners[begin : self._used] = slot
        self._vectors, self._is_indexed = _grown(self._vectors, slot + 1), _grown(self._is_indexed, slot + 1)
        self._is_pinned = _grown(self._is_pinned, slot + 1)
        self._is_indexed[slot], self._is_pinned[slot] = False, memory.pinned_at is not None

    def mark(self, memory_id: str, pinned_at: datetime | None, indexed_at: datetime | None) -> None:
        """Set whether a memory is pinned, and whether it is in the index."""
        slot = self._slots[memory_id]
        self._memories[slot] = replace(self._memories[slot], pinned_at=pinned_at, indexed_at=indexed_at)
        self._is_pinned[slot] = pinned_at is not None

    def set_vector(self, memory_id: str, stored_at: datetime, vector: Vector, indexed_at: datetime | None) -> None:
        """Set the vector of a memory, unless it is gone or has another content by now."""
        memory = self.get(memory_id)
        if memory is not None and memory.stored_at == stored_at:
            slot = self._slots[memory_id]
            self._vectors[slot] = vector
            self._is_indexed[slot] = True
            self._memories[slot] = replace(memory, indexed_at=indexed_at)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove memories."""
        import numpy as np

        stays = np.ones(len(self), np.bool_)
        stays[[self._slots[memory_id] for memory_id in ids]] = False
        new_slots = np.cumsum(stays) - 1
        owners = self._owners[: self._used]
        of_others = stays[owners]
        self._terms, self._weights = self._terms[: self._used][of_others], self._weights[: self._used][of_others]
        self._owners = new_slots[owners[of_others]].astype(np.int32)
        self._used = len(self._owners)
        self._vectors, self._is_indexed, self._is_pinned = (
            array[: len(self)][stays] for array in (self._vectors, self._is_indexed, self._is_pinned)
        )
        self._memories = [memory for memory, stay in zip(self._memories, stays, strict=True) if stay]
        self._slots = {memory.id: slot for slot, memory in enumerate(self._memories)}
        self._content_bytes = sum(getsizeof(memory.content) for memory in self._memories)

    def search(self, query: str, vector: Vector | None, top_k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """Return the best hits, best first; the vector is the query's, None to search by words only."""
        if not query.strip() or not self._memories:
            return []
        import numpy as np

        is_indexed = self._is_indexed[: len(self)]
        is_pinned = self._is_pinned[: len(self)]
        is_searched = np.ones(len(self), np.bool_)
        if where != EVERYTHING:
            found = (where.matches(each.type, each.success, each.created_at) for each in self._memories)
            is_searched = np.fromiter(found, np.bool_, len(self))
        plain, weighted = self._word_scores(query)
        words = self._best(weighted, is_searched & is_indexed & (weighted > 0), top_k)
        if vector is None:
            hits = best_by_words(words, top_k)
        else:
            similarity = self._vectors[: len(self)] @ np.asarray(vector, np.float32)
            meaning = self._best(similarity, is_searched & is_indexed, top_k)
            hits = combine(words, meaning, full_match(query, int(is_indexed.sum())), top_k)
        waiting = self._by_words(plain, is_searched & ~is_indexed & ~is_pinned)
        return with_candidates(hits, waiting, self._by_words(plain, is_searched & is_pinned), top_k)

    def _word_scores(self, query: str) -> "tuple[Array, Array]":
        """Return how well each memory matches by words, without and with the inverse document frequency."""
        import numpy as np

        terms = np.array(query_vector(query).indices, np.uint32)
        if not len(terms):
            return np.zeros(len(self)), np.zeros(len(self))
        is_candidate = np.zeros(LOW_BITS + 1, np.bool_)
        is_candidate[terms & LOW_BITS] = True
        found = np.flatnonzero(is_candidate[self._terms[: self._used] & LOW_BITS])
        numbers = np.searchsorted(terms, self._terms[found]) % len(terms)  # in the query
        is_same = terms[numbers] == self._terms[found]
        found, numbers = found[is_same], numbers[is_same]
        owners, weights = self._owners[found], self._weights[found].astype(np.float64)
        is_indexed = self._is_indexed[: len(self)]
        with_term = np.bincount(numbers[is_indexed[owners]], minlength=len(terms))
        documents = int(is_indexed.sum())
        frequencies = np.array([idf(documents, count) for count in with_term.tolist()])
        plain = np.bincount(owners, weights, len(self))
        return plain, np.bincount(owners, weights * frequencies[numbers], len(self))

    def _best(self, scores: "Array", is_searched: "Array", top_k: int) -> list[Hit]:
        """Return the memories with the highest scores, as many as the index would fetch."""
        import numpy as np

        slots, most = np.flatnonzero(is_searched), candidate_count(top_k)
        if len(slots) > most:
            slots = slots[np.argpartition(-scores[slots], most - 1)[:most]]
        return [Hit(self._memories[slot].id, float(scores[slot])) for slot in slots.tolist()]

    def _by_words(self, scores: "Array", is_searched: "Array") -> list[Hit]:
        """Return memories with their scores, newest first among equals."""
        import numpy as np

        memories, by_slot = self._memories, scores.tolist()
        slots = sorted(np.flatnonzero(is_searched).tolist(), key=lambda slot: memories[slot].id, reverse=True)
        return [Hit(memories[slot].id, by_slot[slot] * recency(index)) for index, slot in enumerate(slots)]


def _grown(array: "Array", length: int) -> "Array":
    """Return the array, or a longer copy if it is shorter than `length`."""
    if len(array) >= length:
        return array
    import numpy as np

    grown: Array = np.zeros((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
