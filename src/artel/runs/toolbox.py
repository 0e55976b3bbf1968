"""The tools of one run, as far as the agent may use them: task workspace, children, web, memory, the user's files."""

from typing import TYPE_CHECKING

from artel.agent_memory.knowledge import KnowledgeHit, search_knowledge
from artel.agent_memory.repository import NewMemory
from artel.agent_memory.service import Recalled
from artel.approvals.transactions import use
from artel.contract.http import Agent
from artel.errors import AgentNotFound
from artel.projects.transactions import get_project
from artel.runs.children import AgentFamily
from artel.runs.user_files import RunFiles
from artel.spaces.worker_space import WorkerSpace
from artel.task_workspaces.agent_files import AgentFiles
from artel.tools.consent import Consent
from artel.tools.family import SpawnAgent
from artel.tools.files import file_tools
from artel.tools.recall import MemoryRead, MemoryWrite, ProjectMemoryRead, Recollection
from artel.tools.task_files import task_file_tools
from artel.tools.tool import Tool
from artel.tools.toolbox import Toolbox
from artel.vector_index.store import Filter

if TYPE_CHECKING:
    from artel.runs.agent_run import AgentRun


async def toolbox_of(run: "AgentRun", files: RunFiles) -> Toolbox:
    space, agent, waiting = run.space, run.agent, run.task.waiting
    allowed = await _allowed_tools(space, agent)
    if not allowed:
        return Toolbox()
    services = space.services
    task_files = AgentFiles(
        services.database, services.workspaces, services.storage, space.principal, space.project_id, agent.id
    )
    tools: list[Tool] = [*task_file_tools(task_files), SpawnAgent(AgentFamily(run))]
    tools += services.web.of(space.principal.user_id)
    if agent.memory:
        own = _AgentMemory(space, agent.id)
        tools += [MemoryRead(own), ProjectMemoryRead(_ProjectMemory(space)), MemoryWrite(own)]
    tools += file_tools(files)

    # The call of a run that was parked in its child was approved before.
    resumed = waiting.first_call if waiting is not None and waiting.run.child is not None else None
    return Toolbox(tools, allowed, files.policy, consent_of(run), files, resumed)


def consent_of(run: "AgentRun") -> Consent:
    """Return what the user has decided about calls of the run."""
    space, waiting = run.space, run.task.waiting

    async def use_approval(approval_id: str) -> bool:
        return await space.services.database.of(space.principal).run(use, approval_id)

    return Consent(waiting.decisions if waiting else {}, use_approval)


async def _allowed_tools(space: WorkerSpace, agent: Agent) -> set[str]:
    """Return what the agent may use: of its own list, what each of its ancestors may use too."""
    allowed, seen = set(agent.tools), {agent.id}
    while allowed and agent.parent_agent_id not in (None, space.root_id, *seen):
        try:
            agent = await space.cache.get(agent.parent_agent_id or 0)
        except AgentNotFound:  # `root`, of a project that had no agents when the space began
            break
        seen.add(agent.id)
        allowed &= set(agent.tools)
    return allowed


def source_of(recalled: Recalled) -> str:
    """Return the type and the date of a memory, as text for the model."""
    return f"{recalled.memory.type} of {recalled.memory.created_at:%Y-%m-%d %H:%M}"


def _recollection(found: Recalled | KnowledgeHit, source: str) -> Recollection:
    memory = found.memory
    return Recollection(memory.content, source, found.score, memory.type, memory.created_at)


class _AgentMemory:
    """An agent's own memory."""

    def __init__(self, space: WorkerSpace, agent_id: int) -> None:
        self._space = space
        self._agent_id = agent_id

    async def search(self, query: str, top_k: int, type: str | None) -> list[Recollection]:  # noqa: A002
        found = await self._space.search_context(self._agent_id, query, top_k, Filter(type=type))
        return [_recollection(item, source_of(item)) for item in found]

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
        where = Filter(type=type)
        found = await search_knowledge(services.memories, principal, project_id, agents, query, top_k, where)
        return [_recollection(item, f"{item.memory.type} of {item.agent}") for item in found]

    async def remember(self, content: str, type: str) -> str:  # noqa: A002, ARG002
        raise PermissionError("what others remember can only be read")
