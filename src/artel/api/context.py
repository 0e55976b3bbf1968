"""Endpoints for an agent's memory."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, status
from pydantic.json_schema import SkipJsonSchema

from artel.agent_memory import transactions as memories
from artel.agent_memory.context_store import AgentContextStore
from artel.agent_memory.repository import NewMemory
from artel.agents.transactions import get_agent
from artel.api.dependencies import AgentId, CurrentUser, Limit, Offset, ProjectId, Services
from artel.api.json_lines import DOCUMENTED, JsonLines, memory_lines, memory_of
from artel.api.problems import documented
from artel.contract.http import Page
from artel.contract.memory import (
    AddMemory,
    FoundMemories,
    FoundMemory,
    Memory,
    MemoryStats,
    MemoryType,
    SearchMemory,
)
from artel.vector_index.store import Filter

router = APIRouter(
    prefix="/my/projects/{project_id}/agents/{agent_id}/context",
    tags=["memory"],
)

# None is not in the schema: a query parameter can be omitted but not null.
OfType = Annotated[MemoryType | SkipJsonSchema[None], Query(description="Only memories of this type.")]
Success = Annotated[bool | SkipJsonSchema[None], Query(description="Only memories of successful (or failed) work.")]


async def _context(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services
) -> AgentContextStore:
    agent = await services.database.read(get_agent, user, project_id, agent_id)
    return services.memories.context_store(user, project_id, agent_id, agent.name)


Context = Annotated[AgentContextStore, Depends(_context)]


@router.get("", responses=documented(401, 404, 422, 503))
async def list_memories(
    project_id: ProjectId,
    agent_id: AgentId,
    user: CurrentUser,
    services: Services,
    _context: Context,
    limit: Limit = 50,
    offset: Offset = 0,
    type: OfType = None,  # noqa: A002
    success: Success = None,
) -> Page[Memory]:
    """List the agent's memories, newest first."""
    where = Filter(type=type, success=success)
    rows, total = await services.database.read(memories.page, user, project_id, agent_id, where, limit, offset)
    return Page(items=[memory_of(row) for row in rows], total=total, limit=limit, offset=offset)


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 404, 409, 413, 422, 503))
async def add_memory(body: AddMemory, context: Context, user: CurrentUser, services: Services) -> Memory:
    """Add a memory to the agent."""
    await services.storage.take(user, len(body.content.encode()))
    return memory_of(await context.add(NewMemory(**dict(body))))


@router.delete("", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 404, 422, 503))
async def clear_memory(context: Context) -> None:
    """Delete all memories of the agent."""
    await context.clear()


@router.post("/search", responses=documented(400, 401, 404, 413, 422, 503))
async def search_memory(body: SearchMemory, context: Context) -> FoundMemories:
    """Search the agent's memories by meaning and by words."""
    where = Filter(type=body.type, success=body.success, since=body.since, until=body.until)
    found = await context.search(body.query, body.top_k, where)
    return FoundMemories(items=[FoundMemory(**dict(memory_of(each.memory)), score=each.score) for each in found])


@router.get("/stats", responses=documented(401, 404, 422, 503))
async def memory_stats(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services, context: Context
) -> MemoryStats:
    """Show statistics of the agent's memory."""
    figures = await services.database.read(memories.stats, user, project_id, agent_id)
    health = await services.memories.health()
    return MemoryStats(
        collection=context.collection,
        count=figures.count,
        succeeded=figures.succeeded,
        failed=figures.count - figures.succeeded,
        waiting=figures.waiting,
        by_type=figures.by_type,
        oldest=figures.oldest,
        newest=figures.newest,
        index_ok=health.index_ok,
        embeddings=health.embeddings,
    )


@router.get("/export", response_class=JsonLines, responses=DOCUMENTED | documented(401, 404, 422, 503))
async def export_memory(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services, _context: Context
) -> JsonLines:
    """Export all memories of the agent, one JSON document per line, oldest first."""
    return await memory_lines(
        lambda after: services.database.read(memories.export_page, user, project_id, agent_id, after)
    )


# Only UUIDs match, so that other paths are not taken for a memory id.
@router.get("/{memory_id:uuid}", responses=documented(401, 404, 422, 503))
async def show_memory(memory_id: UUID, context: Context) -> Memory:
    """Show one memory of the agent."""
    return memory_of(await context.get(str(memory_id)))
