"""Endpoints for the memory of an agent, of all agents of a project, and of deleted agents."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, status
from fastapi.responses import StreamingResponse
from pydantic.json_schema import SkipJsonSchema

from artel.agent_memory import knowledge
from artel.agent_memory import transactions as memories
from artel.agent_memory.repository import NewMemory, StoredMemory
from artel.agent_memory.service import AgentContextStore
from artel.agents.transactions import get_agent
from artel.api.dependencies import AgentId, ArchiveId, CurrentUser, Paging, ProjectId, Services
from artel.api.problems import documented
from artel.contract.http import Page
from artel.contract.memory import (
    AddMemory,
    FoundMemories,
    FoundMemory,
    KnownMemories,
    KnownMemory,
    Memory,
    MemoryArchive,
    MemoryChanges,
    MemoryStats,
    MemoryType,
    SearchMemory,
)
from artel.projects.transactions import get_project
from artel.vector_index.store import Filter

JSON_LINES = "application/x-ndjson"
_ERRORS = documented(401, 404, 422, 503)
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"description": "One memory per line.", "content": {JSON_LINES: {"schema": {"type": "string"}}}}
}

router = APIRouter(prefix="/my/projects/{project_id}/agents/{agent_id}/context", tags=["memory"], responses=_ERRORS)
project_router = APIRouter(prefix="/my/projects/{project_id}", tags=["memory"], responses=_ERRORS)

# None is not in the schema: a query parameter can be omitted but not null.
OfType = Annotated[MemoryType | SkipJsonSchema[None], Query(description="Only memories of this type.")]
Success = Annotated[bool | SkipJsonSchema[None], Query(description="Only memories of successful (or failed) work.")]


class JsonLines(StreamingResponse):
    """JSON Lines."""

    media_type = JSON_LINES


async def _context(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services
) -> AgentContextStore:
    agent = await services.database.read(get_agent, user, project_id, agent_id)
    return services.memories.context_store(user, project_id, agent_id, agent.name)


Context = Annotated[AgentContextStore, Depends(_context)]


@router.get("")
async def list_memories(
    context: Context,
    paging: Paging,
    type: OfType = None,  # noqa: A002
    success: Success = None,
) -> Page[Memory]:
    """List the agent's memories, pinned ones first, then newest first."""
    rows, total = await context.page(Filter(type=type, success=success), paging.limit, paging.offset)
    return paging.page([Memory.of(row) for row in rows], total)


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 409, 413))
async def add_memory(body: AddMemory, context: Context, user: CurrentUser, services: Services) -> Memory:
    """Add a memory to the agent."""
    async with services.storage.reserved(user, len(body.content.encode())):
        return Memory.of(await context.add(NewMemory(**dict(body))))


@router.delete("", status_code=status.HTTP_204_NO_CONTENT)
async def clear_memory(context: Context) -> None:
    """Delete all memories of the agent."""
    await context.clear()


@router.post("/search", responses=documented(400, 413))
async def search_memory(body: SearchMemory, context: Context) -> FoundMemories:
    """Search the agent's memories by meaning and by words."""
    found = await context.search(body.query, body.top_k, _filter(body))
    return FoundMemories(items=[FoundMemory.of(each.memory, score=each.score) for each in found])


@router.get("/stats")
async def memory_stats(context: Context, services: Services) -> MemoryStats:
    """Show statistics of the agent's memory."""
    figures = await context.stats()
    health = await services.memories.health()
    return MemoryStats.of(
        figures,
        collection=context.collection,
        failed=figures.count - figures.succeeded,
        index_ok=health.index_ok,
        embeddings=health.embeddings,
    )


@router.get("/export", response_class=JsonLines, responses=_LINES)
async def export_memory(context: Context) -> JsonLines:
    """Export all memories of the agent, one JSON document per line, oldest first."""
    return await _lines(context.after)


# Only UUIDs match, so that other paths are not taken for a memory id.
@router.get("/{memory_id:uuid}")
async def show_memory(memory_id: UUID, context: Context) -> Memory:
    """Show one memory of the agent."""
    return Memory.of(await context.get(str(memory_id)))


@router.patch("/{memory_id:uuid}", responses=documented(400, 409, 413))
async def edit_memory(
    memory_id: UUID, body: MemoryChanges, context: Context, user: CurrentUser, services: Services
) -> Memory:
    """Change the content of a memory, or pin it. Searches find the new content at once."""
    changed = body.model_dump(exclude_unset=True)
    content: str | None = changed.get("content")
    stored = await context.get(str(memory_id))
    more = max(0, len((content or "").encode()) - len(stored.content.encode()))
    async with services.storage.reserved(user, more):
        return Memory.of(await context.edit(stored.id, content, changed.get("pinned")))


@router.delete("/{memory_id:uuid}", status_code=status.HTTP_204_NO_CONTENT)
async def forget_memory(memory_id: UUID, context: Context) -> None:
    """Delete one memory of the agent."""
    await context.forget(str(memory_id))


@project_router.post("/context/search", responses=documented(400, 413))
async def search_knowledge(
    project_id: ProjectId, body: SearchMemory, user: CurrentUser, services: Services
) -> KnownMemories:
    """Search the memories of all agents of the project."""
    project = await services.database.read(get_project, user, project_id)
    agents = [(agent.id, agent.name) for agent in project.agents]
    found = await knowledge.search_knowledge(
        services.memories, user, project_id, agents, body.query, body.top_k, _filter(body)
    )
    return KnownMemories(
        items=[KnownMemory.of(hit.memory, score=hit.score, agent_id=hit.agent_id, agent=hit.agent) for hit in found]
    )


@project_router.get("/archives")
async def list_archives(
    project_id: ProjectId, user: CurrentUser, services: Services, paging: Paging
) -> Page[MemoryArchive]:
    """List the archives of the project, newest first."""
    found, total = await services.database.read(memories.list_archives, user, project_id, paging.limit, paging.offset)
    items = [MemoryArchive.of(archive) for archive in found]
    return paging.page(items, total)


@project_router.get("/archives/{archive_id}", response_class=JsonLines, responses=_LINES)
async def get_archive(project_id: ProjectId, archive_id: ArchiveId, user: CurrentUser, services: Services) -> JsonLines:
    """Return everything in an archive, one JSON document per line, oldest first."""
    return await _lines(
        lambda after: services.database.read(memories.archive_page, user, project_id, archive_id, after)
    )


async def _lines(read_after: Callable[[str], Awaitable[list[StoredMemory]]]) -> JsonLines:
    """Stream all memories, oldest first; reads the first page before responding, so that a 404 is still possible."""
    first = await read_after("")

    async def lines() -> AsyncIterator[str]:
        page = first
        while page:
            yield "".join(f"{Memory.of(row).model_dump_json()}\n" for row in page)
            page = await read_after(page[-1].id)

    return JsonLines(lines())


def _filter(body: SearchMemory) -> Filter:
    return Filter(type=body.type, success=body.success, since=body.since, until=body.until)
