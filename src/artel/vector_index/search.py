"""Search of one collection, and the ranking of hits: deterministic and the same for every engine."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from artel.errors import ArtelError
from artel.logs import get_logger
from artel.vector_index.embedder import Embedder
from artel.vector_index.store import EVERYTHING, MAX_TOP_K, Filter, Hit, MemoryStore, Vector

CANDIDATES = 50  # per search: enough for the fusion and cheap to fetch
# Small, as in Qdrant: the first hit of only one search must not rank below middling hits of both searches.
RRF_K = 2

log = get_logger(__name__)


async def search_memory(
    store: MemoryStore, embedder: Embedder, collection: str, query: str, top_k: int, where: Filter = EVERYTHING
) -> list[Hit]:
    """Return the best memories for a query; without an embedder, or if it fails, by words only."""
    size = await store.count(collection) if query.strip() else 0
    if size == 0:
        return []
    vector = await embed_query(embedder, query) if embedder.dimensions else None
    return await store.search(collection, query, vector, top_k, where, size)


async def embed_query(embedder: Embedder, query: str) -> Vector | None:
    """Return the vector of a query; None if the embedder fails, so that it is searched by words only."""
    try:
        [vector] = await embedder.embed([query])
    except ArtelError as failure:
        log.warning("memory_searched_by_words_alone", reason=failure.detail)
        return None
    return vector


def clamp_top_k(top_k: int) -> int:
    """Return top_k limited to 0..MAX_TOP_K."""
    return min(max(top_k, 0), MAX_TOP_K)


def candidate_count(top_k: int) -> int:
    """Return how many hits each search fetches: more than top_k, so that ties are broken here."""
    return max(CANDIDATES, 2 * clamp_top_k(top_k))


def combine(words: Iterable[Hit], meaning: Iterable[Hit], full_match: float, top_k: int) -> list[Hit]:
    """Merge a search by words with one by meaning: cosine similarity plus the share of the query that matches.

    Ranks would give half of the votes to words also where no word of the query says anything. The weights are equal,
    and scores between 0 and 1; `bench/retrieval.py` compares.
    """
    similarity = {hit.id: hit.score for hit in meaning}
    lowest = min(similarity.values(), default=-1.0)  # of others it is not higher
    shares = {hit.id: min(hit.score / full_match, 1.0) for hit in words}
    scores = {each: (1 + similarity.get(each, lowest) + shares.get(each, 0.0)) / 3 for each in {**similarity, **shares}}
    return best_first(Hit(memory_id, score) for memory_id, score in scores.items())[: clamp_top_k(top_k)]


def fuse(searches: Sequence[Iterable[Hit]], top_k: int) -> list[Hit]:
    """Merge searches by reciprocal rank fusion, since their scores are not comparable; ties are ordered by id."""
    scores: defaultdict[str, float] = defaultdict(float)
    for hits in searches:
        for rank, hit in enumerate(best_first(hits)):
            scores[hit.id] += RRF_K / (RRF_K + rank) / len(searches)
    return best_first(Hit(memory_id, score) for memory_id, score in scores.items())[: clamp_top_k(top_k)]


def with_candidates(hits: Sequence[Hit] | None, waiting: Sequence[Hit], pinned: Sequence[Hit], top_k: int) -> list[Hit]:
    """Merge the hits of the index with memories that are not in it yet, by words, and with the pinned ones.

    The hits are None if the index did not answer.
    """
    searches = [] if hits is None else [hits]
    if by_words := [hit for hit in waiting if hit.score > 0]:
        searches.append(by_words)
    if pinned:
        searches.append(pinned)
    return list(hits) if hits is not None and len(searches) == 1 else fuse(searches, top_k)


def recency(index: int) -> float:
    """Return the factor of the score of a memory, numbered from the newest on, that puts newer ones first."""
    return 1 - index / 1_000


def best_by_words(hits: Iterable[Hit], top_k: int) -> list[Hit]:
    """Return the best hits of a search by words, with their unbounded scores mapped to 0..1."""
    return [Hit(hit.id, hit.score / (1 + hit.score)) for hit in best_first(hits)[: clamp_top_k(top_k)]]


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits by descending score; ties are ordered by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))
