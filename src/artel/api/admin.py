"""Endpoints for administrators."""

from functools import partial

from fastapi import APIRouter, status
from sqlalchemy import Connection

from artel.api.dependencies import Administrator, Limit, Offset, ProjectId, Services, UserId
from artel.api.problems import documented
from artel.auth import accounts
from artel.auth.accounts import Account
from artel.auth.principal import Principal
from artel.budgets.money import dollars, micros
from artel.budgets.month import catch_up, spent_by
from artel.contract.http import Page, UserAccount, UserLimits
from artel.errors import ProjectNotFound
from artel.logs import get_logger
from artel.spaces.leases import owner_of_project
from artel.spaces.resets import audited_reset

log = get_logger(__name__)

router = APIRouter(prefix="/admin", tags=["administration"], responses=documented(401, 403, 422, 503))


@router.post(
    "/projects/{project_id}/space/reset",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=documented(404),
)
async def reset_any_space(project_id: ProjectId, administrator: Administrator, services: Services) -> None:
    """Reset the worker space of any user's project. The project's audit log records who did it."""
    owner_id = await services.database.read(owner_of_project, project_id)
    if owner_id is None:
        raise ProjectNotFound("Project not found")
    owner = Principal(owner_id)
    reset = partial(services.space_rpc.ask, owner, project_id, "reset")
    await audited_reset(services.database, owner, project_id, "administrator", reset, administrator.user_id)


@router.get("/users")
async def list_users(
    _administrator: Administrator, services: Services, limit: Limit = 50, offset: Offset = 0
) -> Page[UserAccount]:
    """List the accounts, oldest first, with their limits."""
    return await services.database.read(_page, limit, offset)


@router.patch("/users/{user_id}", responses=documented(400, 404, 413))
async def set_user_limits(
    user_id: UserId, body: UserLimits, administrator: Administrator, services: Services
) -> UserAccount:
    """Set a user's monthly budget over all projects and storage limit."""
    changed = body.model_dump(exclude_unset=True)
    values: dict[str, int | None] = {}
    if "monthly_budget_usd" in changed:
        amount = changed["monthly_budget_usd"]
        values["monthly_micros"] = amount if amount is None else -1 if amount < 0 else micros(amount)
    if "storage_bytes" in changed:
        values["storage_bytes"] = changed["storage_bytes"]
    account = await services.database.run(_set_limits, user_id, values)
    services.storage.forget(user_id)
    log.info("user_limits_set", user_id=user_id, by_user_id=administrator.user_id, **values)
    return account


def _page(connection: Connection, limit: int, offset: int) -> Page[UserAccount]:
    found = [_user_account(connection, account) for account in accounts.list_accounts(connection, limit, offset)]
    return Page(items=found, total=accounts.count_accounts(connection), limit=limit, offset=offset)


def _set_limits(connection: Connection, user_id: int, values: dict[str, int | None]) -> UserAccount:
    account = accounts.set_limits(connection, user_id, values)
    if values.get("monthly_micros") is not None:
        catch_up(connection, account.principal)
    return _user_account(connection, account)


def _user_account(connection: Connection, account: Account) -> UserAccount:
    budget = account.monthly_micros
    return UserAccount(
        user_id=account.user_id,
        email=account.email,
        is_admin=account.is_admin,
        created_at=account.created_at,
        monthly_budget_usd=budget if budget is None or budget < 0 else dollars(budget),
        storage_bytes=account.storage_bytes,
        spent_usd=dollars(spent_by(connection, account.principal)),
    )
