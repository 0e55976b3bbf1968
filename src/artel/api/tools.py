"""Endpoints for a project's tools, their audit log, and undo."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from artel.api.dependencies import CurrentUser, OfSession, Paging, ProjectId, Services
from artel.api.problems import documented
from artel.approvals.file_changes import read_changes, read_diff
from artel.connector_gateway.undo import compare, redo, undo
from artel.contract.approvals import (
    AuditedCall,
    FileDiff,
    NewRedo,
    NewUndo,
    ToolShown,
    TurnChanges,
    UndoComparison,
    Undone,
)
from artel.contract.http import Page
from artel.projects.transactions import project_settings
from artel.tools.catalogue import shown_tools
from artel.turns.tool_calls import list_calls

OfTurn = Annotated[str, Query(max_length=64, pattern=r"^[0-9a-zA-Z-]+$", description="The turn that changed the file.")]
OfPath = Annotated[
    str,
    Query(
        min_length=1,
        max_length=1024,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="The file, relative to the folder.",
        examples=["src/app.py"],
    ),
]

CallId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$", description="A tool call that changed a file.")]

router = APIRouter(prefix="/my/projects/{project_id}", tags=["tools"], responses=documented(401, 404, 422, 503))


@router.get("/tools")
async def list_tools(project_id: ProjectId, user: CurrentUser, services: Services, paging: Paging) -> Page[ToolShown]:
    """List the tools available to the project's agents, with the project's rules for them."""
    settings = await services.database.read(project_settings, user, project_id)
    return shown_tools(settings.policy, paging)


@router.get("/audit")
async def list_audit(
    project_id: ProjectId,
    user: CurrentUser,
    services: Services,
    paging: Paging,
    session_id: OfSession = None,
) -> Page[AuditedCall]:
    """List the agents' tool calls, including refused ones, newest first."""
    calls, total = await services.database.read(list_calls, user, project_id, paging, session_id)
    items = [AuditedCall.of(call) for call in calls]
    return paging.page(items, total)


@router.get("/changes")
async def list_changes(
    project_id: ProjectId, user: CurrentUser, services: Services, paging: Paging
) -> Page[TurnChanges]:
    """List what agents changed in the connected folder, grouped by turn, newest first."""
    return await services.database.read(read_changes, user, project_id, paging)


@router.get("/changes/{call_id}")
async def get_diff(project_id: ProjectId, call_id: CallId, user: CurrentUser, services: Services) -> FileDiff:
    """Show what one tool call changed in a file of the connected folder."""
    return await services.database.read(read_diff, user, project_id, call_id)


@router.get("/undo", responses=documented(400, 409))
async def compare_undo(
    project_id: ProjectId, turn_id: OfTurn, path: OfPath, user: CurrentUser, services: Services
) -> UndoComparison:
    """Show what the undo of a file would change now, also if the file was changed since."""
    return await compare(services.database, services.relay, user, project_id, turn_id, path)


@router.post("/undo", responses=documented(400, 409, 413))
async def undo_changes(project_id: ProjectId, body: NewUndo, user: CurrentUser, services: Services) -> Undone:
    """Undo agents' changes in your folder; a file that was changed since is left alone, unless you name its hash."""
    return Undone(files=await undo(services.database, services.relay, user, project_id, body))


@router.post("/redo", responses=documented(400, 409, 413))
async def redo_changes(project_id: ProjectId, body: NewRedo, user: CurrentUser, services: Services) -> Undone:
    """Redo changes that were undone; a file that was changed since is left alone."""
    return Undone(files=await redo(services.database, services.relay, user, project_id, body))
