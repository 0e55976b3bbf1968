"""Search over the memories of several agents of a project."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from artel.agent_memory.repository import StoredMemory
from artel.agent_memory.service import Memories
from artel.auth.principal import Principal
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.vector_index.bm25 import word_scores
from artel.vector_index.search import fuse
from artel.vector_index.store import Filter, Hit

MAX_CANDIDATES = 32  # of all agents together: embedding takes 5 ms each

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnowledgeHit:
    """A memory of one of the agents; scores are comparable only within one search."""

    agent_id: int
    agent: str
    memory: StoredMemory
    score: float


async def search_knowledge(
    memories: Memories,
    user: Principal,
    project_id: int,
    agents: Sequence[tuple[int, str]],
    query: str,
    top_k: int,
    where: Filter,
) -> list[KnowledgeHit]:
    """Return the best matching memories of the agents, given by id and name, best first."""
    each = max(1, min(top_k, MAX_CANDIDATES // max(1, len(agents))))
    stores = [memories.context_store(user, project_id, agent_id, name) for agent_id, name in agents]
    found = await asyncio.gather(*(store.search(query, each, where) for store in stores))
    hits = {
        recalled.memory.id: KnowledgeHit(agent_id, name, recalled.memory, recalled.score)
        for (agent_id, name), some in zip(agents, found, strict=True)
        for recalled in some
    }
    if not hits:
        return []
    # Scores of different collections are not comparable, so all hits are ranked again together.
    texts = [hit.memory.content for hit in hits.values()]
    scores = zip(hits, word_scores(query, texts), strict=True)
    rankings = [[Hit(memory_id, score) for memory_id, score in scores if score > 0]]
    try:
        wanted, *vectors = await memories.embedder.embed([query, *texts])
    except ArtelError as failure:
        log.info("knowledge_judged_by_words_alone", reason=failure.detail)
    else:
        products = [float(sum(a * b for a, b in zip(wanted, vector, strict=True))) for vector in vectors]
        rankings.append([Hit(memory_id, product) for memory_id, product in zip(hits, products, strict=True)])
    best = fuse([ranking for ranking in rankings if ranking], top_k)
    return [replace(hits[hit.id], score=hit.score) for hit in best]
