"""Endpoints for administrators."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, status

from artel.api.dependencies import Administrator, Paging, ProjectId, Services, UserId
from artel.api.problems import documented
from artel.auth.audit_log import Action
from artel.budgets.server_usage import report_server_usage
from artel.contract.accounts import UserAccount, UserLimits
from artel.contract.admin import (
    AuditEntry,
    NewPassword,
    NewUser,
    NewUserAccount,
    ServerUsage,
    SignInLink,
    SystemState,
)
from artel.contract.http import Page
from artel.errors import UsageTooLong

USAGE_SECONDS = 20.0

router = APIRouter(prefix="/admin", tags=["administration"], responses=documented(401, 403, 422, 503))


@router.post("/projects/{project_id}/space/reset", status_code=status.HTTP_204_NO_CONTENT, responses=documented(404))
async def reset_any_space(project_id: ProjectId, administrator: Administrator, services: Services) -> None:
    """Reset the worker space of any user's project. The project's audit log records who did it."""
    await services.projects.reset_space_as_administrator(administrator, project_id)


@router.get("/users")
async def list_users(_administrator: Administrator, services: Services, paging: Paging) -> Page[UserAccount]:
    """List the accounts, oldest first, with their limits."""
    return await services.accounts.list(paging)


@router.post("/users", status_code=status.HTTP_201_CREATED, responses=documented(400, 409, 413))
async def create_user(body: NewUser, administrator: Administrator, services: Services) -> NewUserAccount:
    """Create an account. Without a password the response has a one-time link for its user, valid for three days."""
    return await services.accounts.create(administrator, body)


@router.patch("/users/{user_id}", responses=documented(400, 404, 413))
async def set_user_limits(
    user_id: UserId, body: UserLimits, administrator: Administrator, services: Services
) -> UserAccount:
    """Set a user's monthly budget over all projects and storage limit."""
    return await services.accounts.set_limits(administrator, user_id, body)


@router.post("/users/{user_id}/password", responses=documented(400, 404, 409, 413))
async def reset_password(
    user_id: UserId, body: NewPassword, administrator: Administrator, services: Services
) -> SignInLink:
    """Set a user's password, or remove it and return a one-time link. Ends all logins of the user."""
    return await services.accounts.reset_password(administrator, user_id, body.password)


@router.delete("/users/{user_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(404, 409))
async def delete_user(user_id: UserId, administrator: Administrator, services: Services) -> None:
    """Delete an account with all its projects and agents. The files in its user's folders are not touched."""
    await services.accounts.delete(administrator, user_id)


@router.get("/audit")
async def list_audit(
    _administrator: Administrator,
    services: Services,
    paging: Paging,
    action: Annotated[Action | None, Query(description="Only entries of this action.")] = None,
) -> Page[AuditEntry]:
    """List who signed in and what administrators and the operator did, newest first, for a year at most."""
    return await services.accounts.audit(action, paging)


@router.get("/usage", responses=documented(504))
async def show_usage(
    _administrator: Administrator,
    services: Services,
    days: Annotated[int, Query(ge=1, le=366, description="Number of days (UTC) until today.")] = 30,
) -> ServerUsage:
    """Show tokens and cost of all users' model calls: in total, by day, by user and by model."""
    last = datetime.now(UTC).date()
    first = last - timedelta(days=days - 1)
    try:
        return await services.database.read_within(USAGE_SECONDS, report_server_usage, first, last)
    except TimeoutError:
        raise UsageTooLong(f"The report timed out after {USAGE_SECONDS:g} seconds. Ask for fewer days.") from None


@router.get("/system")
async def show_system(_administrator: Administrator, services: Services) -> SystemState:
    """Show version, database, services, memory index, data folder and processes, and what to fix."""
    return await services.system.report()
