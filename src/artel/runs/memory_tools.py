"""The memory tools of agents: for their own memory and for the project's."""

from artel.agent_memory.context_store import Recalled
from artel.agent_memory.knowledge import ProjectKnowledge
from artel.agent_memory.repository import NewMemory
from artel.contract.http import Agent
from artel.projects.transactions import get_project
from artel.spaces.worker_space import WorkerSpace
from artel.tools.recall import MemoryRead, MemoryWrite, ProjectMemoryRead, Recollection
from artel.tools.tool import Tool
from artel.vector_index.store import Filter


def memory_tools(space: WorkerSpace, agent: Agent) -> list[Tool]:
    """Return the memory tools of an agent; none if it has no memory."""
    if not agent.memory:
        return []
    own = _AgentMemory(space, agent.id)
    return [MemoryRead(own), ProjectMemoryRead(_ProjectMemory(space)), MemoryWrite(own)]


def source_of(recalled: Recalled) -> str:
    """Return the type and the date of a memory, as text for the model."""
    return f"{recalled.memory.type} of {recalled.memory.created_at:%Y-%m-%d %H:%M}"


class _AgentMemory:
    """An agent's own memory."""

    def __init__(self, space: WorkerSpace, agent_id: int) -> None:
        self._space = space
        self._agent_id = agent_id

    async def search(self, query: str, top_k: int, type: str | None) -> list[Recollection]:  # noqa: A002
        found = await self._space.search_context(self._agent_id, query, top_k, Filter(type=type))
        return [
            Recollection(item.memory.content, source_of(item), item.score, item.memory.type, item.memory.created_at)
            for item in found
        ]

    async def remember(self, content: str, type: str) -> str:  # noqa: A002
        new = NewMemory(content, type, metadata={"source": "agent"})
        return (await self._space.add_context(self._agent_id, new)).id


class _ProjectMemory:
    """The memories of all agents of the project, read-only."""

    def __init__(self, space: WorkerSpace) -> None:
        self._space = space

    async def search(self, query: str, top_k: int, type: str | None) -> list[Recollection]:  # noqa: A002
        services, principal, project_id = self._space.services, self._space.principal, self._space.project_id
        project = await services.database.read(get_project, principal, project_id)
        agents = [(agent.id, agent.name) for agent in project.agents if agent.memory]
        knowledge = ProjectKnowledge(services.memories, principal, project_id, agents)
        return [
            Recollection(
                item.memory.content,
                f"{item.memory.type} of {item.agent}",
                item.score,
                item.memory.type,
                item.memory.created_at,
            )
            for item in await knowledge.search(query, top_k, Filter(type=type))
        ]

    async def remember(self, content: str, type: str) -> str:  # noqa: A002, ARG002
        raise PermissionError("what others remember can only be read")
