"""The memory of agents, for their tools: an agent's own, and that of the whole project."""

from artel.agent_memory.context_store import Recalled
from artel.agent_memory.knowledge import ProjectKnowledge
from artel.agent_memory.repository import NewMemory
from artel.contract.http import Agent
from artel.projects.service import get_project
from artel.spaces.worker_space import WorkerSpace
from artel.tools.recall import MemoryRead, MemoryWrite, ProjectMemoryRead, Recollection
from artel.tools.tool import Tool
from artel.vector_index.store import Filter


def memory_tools(space: WorkerSpace, agent: Agent) -> list[Tool]:
    """Return the tools with which an agent uses its memory; none if it has no memory."""
    if not agent.memory:
        return []
    own = _AgentMemory(space, agent.id)
    return [MemoryRead(own), ProjectMemoryRead(_ProjectMemory(space)), MemoryWrite(own)]


def source_of(one: Recalled) -> str:
    """Return where a memory comes from, for whoever reads it."""
    return f"{one.memory.type} of {one.memory.created_at:%Y-%m-%d %H:%M}"


class _AgentMemory:
    """An agent's own memory."""

    def __init__(self, space: WorkerSpace, agent_id: int) -> None:
        self._space = space
        self._agent_id = agent_id

    async def search(self, query: str, top_k: int, type: str | None) -> list[Recollection]:  # noqa: A002
        found = await self._space.search_context(self._agent_id, query, top_k, Filter(type=type))
        return [
            Recollection(one.memory.content, source_of(one), one.score, one.memory.type, one.memory.created_at)
            for one in found
        ]

    async def remember(self, content: str, type: str) -> str:  # noqa: A002
        new = NewMemory(content, type, metadata={"source": "agent"})
        return (await self._space.add_context(self._agent_id, new)).id


class _ProjectMemory:
    """What all agents of the project remember, for an agent that was let in."""

    def __init__(self, space: WorkerSpace) -> None:
        self._space = space

    async def search(self, query: str, top_k: int, type: str | None) -> list[Recollection]:  # noqa: A002
        services, principal, project_id = self._space.services, self._space.principal, self._space.project_id
        project = await services.database.read(get_project, principal, project_id)
        agents = [(agent.id, agent.name) for agent in project.agents if agent.memory]
        knowledge = ProjectKnowledge(services.memories, principal, project_id, agents)
        return [
            Recollection(
                one.memory.content,
                f"{one.memory.type} of {one.agent}",
                one.score,
                one.memory.type,
                one.memory.created_at,
            )
            for one in await knowledge.search(query, top_k, Filter(type=type))
        ]

    async def remember(self, content: str, type: str) -> str:  # noqa: A002, ARG002
        raise PermissionError("what others remember can only be read")
