"""Operations on the memory of an agent; each function is one transaction, or part of a larger one."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from artel.agent_memory import index_queue
from artel.agent_memory.repository import (
    MAX_PINNED,
    ArchiveRepository,
    MemoryRepository,
    NewMemory,
    StoredArchive,
    StoredMemory,
)
from artel.agents.repository import AgentRepository
from artel.db.hints import MemoriesChanged
from artel.db.tenant import Tenant
from artel.db.tx import Tx
from artel.errors import AgentNotFound, LimitReached, MemoryNotFound
from artel.projects.repository import ProjectRepository
from artel.vector_index.store import collection_name

MAX_MEMORIES = 1_000_000  # of one agent


@dataclass(frozen=True, slots=True)
class MemoriesAdded:
    """A hint: memories were added to an agent's, whose version is this one now."""

    agent: tuple[int, int, int]  # ids of the user, the project and the agent
    version: int
    memories: tuple[StoredMemory, ...]


def remember(tx: Tx, project_id: int, agent_id: int, new: Sequence[NewMemory]) -> list[StoredMemory]:
    """Add memories as part of a larger transaction; return an empty list if the agent was deleted."""
    version = AgentRepository(tx).raise_memory_version(project_id, agent_id)
    if version is None:
        return []
    added = MemoryRepository(tx).add(project_id, agent_id, new)
    tx.after_commit(MemoriesAdded((tx.principal.user_id, project_id, agent_id), version, tuple(added)))
    return added


def replace_memory(tx: Tx, project_id: int, agent_id: int, new: NewMemory) -> bool:
    """Store a memory, or replace the one with its id; return whether the agent exists."""
    if AgentRepository(tx).raise_memory_version(project_id, agent_id) is None:
        return False
    MemoryRepository(tx).put(project_id, agent_id, new)
    tx.after_commit(MemoriesChanged())
    return True


def add(tx: Tx, project_id: int, agent_id: int, new: NewMemory) -> StoredMemory:
    """Add one memory; raise LimitReached or AgentNotFound."""
    if MemoryRepository(tx).count(project_id, agent_id) >= MAX_MEMORIES:
        raise LimitReached(
            f"The agent has reached the limit of {MAX_MEMORIES} memories. Clear its memory, or archive it."
        )
    added = remember(tx, project_id, agent_id, [new])
    if not added:
        raise AgentNotFound("Agent not found")
    return added[0]


def edit(
    tx: Tx, project_id: int, agent_id: int, memory_id: str, content: str | None, pinned: bool | None
) -> StoredMemory:
    """Change the content of a memory, or pin it; None does not change. Raise MemoryNotFound or LimitReached."""
    AgentRepository(tx).raise_memory_version(project_id, agent_id)
    rows = MemoryRepository(tx)
    if content is not None:
        rows.edit(project_id, agent_id, memory_id, content)
        tx.after_commit(MemoriesChanged())
    if pinned is not None:
        rows.pin(project_id, agent_id, memory_id, pinned=pinned)
        if pinned and rows.count_pinned(project_id, agent_id) > MAX_PINNED:
            raise LimitReached(f"An agent can have at most {MAX_PINNED} pinned memories. Unpin one first.")
    return find(tx.connection, tx.principal, project_id, agent_id, memory_id)


def find(connection: Connection, tenant: Tenant, project_id: int, agent_id: int, memory_id: str) -> StoredMemory:
    """Return one memory of the agent; raise MemoryNotFound if there is none with this id."""
    found = MemoryRepository(connection, tenant).by_ids(project_id, agent_id, [memory_id])
    if memory_id not in found:
        raise MemoryNotFound("Memory not found")
    return found[memory_id]


def forget(tx: Tx, project_id: int, agent_id: int, memory_id: str) -> None:
    """Delete one memory and queue its removal from the index; raise MemoryNotFound if there is none."""
    agent = AgentRepository(tx).get(project_id, agent_id)
    AgentRepository(tx).raise_memory_version(project_id, agent_id)
    if not MemoryRepository(tx).remove(project_id, agent_id, memory_id):
        raise MemoryNotFound("Memory not found")
    name = collection_name(tx.principal.user_id, project_id, agent.name)
    index_queue.add_chore(tx.connection, "forget", name, memory_id)


def clear(tx: Tx, project_id: int, agent_id: int) -> int:
    """Delete the agent's memories and queue clearing the index; return their number."""
    agent = AgentRepository(tx).get(project_id, agent_id)
    AgentRepository(tx).raise_memory_version(project_id, agent_id)
    deleted = MemoryRepository(tx).clear(project_id, agent_id)
    index_queue.add_chore(tx.connection, "clear", collection_name(tx.principal.user_id, project_id, agent.name))
    return deleted


def reset_indexed(tx: Tx, project_id: int, agent_id: int) -> int:
    """Mark the agent's memories as not indexed, because its collection was missing; return their number."""
    index_queue.revoke_tickets(tx.connection)
    return MemoryRepository(tx).reset_indexed(project_id, agent_id)


def list_archives(
    connection: Connection, tenant: Tenant, project_id: int, limit: int, offset: int
) -> tuple[list[StoredArchive], int]:
    """Return one page of the project's archives, newest first, and the total number."""
    ProjectRepository(connection, tenant).get(project_id)
    return ArchiveRepository(connection, tenant).page(project_id, limit, offset)


def archive_page(
    connection: Connection, tenant: Tenant, project_id: int, archive_id: str, after: str
) -> list[StoredMemory]:
    """Return the archive's next memories, oldest first; an empty list at the end."""
    ProjectRepository(connection, tenant).get(project_id)
    ArchiveRepository(connection, tenant).require(project_id, archive_id)
    return MemoryRepository(connection, tenant).archived_after(project_id, archive_id, after)
