"""The table of archives: memories of deleted agents."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row

from artel.db.tables import memory_archives
from artel.db.tenant import TenantRepository
from artel.errors import ArchiveNotFound


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """The archived memory of a deleted agent."""

    id: str
    agent_id: int
    agent: str
    memories: int
    created_at: datetime


class ArchiveRepository(TenantRepository):
    """Archives of one user's projects."""

    table = memory_archives

    def add(self, archive_id: str, project_id: int, agent_id: int, agent: str, memories: int) -> None:
        """Add an archive."""
        values = {"id": archive_id, "project_id": project_id, "agent_id": agent_id, "agent": agent}
        self._insert([values | {"memories": memories, "created_at": datetime.now(UTC)}])

    def set_size(self, archive_id: str, memories: int) -> None:
        """Store the number of memories in the archive."""
        self.connection.execute(self._update({"memories": memories}).where(memory_archives.c.id == archive_id))

    def count(self, project_id: int) -> int:
        """Return the number of archives of the project."""
        return self._count(memory_archives.c.project_id == project_id)

    def page(self, project_id: int, limit: int, offset: int) -> list[StoredArchive]:
        """Return one page of the project's archives, newest first."""
        archives = self._select().where(memory_archives.c.project_id == project_id)
        rows = self.connection.execute(archives.order_by(memory_archives.c.id.desc()).limit(limit).offset(offset))
        return [_archive(row) for row in rows]

    def get(self, project_id: int, archive_id: str) -> StoredArchive:
        """Return one archive; raise ArchiveNotFound if the project has none with this id."""
        conditions = memory_archives.c.project_id == project_id, memory_archives.c.id == archive_id
        row = self.connection.execute(self._select().where(*conditions)).one_or_none()
        if row is None:
            raise ArchiveNotFound("Archive not found")
        return _archive(row)


def _archive(row: Row[Any]) -> StoredArchive:
    return StoredArchive(row.id, row.agent_id, row.agent, row.memories, row.created_at)
