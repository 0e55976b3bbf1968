"""What all agents of a project remember together: its knowledge base."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from artel.agent_memory.context_store import Recalled
from artel.agent_memory.repository import StoredMemory
from artel.agent_memory.service import Memories
from artel.db.tenant import Tenant
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.vector_index.bm25 import likeness
from artel.vector_index.ranking import fuse
from artel.vector_index.store import EVERYTHING, Filter, Hit

MAX_CANDIDATES = 32  # of all agents together: reading them again takes 5 ms each

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """A memory of one of the agents, and how well it fits; scores compare only within one answer."""

    agent_id: int
    agent: str
    memory: StoredMemory
    score: float


class ProjectKnowledge:
    """Searches the memories of several agents of one project as if they were one."""

    def __init__(self, memories: Memories, tenant: Tenant, project_id: int, agents: Sequence[tuple[int, str]]) -> None:
        """`agents` are numbers and names."""
        self._memories = memories
        self._tenant = tenant
        self._project_id = project_id
        self._agents = agents

    async def search(self, query: str, top_k: int = 5, where: Filter = EVERYTHING) -> list[Known]:
        """Return the memories that fit best, whosever they are, best first."""
        each = max(1, min(top_k, MAX_CANDIDATES // max(1, len(self._agents))))
        found = await asyncio.gather(*(self._search(agent, query, each, where) for agent in self._agents))
        known = {
            recalled.memory.id: Known(agent_id, name, recalled.memory, recalled.score)
            for (agent_id, name), some in zip(self._agents, found, strict=True)
            for recalled in some
        }
        # The scores of two collections don't compare, so what they found is judged once more, side by side.
        judged = [await self._by_meaning(query, known), _by_words(query, known)]
        best = fuse([hits for hits in judged if hits], top_k)
        return [_scored(known[hit.id], hit.score) for hit in best]

    async def _search(self, agent: tuple[int, str], query: str, top_k: int, where: Filter) -> list[Recalled]:
        agent_id, name = agent
        return await self._memories.context_store(self._tenant, self._project_id, agent_id, name).search(
            query, top_k, where
        )

    async def _by_meaning(self, query: str, known: dict[str, Known]) -> list[Hit]:
        if not known:
            return []
        texts = [one.memory.content for one in known.values()]
        try:
            wanted, *vectors = await self._memories.embed([query, *texts])
        except ArtelError as failure:
            log.info("knowledge_judged_by_words_alone", reason=failure.detail)
            return []
        return [
            Hit(memory_id, float(sum(a * b for a, b in zip(wanted, vector, strict=True))))
            for memory_id, vector in zip(known, vectors, strict=True)
        ]


def _by_words(query: str, known: dict[str, Known]) -> list[Hit]:
    judged = [Hit(one.memory.id, likeness(query, one.memory.content)) for one in known.values()]
    return [hit for hit in judged if hit.score > 0]


def _scored(known: Known, score: float) -> Known:
    return Known(known.agent_id, known.agent, known.memory, score)
