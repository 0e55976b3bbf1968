"""The knowledge base of a project: search over the memories of all its agents."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from artel.agent_memory.context_store import Recalled
from artel.agent_memory.repository import StoredMemory
from artel.agent_memory.service import Memories
from artel.db.tenant import Tenant
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.vector_index.bm25 import word_scores
from artel.vector_index.ranking import fuse
from artel.vector_index.store import EVERYTHING, Filter, Hit

MAX_CANDIDATES = 32  # of all agents together: embedding takes 5 ms each

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnowledgeHit:
    """A memory of one of the agents; scores are comparable only within one search."""

    agent_id: int
    agent: str
    memory: StoredMemory
    score: float


class ProjectKnowledge:
    """Searches the memories of several agents of one project together."""

    def __init__(self, memories: Memories, tenant: Tenant, project_id: int, agents: Sequence[tuple[int, str]]) -> None:
        """`agents` are ids and names."""
        self._memories = memories
        self._tenant = tenant
        self._project_id = project_id
        self._agents = agents

    async def search(self, query: str, top_k: int = 5, where: Filter = EVERYTHING) -> list[KnowledgeHit]:
        """Return the best matching memories of all agents, best first."""
        each = max(1, min(top_k, MAX_CANDIDATES // max(1, len(self._agents))))
        found = await asyncio.gather(*(self._search(agent, query, each, where) for agent in self._agents))
        hits = {
            recalled.memory.id: KnowledgeHit(agent_id, name, recalled.memory, recalled.score)
            for (agent_id, name), some in zip(self._agents, found, strict=True)
            for recalled in some
        }
        # Scores of different collections are not comparable, so all hits are ranked again together.
        rankings = [await self._rank_by_meaning(query, hits), _rank_by_words(query, hits)]
        best = fuse([ranking for ranking in rankings if ranking], top_k)
        return [replace(hits[hit.id], score=hit.score) for hit in best]

    async def _search(self, agent: tuple[int, str], query: str, top_k: int, where: Filter) -> list[Recalled]:
        agent_id, name = agent
        return await self._memories.context_store(self._tenant, self._project_id, agent_id, name).search(
            query, top_k, where
        )

    async def _rank_by_meaning(self, query: str, hits: dict[str, KnowledgeHit]) -> list[Hit]:
        if not hits:
            return []
        texts = [hit.memory.content for hit in hits.values()]
        try:
            wanted, *vectors = await self._memories.embed([query, *texts])
        except ArtelError as failure:
            log.info("knowledge_judged_by_words_alone", reason=failure.detail)
            return []
        return [
            Hit(memory_id, float(sum(a * b for a, b in zip(wanted, vector, strict=True))))
            for memory_id, vector in zip(hits, vectors, strict=True)
        ]


def _rank_by_words(query: str, hits: dict[str, KnowledgeHit]) -> list[Hit]:
    scores = word_scores(query, (hit.memory.content for hit in hits.values()))
    return [Hit(memory_id, score) for memory_id, score in zip(hits, scores, strict=True) if score > 0]
