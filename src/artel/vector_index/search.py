"""Search of one collection with embedding of the query."""

from artel.errors import ArtelError
from artel.logs import get_logger
from artel.vector_index.embedder import Embedder
from artel.vector_index.store import EVERYTHING, Filter, Hit, MemoryStore, Vector

log = get_logger(__name__)


async def search_memory(
    store: MemoryStore, embedder: Embedder, collection: str, query: str, top_k: int, where: Filter = EVERYTHING
) -> list[Hit]:
    """Return the best memories for a query; without an embedder, or if it fails, by words only."""
    if not query.strip() or await store.count(collection) == 0:
        return []
    return await store.search(collection, query, await _vector(embedder, query), top_k, where)


async def _vector(embedder: Embedder, query: str) -> Vector | None:
    if embedder.dimensions == 0:
        return None
    try:
        return (await embedder.embed([query]))[0]
    except ArtelError as failure:
        log.warning("memory_searched_by_words_alone", reason=failure.detail)
        return None
