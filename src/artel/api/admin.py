"""What only administrators may do."""

from functools import partial

from fastapi import APIRouter, status

from artel.api.dependencies import Administrator, Parts, ProjectId
from artel.api.problems import documented
from artel.auth.principal import Principal
from artel.errors import ProjectNotFound
from artel.spaces.leases import owner_of_project
from artel.spaces.resets import audited_reset

router = APIRouter(prefix="/admin", tags=["administration"])


@router.post(
    "/projects/{project_id}/space/reset",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=documented(401, 403, 404, 422, 503),
)
async def reset_any_space(project_id: ProjectId, administrator: Administrator, parts: Parts) -> None:
    """Reset the worker space of any user's project. The project's audit log says who did it."""
    owner_id = await parts.database.read(owner_of_project, project_id)
    if owner_id is None:
        raise ProjectNotFound("Project not found")
    owner = Principal(owner_id)
    reset = partial(parts.desk.ask, owner, project_id, "reset")
    await audited_reset(parts.database, owner, project_id, "administrator", reset, administrator.user_id)
