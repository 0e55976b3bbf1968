"""Endpoints for the archived memory of deleted agents."""

from fastapi import APIRouter

from artel.agent_memory import transactions as memories
from artel.api.dependencies import ArchiveId, CurrentUser, Limit, Offset, ProjectId, Services
from artel.api.json_lines import DOCUMENTED, JsonLines, memory_lines
from artel.api.problems import documented
from artel.contract.http import Page
from artel.contract.memory import MemoryArchive

router = APIRouter(prefix="/my/projects/{project_id}/archives", tags=["memory"])


@router.get("", responses=documented(401, 404, 422, 503))
async def list_archives(
    project_id: ProjectId, user: CurrentUser, services: Services, limit: Limit = 50, offset: Offset = 0
) -> Page[MemoryArchive]:
    """List the archives of the project, newest first."""
    found, total = await services.database.read(memories.list_archives, user, project_id, limit, offset)
    items = [
        MemoryArchive(
            id=archive.id,
            agent_id=archive.agent_id,
            agent=archive.agent,
            memories=archive.memories,
            created_at=archive.created_at,
        )
        for archive in found
    ]
    return Page(items=items, total=total, limit=limit, offset=offset)


@router.get("/{archive_id}", response_class=JsonLines, responses=DOCUMENTED | documented(401, 404, 422, 503))
async def get_archive(project_id: ProjectId, archive_id: ArchiveId, user: CurrentUser, services: Services) -> JsonLines:
    """Return everything in an archive, one JSON document per line, oldest first."""
    return await memory_lines(
        lambda after: services.database.read(memories.archive_page, user, project_id, archive_id, after)
    )
