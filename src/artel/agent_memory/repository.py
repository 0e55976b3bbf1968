"""The tables of memories and of their archives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import add
from typing import Any

from pydantic import JsonValue
from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    or_,
)

from artel.db.tables import memories, memory_archives
from artel.db.tenant import TenantRepository, prepared
from artel.errors import ArchiveNotFound
from artel.ids import uuid7
from artel.text import storable
from artel.vector_index.bm25 import word_pattern
from artel.vector_index.store import EVERYTHING, Filter

MAX_CONTENT_CHARACTERS = 100_000
MAX_UNINDEXED = 200  # newest memories that every search reads because they are not indexed yet
MAX_MATCHED = 100  # more of these, chosen by SQL: those with most words of the query
MAX_MATCHED_ROWS = 2_000  # newest that SQL chooses from
MATCHED_CHARACTERS = 50_000  # of each of them
MAX_MATCHED_WORDS = 12  # longest words of the query, which are the rarest
MAX_PINNED = 20  # of an agent
SEARCHED_CHARACTERS = 4_000  # read of each of the newest; a match further on is found by SQL
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
    edited_at: datetime | None
    pinned_at: datetime | None
    indexed_at: datetime | None

    @property
    def pinned(self) -> bool:
        """Whether it is pinned."""
        return self.pinned_at is not None

    @property
    def stored_at(self) -> datetime:
        """When its content was stored."""
        return self.edited_at or self.created_at


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """Statistics of an agent's memory."""

    count: int
    succeeded: int
    waiting: int  # for the index
    oldest: datetime | None
    newest: datetime | None
    by_type: dict[str, int]


@dataclass(frozen=True, slots=True)
class UnindexedMemory:
    """A memory that is not in the index, or is there with its content before an edit."""

    id: str
    content: str
    type: str
    success: bool
    created_at: datetime
    edited_at: datetime | None = None

    @property
    def stored_at(self) -> datetime:
        """When its content was stored: an indexer that has read an older one starts again."""
        return self.edited_at or self.created_at


