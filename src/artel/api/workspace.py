"""Read-only endpoints for an agent's task workspace."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response

from artel.api.dependencies import AgentId, CurrentUser, Limit, Offset, ProjectId, Services
from artel.api.problems import documented
from artel.contract.http import Page
from artel.contract.workspace import WorkspaceFile, WorkspaceInfo, WorkspaceRecord
from artel.errors import ArtelError, Kind
from artel.paths.beneath import Entry
from artel.paths.errors import PathError
from artel.task_workspaces.owner import find_assignment
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.task_workspace import TaskWorkspace

T = TypeVar("T")

router = APIRouter(
    prefix="/my/projects/{project_id}/agents/{agent_id}/workspace",
    tags=["task workspaces"],
    responses=documented(401, 403, 404, 409, 422, 503),
)

FilePath = Annotated[str, Path(description="Relative to the task workspace.", examples=["notes/plan.md"])]
Folder = Annotated[str, Query(description="Folder to list, relative to the task workspace.")]
Recursive = Annotated[bool, Query(description="Whether to include subfolders.")]
_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file, as a download.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("text/plain", "application/octet-stream")
        },
    }
}


class WorkspaceRefused(ArtelError):
    """Access to a path of a task workspace failed."""

    def __init__(self, problem: PathError) -> None:
        super().__init__(problem.message)
        # An impossible name is reported as a missing file.
        self.code = "file_not_found" if problem.code == "invalid_path" else problem.code
        self.kind = {
            "file_not_found": Kind.NOT_FOUND,
            "workspace_not_assigned": Kind.NOT_FOUND,
            "path_traversal_blocked": Kind.FORBIDDEN,
            "permission_denied": Kind.FORBIDDEN,
        }.get(self.code, Kind.CONFLICT)


class WorkspaceReader:
    """Reads the task workspace of an agent in a thread."""

    def __init__(self, workspaces: TaskWorkspaces, owner_id: int, created_at: datetime) -> None:
        self.owner_id = owner_id
        self.workspace = workspaces.of(owner_id)
        self._workspaces = workspaces
        self._created_at = created_at

    async def read(self, function: Callable[[TaskWorkspace], T]) -> T:
        """Return the result of a function on the workspace; translate PathError."""
        try:
            return await asyncio.to_thread(function, self.workspace)
        except PathError as problem:
            raise WorkspaceRefused(problem) from None

    async def record(self) -> WorkspaceRecord:
        """Return the record of the workspace."""
        record = await asyncio.to_thread(self._workspaces.record, self.owner_id, self._created_at)
        return WorkspaceRecord(**asdict(record))


async def _workspace(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services
) -> WorkspaceReader:
    try:
        owner_id, created_at = await services.database.read(find_assignment, user, project_id, agent_id)
    except PathError as problem:
        raise WorkspaceRefused(problem) from None
    return WorkspaceReader(services.workspaces, owner_id, created_at)


Workspace = Annotated[WorkspaceReader, Depends(_workspace)]


@router.get("")
async def get_workspace(workspace: Workspace) -> WorkspaceInfo:
    """Show size and number of files of the agent's task workspace; zeros before the first write."""
    info = await workspace.read(TaskWorkspace.info)
    return WorkspaceInfo(
        agent_id=workspace.owner_id,
        file_count=info.file_count,
        dir_count=info.dir_count,
        total_size=info.total_size,
        last_modified=info.last_modified,
        record=await workspace.record(),
    )


@router.get("/files")
async def list_workspace_files(
    workspace: Workspace, path: Folder = ".", recursive: Recursive = False, limit: Limit = 50, offset: Offset = 0
) -> Page[WorkspaceFile]:
    """List a folder of the agent's task workspace, sorted by name."""
    found = await workspace.read(lambda files: files.list(path, recursive=recursive))
    items = [_file(entry) for entry in found.entries[offset : offset + limit]]
    return Page(items=items, total=len(found.entries), limit=limit, offset=offset)


@router.get("/files/{path:path}", response_class=Response, responses=_CONTENT)
async def get_workspace_file(workspace: Workspace, path: FilePath) -> Response:
    """Download a file of the agent's task workspace; it is never shown as a page, because agents wrote it."""
    data = (await workspace.read(lambda files: files.read(path))).data
    name = quote(path.rstrip("/").rsplit("/", 1)[-1], safe="")
    return Response(
        data,
        media_type="text/plain; charset=utf-8" if _is_text(data) else "application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
        },
    )


def _file(entry: Entry) -> WorkspaceFile:
    return WorkspaceFile(
        name=entry.path.rsplit("/", 1)[-1],
        path=entry.path,
        type=entry.type,
        size=entry.size if entry.type == "file" else 0,
        modified=entry.modified,
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
