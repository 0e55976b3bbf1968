"""Read-only endpoints for an agent's task workspace."""

from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response

from artel.api.dependencies import AgentId, CurrentUser, Paging, ProjectId, Services
from artel.api.download import WithDownloadSlot
from artel.api.problems import documented
from artel.contract.http import Page
from artel.contract.spaces import WorkspaceFile, WorkspaceInfo, WorkspaceRecord
from artel.task_workspaces.agent_files import AgentFiles

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


async def _agent_files(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services) -> AgentFiles:
    return AgentFiles(services.database, services.workspaces, services.storage, user, project_id, agent_id)


Workspace = Annotated[AgentFiles, Depends(_agent_files)]


@router.get("")
async def get_workspace(workspace: Workspace) -> WorkspaceInfo:
    """Show size and number of files of the agent's task workspace; zeros before the first write."""
    info, record = await workspace.info(), await workspace.record()
    return WorkspaceInfo(agent_id=record.workspace_id, **asdict(info), record=WorkspaceRecord.of(record))


@router.get("/files")
async def list_workspace_files(
    workspace: Workspace, paging: Paging, path: Folder = ".", recursive: Recursive = False
) -> Page[WorkspaceFile]:
    """List a folder of the agent's task workspace, sorted by name."""
    found = await workspace.run(lambda files: files.list(path, recursive=recursive))
    items = [
        WorkspaceFile.of(entry, name=entry.path.rsplit("/", 1)[-1], size=entry.size if entry.type == "file" else 0)
        for entry in paging.cut(found.entries)
    ]
    return paging.page(items, len(found.entries))


@router.get(
    "/files/{path:path}",
    response_class=Response,
    responses=_CONTENT | documented(429),
    dependencies=[WithDownloadSlot],
)
async def get_workspace_file(workspace: Workspace, path: FilePath) -> Response:
    """Download a file of the agent's task workspace; it is never shown as a page, because agents wrote it."""
    data = (await workspace.run(lambda files: files.read(path))).data
    try:
        data.decode()
        media_type = "text/plain; charset=utf-8"
    except UnicodeDecodeError:
        media_type = "application/octet-stream"
    name = quote(path.rstrip("/").rsplit("/", 1)[-1], safe="")
    return Response(
        data,
        media_type=media_type,
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
        },
    )