@dataclass(frozen=True, slots=True)
class Candidate(UnindexedMemory):
    """A memory that is searched besides those in the index: not indexed yet, or pinned."""

    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class MemoryStamp:
    """A memory's id and the times that change with it."""

    id: str
    stored_at: datetime
    pinned_at: datetime | None
    indexed_at: datetime | None


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
    def _candidates(cls) -> CompoundSelect[Any]:  # noqa: N805
        # One statement, because every search runs it; each half has a partial index.
        unindexed = cls._first_of_agent(memories.c.indexed_at.is_(None), "most", pinned=False)
        return unindexed.union_all(cls._first_of_agent(memories.c.pinned_at.is_not(None), "most_pinned", pinned=True))

    @classmethod
    def _first_of_agent(cls, condition: ColumnElement[bool], most: str, *, pinned: bool) -> Select[Any]:
        begin = func.substr(memories.c.content, 1, SEARCHED_CHARACTERS).label("content")
        columns = memories.c.id, begin, memories.c.type, memories.c.success, memories.c.created_at, memories.c.edited_at
        rows = (
            cls._prepare_select(*columns, literal(pinned).label("is_pinned"))
            .where(memories.c.project_id == bindparam("project"), memories.c.agent_id == bindparam("agent"))
            .where(condition)
            .order_by(memories.c.id.desc())
            .limit(bindparam(most))
        )
        return rows.subquery().select()

    @prepared
    def _some(cls) -> Select[Any]:  # noqa: N805
        is_some = or_(*(memories.c.id == bindparam(f"id_{number}") for number in range(RECALLED)))
        return cls._prepare_select().where(
            memories.c.project_id == bindparam("project"), memories.c.agent_id == bindparam("agent"), is_some
        )

    @prepared
    def _stamps(cls) -> Select[Any]:  # noqa: N805
        columns = (getattr(memories.c, name) for name in ("id", "created_at", "edited_at", "pinned_at", "indexed_at"))
        return (
            cls._prepare_select(*columns)
            .where(memories.c.project_id == bindparam("project"), memories.c.agent_id == bindparam("agent"))
            .limit(bindparam("most"))
        )

    def add(self, project_id: int, agent_id: int, new: Sequence[NewMemory]) -> list[StoredMemory]:
        """Add memories of an agent, which must be there; what is too long is cut."""
        rows = [_values(memory) for memory in new]
        self._add([{**row, "project_id": project_id, "agent_id": agent_id} for row in rows])
        return [StoredMemory(**row, edited_at=None, pinned_at=None, indexed_at=None) for row in rows]

    def put(self, project_id: int, agent_id: int, memory: NewMemory) -> None:
        """Replace the agent's memory with this id, which is indexed again, or add it.

        The new time tells an indexer that has read the old content that its work is void.
        """
        of_agent = *_of_agent(project_id, agent_id), memories.c.id == memory.id
        if not self._change({**_values(memory), "edited_at": None, "indexed_at": None}, *of_agent):
            self.add(project_id, agent_id, [memory])

    def count(self, project_id: int, agent_id: int, where: Filter = EVERYTHING) -> int:
        """Return the number of the agent's memories that match."""
        return self._count(*_of_agent(project_id, agent_id, where))

    def page(
        self, project_id: int, agent_id: int, where: Filter, limit: int, offset: int
    ) -> tuple[list[StoredMemory], int]:
        """Return one page of the agent's memories, pinned ones first, then newest first, and the total number."""
        matching, newest = _of_agent(project_id, agent_id, where), [memories.c.id.desc()]
        # Two queries that use an index; to order by `pinned` all memories would be sorted.
        pinned = self._find(*matching, memories.c.pinned_at.is_not(None), order_by=newest, limit=MAX_PINNED)
        rows = list(pinned[offset : offset + limit])
        if len(rows) < limit:
            others = *matching, memories.c.pinned_at.is_(None)
            skipped = max(0, offset - len(pinned))
            rows += self._find(*others, order_by=newest, limit=limit - len(rows), offset=skipped)
        return [_memory(row) for row in rows], self._count(*matching)

    def edit(self, project_id: int, agent_id: int, memory_id: str, content: str) -> None:
        """Replace the content of a memory, which is indexed again."""
        values = {"content": storable(content[:MAX_CONTENT_CHARACTERS]), "edited_at": datetime.now(UTC)}
        self._change({**values, "indexed_at": None}, *_of_agent(project_id, agent_id), memories.c.id == memory_id)

    def pin(self, project_id: int, agent_id: int, memory_id: str, *, pinned: bool) -> None:
        """Pin a memory, or unpin it."""
        values = {"pinned_at": datetime.now(UTC) if pinned else None}
        self._change(values, *_of_agent(project_id, agent_id), memories.c.id == memory_id)

    def count_pinned(self, project_id: int, agent_id: int) -> int:
        """Return the number of the agent's pinned memories."""
        return self._count(*_of_agent(project_id, agent_id), memories.c.pinned_at.is_not(None))

    def remove(self, project_id: int, agent_id: int, memory_id: str) -> bool:
        """Delete a memory; return whether there was one."""
        return self._remove(*_of_agent(project_id, agent_id), memories.c.id == memory_id)

    def by_ids(self, project_id: int, agent_id: int, ids: Sequence[str]) -> dict[str, StoredMemory]:
        """Return the agent's memories among these ids, by id."""
        found: dict[str, StoredMemory] = {}
        for start in range(0, len(ids), RECALLED):
            some = [*ids[start : start + RECALLED], *[""] * RECALLED]
            by_number = {f"id_{number}": some[number] for number in range(RECALLED)}
            rows = self._run(self._some, project=project_id, agent=agent_id, **by_number)
            found |= {row.id: _memory(row) for row in rows}
        return found

    def stamps(self, project_id: int, agent_id: int, most: int) -> list[MemoryStamp]:
        """Return the id and times of at most `most` of the agent's memories."""
        rows = self._run(self._stamps, project=project_id, agent=agent_id, most=most)
        return [MemoryStamp(row.id, row.edited_at or row.created_at, row.pinned_at, row.indexed_at) for row in rows]

    def candidates(self, project_id: int, agent_id: int) -> list[Candidate]:
        """Return the agent's newest memories that are not indexed yet, then its pinned ones, shortened."""
        limits = {"most": MAX_UNINDEXED, "most_pinned": MAX_PINNED}
        rows = self._run(self._candidates, project=project_id, agent=agent_id, **limits)
        return [Candidate(*row) for row in rows]

    def matching_unindexed(
        self, project_id: int, agent_id: int, words: Sequence[str], where: Filter
    ) -> list[Candidate]:
        """Return the agent's unindexed memories that have most of these words, of its newest MAX_MATCHED_ROWS.

        Their contents are the beginning and the words that were found.
        """
        words = sorted(words, key=len, reverse=True)[:MAX_MATCHED_WORDS]
        text = func.replace(func.lower(func.substr(memories.c.content, 1, MATCHED_CHARACTERS)), "_", " ").label("text")
        columns = memories.c.id, memories.c.type, memories.c.success, memories.c.created_at, memories.c.edited_at
        newest = (
            self._select(*columns)
            .add_columns(text)
            .where(*_of_agent(project_id, agent_id, where), memories.c.indexed_at.is_(None))
            .order_by(memories.c.id.desc())
            .limit(MAX_MATCHED_ROWS)
            .subquery()
        )
        position = func.instr if self.connection.dialect.name == "sqlite" else func.strpos
        flags = [case((_contains(newest.c.text, word, position), "1"), else_="0") for word in words]
        begin = func.substr(newest.c.text, 1, SEARCHED_CHARACTERS).label("begin")
        found = newest.select().add_columns(begin, reduce(add, flags).label("flags"))
        # Without a limit the database would merge the queries, and look for the words each time that they are used.
        rows = found.limit(MAX_MATCHED_ROWS).subquery()
        matched = func.length(func.replace(rows.c.flags, "0", ""))
        shown = rows.c.id, rows.c.begin, rows.c.type, rows.c.success, rows.c.created_at, rows.c.edited_at
        best = rows.select().with_only_columns(*shown, rows.c.flags).where(matched > 0)
        chosen = best.order_by(matched.desc(), rows.c.id.desc()).limit(MAX_MATCHED)
        return [_matched(row, words) for row in self.connection.execute(chosen)]

    def after(self, project_id: int, agent_id: int, memory_id: str) -> list[StoredMemory]:
        """Return the agent's next memories after the given one, oldest first; an empty list at the end."""
        conditions = *_of_agent(project_id, agent_id), memories.c.id > memory_id
        return [_memory(row) for row in self._find(*conditions, order_by=[memories.c.id], limit=EXPORT_ROWS)]

    def archived_after(self, project_id: int, archive_id: str, memory_id: str) -> list[StoredMemory]:
        """Return the archive's next memories after the given one, oldest first; an empty list at the end."""
        of_project = memories.c.project_id == project_id
        conditions = of_project, memories.c.archive_id == archive_id, memories.c.id > memory_id
        return [_memory(row) for row in self._find(*conditions, order_by=[memories.c.id], limit=EXPORT_ROWS)]

    def stats(self, project_id: int, agent_id: int) -> MemoryCounts:
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
        return MemoryCounts(count, succeeded, count - indexed, oldest, newest, {row[0]: row[1] for row in by_type})

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


