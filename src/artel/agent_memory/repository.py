"""The tables of memories and of their archives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Row, Select, Text, bindparam, cast, func, or_

from artel.db.tables import memories, memory_archives
from artel.db.tenant import TenantRepository, prepared
from artel.errors import ArchiveNotFound
from artel.ids import uuid7
from artel.text import storable
from artel.vector_index.store import EVERYTHING, Filter

MAX_CONTENT_CHARACTERS = 100_000
MAX_UNINDEXED = 200  # memories that are searched by words because they are not indexed yet
SEARCHED_CHARACTERS = 4_000  # of each unindexed memory
MAX_TYPES = 100  # in statistics
RECALLED = 5  # memories read by one prepared statement: what a turn recalls
EXPORT_ROWS = 50  # per page: a memory may have 100,000 characters


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory to store; its id is generated here, so that a retried transaction creates the same row."""

    content: str
    type: str = "note"
    success: bool = True
    task_id: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    id: str = field(default_factory=uuid7)
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A stored memory of an agent."""

    id: str
    type: str
    content: str
    success: bool
    task_id: str | None
    metadata: dict[str, JsonValue]
    created_at: datetime
    indexed_at: datetime | None


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Statistics of an agent's memory."""

    count: int
    succeeded: int
    waiting: int  # for the index
    oldest: datetime | None
    newest: datetime | None
    by_type: dict[str, int]


@dataclass(frozen=True, slots=True)
class UnindexedMemory:
    """A memory that is not in the index yet."""

    id: str
    content: str
    type: str
    success: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """The archived memory of a deleted agent."""

    id: str
    agent_id: int
    agent: str
    memories: int
    created_at: datetime


class MemoryRepository(TenantRepository):
    """Memories of one user's agents and archives."""

    table = memories

    def stored_bytes(self) -> int:
        """Return the total size of the user's memories in bytes."""
        return self._bytes_of(memories.c.content) + self._bytes_of(cast(memories.c.metadata, Text))

    @prepared
    def _not_indexed(cls) -> Select[Any]:  # noqa: N805
        begin = func.substr(memories.c.content, 1, SEARCHED_CHARACTERS).label("content")
        return (
            cls._prepare_select(memories.c.id, begin, memories.c.type, memories.c.success, memories.c.created_at)
            .where(memories.c.project_id == bindparam("project"), memories.c.agent_id == bindparam("agent"))
            .where(memories.c.indexed_at.is_(None))
            .order_by(memories.c.id.desc())
            .limit(bindparam("most"))
        )

    @prepared
    def _some(cls) -> Select[Any]:  # noqa: N805
        is_some = or_(*(memories.c.id == bindparam(f"id_{number}") for number in range(RECALLED)))
        return cls._prepare_select().where(
            memories.c.project_id == bindparam("project"), memories.c.agent_id == bindparam("agent"), is_some
        )

    def add(self, project_id: int, agent_id: int, new: Sequence[NewMemory]) -> list[StoredMemory]:
        """Add memories of an agent, which must be there; what is too long is cut."""
        rows: list[dict[str, Any]] = [
            {
                "id": memory.id,
                "type": memory.type,
                "content": storable(memory.content[:MAX_CONTENT_CHARACTERS]),
                "success": memory.success,
                "task_id": memory.task_id,
                "metadata": dict(memory.metadata),
                "created_at": memory.created_at,
            }
            for memory in new
        ]
        self._add([{**row, "project_id": project_id, "agent_id": agent_id} for row in rows])
        return [StoredMemory(**row, indexed_at=None) for row in rows]

    def count(self, project_id: int, agent_id: int, where: Filter = EVERYTHING) -> int:
        """Return the number of the agent's memories that match."""
        return self._count(*_of_agent(project_id, agent_id, where))

    def page(
        self, project_id: int, agent_id: int, where: Filter, limit: int, offset: int
    ) -> tuple[list[StoredMemory], int]:
        """Return one page of the agent's memories, newest first, and the total number."""
        matching = _of_agent(project_id, agent_id, where)
        rows = self._find(*matching, order_by=[memories.c.id.desc()], limit=limit, offset=offset)
        return [_memory(row) for row in rows], self._count(*matching)

    def by_ids(self, project_id: int, agent_id: int, ids: Sequence[str]) -> dict[str, StoredMemory]:
        """Return the agent's memories among these ids, by id."""
        found: dict[str, StoredMemory] = {}
        for start in range(0, len(ids), RECALLED):
            some = [*ids[start : start + RECALLED], *[""] * RECALLED]
            by_number = {f"id_{number}": some[number] for number in range(RECALLED)}
            rows = self._run(self._some, project=project_id, agent=agent_id, **by_number)
            found |= {row.id: _memory(row) for row in rows}
        return found

    def not_indexed(self, project_id: int, agent_id: int) -> list[UnindexedMemory]:
        """Return the agent's newest memories that are not indexed yet, with shortened content."""
        rows = self._run(self._not_indexed, project=project_id, agent=agent_id, most=MAX_UNINDEXED)
        return [UnindexedMemory(*row) for row in rows]

    def after(self, project_id: int, agent_id: int, memory_id: str) -> list[StoredMemory]:
        """Return the agent's next memories after the given one, oldest first; an empty list at the end."""
        conditions = *_of_agent(project_id, agent_id), memories.c.id > memory_id
        return [_memory(row) for row in self._find(*conditions, order_by=[memories.c.id], limit=EXPORT_ROWS)]

    def archived_after(self, project_id: int, archive_id: str, memory_id: str) -> list[StoredMemory]:
        """Return the archive's next memories after the given one, oldest first; an empty list at the end."""
        of_project = memories.c.project_id == project_id
        conditions = of_project, memories.c.archive_id == archive_id, memories.c.id > memory_id
        return [_memory(row) for row in self._find(*conditions, order_by=[memories.c.id], limit=EXPORT_ROWS)]

    def stats(self, project_id: int, agent_id: int) -> MemoryStats:
        """Return statistics of the agent's memory, with at most MAX_TYPES types."""
        of_agent, at = _of_agent(project_id, agent_id), memories.c.created_at
        counts = func.count(), func.count().filter(memories.c.success), func.count(memories.c.indexed_at)
        count, succeeded, indexed, oldest, newest = self.connection.execute(
            self._select(*counts, func.min(at), func.max(at)).where(*of_agent)
        ).one()
        by_type = self.connection.execute(
            self._select(memories.c.type, func.count())
            .where(*of_agent)
            .group_by(memories.c.type)
            .order_by(func.count().desc(), memories.c.type)
            .limit(MAX_TYPES)
        )
        return MemoryStats(count, succeeded, count - indexed, oldest, newest, {row[0]: row[1] for row in by_type})

    def archive(self, project_id: int, agent_id: int, archive_id: str) -> int:
        """Move the agent's memories to an archive; return their number."""
        values = {"agent_id": None, "archive_id": archive_id, "indexed_at": None}
        return self.connection.execute(self._update(values).where(*_of_agent(project_id, agent_id))).rowcount

    def reset_indexed(self, project_id: int, agent_id: int) -> int:
        """Mark the agent's memories as not indexed; return their number."""
        indexed = *_of_agent(project_id, agent_id), memories.c.indexed_at.is_not(None)
        return self.connection.execute(self._update({"indexed_at": None}).where(*indexed)).rowcount

    def clear(self, project_id: int, agent_id: int) -> int:
        """Delete the agent's memories; return their number."""
        return self.connection.execute(self._delete().where(*_of_agent(project_id, agent_id))).rowcount


