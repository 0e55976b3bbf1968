"""Endpoints for a project's tools, their audit log, and undo."""

from fastapi import APIRouter

from artel.api.dependencies import CurrentUser, Limit, Offset, OfSession, ProjectId, Services
from artel.api.problems import documented
from artel.approvals.file_changes import read_changes
from artel.connector_gateway.undo import undo
from artel.contract.approvals import AuditedCall, NewUndo, ToolShown, TurnChanges, Undone
from artel.contract.http import Page
from artel.projects.transactions import project_settings
from artel.tools.catalogue import shown_tools
from artel.turns.tool_calls import list_calls

router = APIRouter(prefix="/my/projects/{project_id}", tags=["tools"], responses=documented(401, 404, 422, 503))


@router.get("/tools")
async def list_tools(
    project_id: ProjectId, user: CurrentUser, services: Services, limit: Limit = 50, offset: Offset = 0
) -> Page[ToolShown]:
    """List the tools available to the project's agents, with the project's rules for them."""
    settings = await services.database.read(project_settings, user, project_id)
    return shown_tools(settings.policy, limit, offset)


@router.get("/audit")
async def list_audit(
    project_id: ProjectId,
    user: CurrentUser,
    services: Services,
    limit: Limit = 50,
    offset: Offset = 0,
    session_id: OfSession = None,
) -> Page[AuditedCall]:
    """List the agents' tool calls, including refused ones, newest first."""
    calls, total = await services.database.read(list_calls, user, project_id, limit, offset, session_id)
    items = [AuditedCall.of(call) for call in calls]
    return Page(items=items, total=total, limit=limit, offset=offset)


@router.get("/changes")
async def list_changes(
    project_id: ProjectId, user: CurrentUser, services: Services, limit: Limit = 50, offset: Offset = 0
) -> Page[TurnChanges]:
    """List what agents changed in the connected folder, grouped by turn, newest first."""
    items, total = await services.database.read(read_changes, user, project_id, limit, offset)
    return Page(items=items, total=total, limit=limit, offset=offset)


@router.post("/undo", responses=documented(400, 409, 413))
async def undo_changes(project_id: ProjectId, body: NewUndo, user: CurrentUser, services: Services) -> Undone:
    """Undo agents' changes in your folder; a file that was changed afterwards is not touched."""
    return Undone(files=await undo(services.database, services.relay, user, project_id, body))