def _contains(text: ColumnElement[str], word: str, position: Callable[..., Any]) -> ColumnElement[bool]:
    """Whether a text in lower case, without underscores, contains a word; the slow pattern for whole words is last."""
    # SQLite ignores the case of ASCII letters only, as bytes do.
    spellings = {spelling.encode().lower().decode() for spelling in (word, word.capitalize(), word.upper())}
    is_there = or_(*(position(text, spelling) > 0 for spelling in sorted(spellings)))
    pattern = word_pattern(sorted(spellings))
    return is_there if pattern is None else and_(is_there, text.regexp_match(pattern))


def _matched(row: Any, words: Sequence[str]) -> Candidate:
    found = [word for word, flag in zip(words, row.flags, strict=True) if flag == "1"]
    content = " ".join([row.begin, *found])
    return Candidate(row.id, content, row.type, row.success, row.created_at, row.edited_at)


def _values(memory: NewMemory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "type": memory.type,
        "content": storable(memory.content[:MAX_CONTENT_CHARACTERS]),
        "success": memory.success,
        "task_id": memory.task_id,
        "metadata": dict(memory.metadata),
        "created_at": memory.created_at,
    }


def _memory(row: Row[Any]) -> StoredMemory:
    return StoredMemory(
        id=row.id,
        type=row.type,
        content=row.content,
        success=row.success,
        task_id=row.task_id,
        metadata=row.metadata,
        created_at=row.created_at,
        edited_at=row.edited_at,
        pinned_at=row.pinned_at,
        indexed_at=row.indexed_at,
    )
