"""Accounts as administrators see and limit them."""

from sqlalchemy import Connection

from artel.auth import accounts
from artel.auth.accounts import Account
from artel.auth.principal import Principal
from artel.budgets.money import dollars, micros
from artel.budgets.month import catch_up, spent_by
from artel.contract.http import Page, UserAccount, UserLimits
from artel.db.engine import Database
from artel.db.tx import Tx
from artel.logs import get_logger
from artel.task_workspaces.storage_quota import StorageQuota

log = get_logger(__name__)


class AccountService:
    """Lists accounts and sets their limits."""

    def __init__(self, database: Database, storage: StorageQuota) -> None:
        self._database = database
        self._storage = storage

    async def list(self, limit: int, offset: int) -> Page[UserAccount]:
        """Return a page of accounts, oldest first."""

        def read(connection: Connection) -> Page[UserAccount]:
            items = [_user_account(connection, found) for found in accounts.list_accounts(connection, limit, offset)]
            return Page(items=items, total=accounts.count_accounts(connection), limit=limit, offset=offset)

        return await self._database.read(read)

    async def set_limits(self, administrator: Principal, user_id: int, limits: UserLimits) -> UserAccount:
        """Set a user's monthly budget over all projects and storage limit."""
        changed = limits.model_dump(exclude_unset=True)
        values: dict[str, int | None] = {}
        if "monthly_budget_usd" in changed:
            amount = changed["monthly_budget_usd"]
            values["monthly_micros"] = amount if amount is None else -1 if amount < 0 else micros(amount)
        if "storage_bytes" in changed:
            values["storage_bytes"] = changed["storage_bytes"]
        account = await self._database.of(Principal(user_id)).run(_set_limits, values)
        self._storage.forget(user_id)
        log.info("user_limits_set", user_id=user_id, by_user_id=administrator.user_id, **values)
        return account


def _set_limits(tx: Tx, values: dict[str, int | None]) -> UserAccount:
    account = accounts.set_limits(tx, values)
    if values.get("monthly_micros") is not None:
        catch_up(tx)
    return _user_account(tx.connection, account)


def _user_account(connection: Connection, account: Account) -> UserAccount:
    budget = account.monthly_micros
    return UserAccount.of(
        account,
        monthly_budget_usd=budget if budget is None or budget < 0 else dollars(budget),
        spent_usd=dollars(spent_by(connection, account.principal)),
    )
