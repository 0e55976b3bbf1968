"""Endpoints for administrators."""

from fastapi import APIRouter, status

from artel.api.dependencies import Administrator, Limit, Offset, ProjectId, Services, UserId
from artel.api.problems import documented
from artel.contract.http import Page, UserAccount, UserLimits

router = APIRouter(prefix="/admin", tags=["administration"], responses=documented(401, 403, 422, 503))


@router.post("/projects/{project_id}/space/reset", status_code=status.HTTP_204_NO_CONTENT, responses=documented(404))
async def reset_any_space(project_id: ProjectId, administrator: Administrator, services: Services) -> None:
    """Reset the worker space of any user's project. The project's audit log records who did it."""
    await services.projects.reset_space_as_administrator(administrator, project_id)


@router.get("/users")
async def list_users(
    _administrator: Administrator, services: Services, limit: Limit = 50, offset: Offset = 0
) -> Page[UserAccount]:
    """List the accounts, oldest first, with their limits."""
    return await services.accounts.list(limit, offset)


@router.patch("/users/{user_id}", responses=documented(400, 404, 413))
async def set_user_limits(
    user_id: UserId, body: UserLimits, administrator: Administrator, services: Services
) -> UserAccount:
    """Set a user's monthly budget over all projects and storage limit."""
    return await services.accounts.set_limits(administrator, user_id, body)
