"""How the answers of several searches become one: the same for every engine, and always in the same order."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from artel.vector_index.store import MAX_TOP_K, Hit

CANDIDATES = 50  # of each search: enough for the fusion, cheap to fetch
# Small, as Qdrant has it: a memory that only one search finds, but finds first, must not drown among those that both
# searches find somewhere in the middle.
RRF_K = 2


def bounded(top_k: int) -> int:
    """Return how many hits may be asked for at once."""
    return min(max(top_k, 0), MAX_TOP_K)


def candidates(top_k: int) -> int:
    """Return how many candidates each search fetches; more than asked for, so that ties are broken by us."""
    return max(CANDIDATES, 2 * bounded(top_k))


def fuse(searches: Sequence[Iterable[Hit]], top_k: int) -> list[Hit]:
    """Return the best of several searches by reciprocal rank (1 is first in all of them); ties go by id."""
    scores: defaultdict[str, float] = defaultdict(float)
    for hits in searches:
        for rank, hit in enumerate(_in_order(hits)):
            scores[hit.id] += RRF_K / (RRF_K + rank) / len(searches)
    return _in_order(Hit(memory_id, score) for memory_id, score in scores.items())[: bounded(top_k)]


def by_words(hits: Iterable[Hit], top_k: int) -> list[Hit]:
    """Return the best of a search by words alone, its open-ended scores pressed between 0 and 1."""
    return [Hit(hit.id, hit.score / (1 + hit.score)) for hit in _in_order(hits)[: bounded(top_k)]]


def _in_order(hits: Iterable[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))
