"""Accounts as administrators create, see, limit and delete them."""

from datetime import UTC, datetime, timedelta

from pydantic import SecretStr
from sqlalchemy import Connection

from artel.auth import accounts, audit_log
from artel.auth.accounts import AccountRow
from artel.auth.deletion import DeletedAccount, delete_account
from artel.auth.logins import INVITATION_LIFETIME, PASSWORD, change_password, make_code
from artel.auth.passwords import Passwords
from artel.auth.principal import Principal
from artel.budgets.money import dollars, micros
from artel.budgets.month import catch_up, spent_by
from artel.contract.accounts import UserAccount, UserLimits
from artel.contract.admin import AuditEntry, NewUser, NewUserAccount, SignInLink
from artel.contract.http import Page, PageRequest
from artel.db.engine import Database
from artel.db.hints import MemoriesChanged, ProjectDeleted
from artel.db.tx import Tx
from artel.errors import OwnAccount
from artel.logs import get_logger
from artel.projects.service import ProjectService
from artel.task_workspaces.storage_quota import StorageQuota

LONGER_THAN_LOGINS = timedelta(days=3_650)

log = get_logger(__name__)


class AccountService:
    """Creates, lists, limits and deletes accounts, and lists the audit log."""

    def __init__(
        self, database: Database, storage: StorageQuota, passwords: Passwords, projects: ProjectService
    ) -> None:
        self._database = database
        self._storage = storage
        self._passwords = passwords
        self._projects = projects

    async def list(self, paging: PageRequest) -> Page[UserAccount]:
        """Return a page of accounts, oldest first."""

        def read(connection: Connection) -> Page[UserAccount]:
            items = [_user_account(connection, found) for found in accounts.list_accounts(connection, paging)]
            return paging.page(items, accounts.count_accounts(connection))

        return await self._database.read(read)

    async def create(self, administrator: Principal, new: NewUser) -> NewUserAccount:
        """Create an account; without a password, with a one-time link for its user."""
        password_hash = await self._hash(new.password)

        def write(connection: Connection) -> NewUserAccount:
            account = accounts.create_account(connection, new.email, password_hash, administrator)
            link = _link(connection, account) if password_hash is None else _NO_LINK
            return NewUserAccount(**dict(_user_account(connection, account)), **dict(link))

        created = await self._database.run(write)
        log.info("account_created", user_id=created.user_id, by_user_id=administrator.user_id)
        return created

    async def reset_password(self, administrator: Principal, user_id: int, password: SecretStr | None) -> SignInLink:
        """Replace a user's password, or remove it and return a one-time link; ends all logins of the user."""
        _refuse_own(administrator, user_id, "Change your own password under Account.")
        password_hash = await self._hash(password)

        def write(connection: Connection) -> SignInLink:
            account = change_password(connection, str(user_id), password_hash, administrator)
            return _link(connection, account) if password_hash is None else _NO_LINK

        reset = await self._database.run(write)
        log.info("password_changed", user_id=user_id, by_user_id=administrator.user_id)
        return reset

    async def delete(self, administrator: Principal, user_id: int) -> None:
        """Delete an account with its projects, agents and files on the server."""
        _refuse_own(administrator, user_id, "Another administrator can delete it, or `artel users delete`.")
        deleted = await self._database.of(Principal(user_id)).run(_delete, administrator)
        self._storage.forget(user_id)
        log.info("account_deleted", user_id=user_id, by_user_id=administrator.user_id)
        await self._projects.account_deleted(deleted)

    async def set_limits(self, administrator: Principal, user_id: int, limits: UserLimits) -> UserAccount:
        """Set a user's monthly budget over all projects and storage limit."""
        changed = limits.model_dump(exclude_unset=True)
        values: dict[str, int | None] = {}
        if "monthly_budget_usd" in changed:
            amount = changed["monthly_budget_usd"]
            values["monthly_micros"] = amount if amount is None else -1 if amount < 0 else micros(amount)
        if "storage_bytes" in changed:
            values["storage_bytes"] = changed["storage_bytes"]
        account = await self._database.of(Principal(user_id)).run(_set_limits, values, administrator)
        self._storage.forget(user_id)
        log.info("user_limits_set", user_id=user_id, by_user_id=administrator.user_id, **values)
        return account

    async def audit(self, action: str | None, paging: PageRequest) -> Page[AuditEntry]:
        """Return a page of the audit log, newest first."""
        found, total = await self._database.read(audit_log.list_entries, action, paging)
        return paging.page([AuditEntry.of(entry) for entry in found], total)

    async def _hash(self, password: SecretStr | None) -> str | None:
        if password is None:
            return None
        async with self._passwords.registration_slots.take():
            return await self._passwords.hash(password.get_secret_value())


_NO_LINK = SignInLink(link=None, link_expires_at=None)


def _link(connection: Connection, account: AccountRow) -> SignInLink:
    """Create a one-time link for an account without a password."""
    now = datetime.now(UTC)
    # The login that the link creates lasts as long as any other: the code does not shorten it.
    code = make_code(Tx(connection, account.principal), now + LONGER_THAN_LOGINS, PASSWORD, INVITATION_LIFETIME)
    return SignInLink(link=f"/#code={code}", link_expires_at=now + INVITATION_LIFETIME)


def _refuse_own(administrator: Principal, user_id: int, advice: str) -> None:
    if administrator.user_id == user_id:
        raise OwnAccount(f"This is your own account. {advice}")


def _delete(tx: Tx, administrator: Principal) -> DeletedAccount:
    deleted = delete_account(tx.connection, str(tx.principal.user_id), administrator)
    tx.after_commit(MemoriesChanged())
    for project_id in deleted.project_ids:
        tx.after_commit(ProjectDeleted(deleted.user_id, project_id))
    return deleted


def _set_limits(tx: Tx, values: dict[str, int | None], administrator: Principal) -> UserAccount:
    account = accounts.set_limits(tx, values, administrator)
    if values.get("monthly_micros") is not None:
        catch_up(tx)
    return _user_account(tx.connection, account)


def _user_account(connection: Connection, account: AccountRow) -> UserAccount:
    budget = account.monthly_micros
    return UserAccount.of(
        account,
        monthly_budget_usd=budget if budget is None or budget < 0 else dollars(budget),
        spent_usd=dollars(spent_by(connection, account.principal)),
    )