class ArchiveRepository(TenantRepository):
    """Archives of one user's projects."""

    table = memory_archives

    def add(self, project_id: int, agent_id: int, agent: str) -> str:
        """Add an empty archive of an agent's memories; return its id."""
        archive_id = uuid7()
        agent_columns = {"project_id": project_id, "agent_id": agent_id, "agent": agent}
        self._insert([{"id": archive_id, **agent_columns, "memories": 0, "created_at": datetime.now(UTC)}])
        return archive_id

    def set_size(self, archive_id: str, memories: int) -> None:
        """Store the number of memories in the archive."""
        self._change({"memories": memories}, memory_archives.c.id == archive_id)

    def page(self, project_id: int, limit: int, offset: int) -> tuple[list[StoredArchive], int]:
        """Return one page of the project's archives, newest first, and the total number."""
        of_project = memory_archives.c.project_id == project_id
        rows = self._find(of_project, order_by=[memory_archives.c.id.desc()], limit=limit, offset=offset)
        archives = [StoredArchive(row.id, row.agent_id, row.agent, row.memories, row.created_at) for row in rows]
        return archives, self._count(of_project)

    def require(self, project_id: int, archive_id: str) -> None:
        """Raise ArchiveNotFound if the project has no archive with this id."""
        if not self._count(memory_archives.c.project_id == project_id, memory_archives.c.id == archive_id):
            raise ArchiveNotFound("Archive not found")


def _of_agent(project_id: int, agent_id: int, where: Filter = EVERYTHING) -> list[ColumnElement[bool]]:
    conditions = [memories.c.project_id == project_id, memories.c.agent_id == agent_id]
    if where.type is not None:
        conditions.append(memories.c.type == where.type)
    if where.success is not None:
        conditions.append(memories.c.success.is_(where.success))
    if where.since is not None:
        conditions.append(memories.c.created_at >= where.since)
    if where.until is not None:
        conditions.append(memories.c.created_at <= where.until)
    return conditions


def _memory(row: Row[Any]) -> StoredMemory:
    return StoredMemory(
        row.id, row.type, row.content, row.success, row.task_id, row.metadata, row.created_at, row.indexed_at
    )
