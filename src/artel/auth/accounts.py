"""Accounts: rows and rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from artel.auth.audit_log import Action, OtherActor, record
from artel.auth.principal import Principal
from artel.contract.http import PageRequest
from artel.db.prepared import Statement
from artel.db.tables import installation, login_codes, logins, projects, users
from artel.db.tx import Tx
from artel.errors import AccountNotFound, EmailTaken
from artel.settings import RESERVED_ISSUER

LOCAL_EMAIL = "local@localhost"
# Issuer of the account that is used only from the server's own command line. Nobody can register with it,
# and settings refuse it as the name of an external issuer.
LOCAL_ISSUER = f"{RESERVED_ISSUER}local"


PasswordState = Literal["set", "missing", "external"]


@dataclass(frozen=True, slots=True)
class AccountRow:
    """A user of this server."""

    user_id: int
    email: str | None
    is_admin: bool
    created_at: datetime
    password_hash: str | None
    tokens_since: datetime | None
    # Set by an administrator: None is the server's default, -1 is no limit.
    monthly_micros: int | None = None
    storage_bytes: int | None = None
    is_local: bool = True  # False: it signs in with a link on this machine, or through its identity provider
    has_identity_provider: bool = False  # which decides how long the user has access

    @property
    def password_state(self) -> PasswordState:
        """Whether the account has a password, or may choose one."""
        if self.password_hash is not None:
            return "set"
        return "missing" if self.is_local else "external"

    @property
    def name(self) -> str:
        """Name of the account in messages."""
        return self.email or f"user {self.user_id}"

    @property
    def principal(self) -> Principal:
        """Principal of the account's requests."""
        return Principal(self.user_id, self.is_admin)


def normal_email(email: str) -> str:
    """Return the normalized form in which addresses are stored and compared."""
    return email.strip().lower()


def create_account(
    connection: Connection,
    email: str,
    password_hash: str | None,
    by: Principal | OtherActor | None = None,
    detail: str = "",
) -> AccountRow:
    """Create a local account; raise EmailTaken if the address is in use. `by` None: the user registers."""
    try:
        return _create(connection, by, detail, email=normal_email(email), password_hash=password_hash)
    except IntegrityError:
        raise EmailTaken("An account with this address already exists. Log in, or use another address.") from None


def create_external_account(connection: Connection, issuer: str, subject: str, email: str | None) -> AccountRow:
    """Create the account of an external subject; raise IntegrityError if it exists."""
    return _create(connection, None, f"of {issuer}", issuer=issuer, subject=subject, email=email)


_ACTIVE = select(users).where(users.c.deleted_at.is_(None))
_ACTIVE_BY_ID = Statement(_ACTIVE.where(users.c.id == bindparam("user_id")))  # built once: every request executes it


def account_by_id(connection: Connection, user_id: int) -> AccountRow | None:
    """Return the account, or None if it does not exist or was deleted."""
    row = _ACTIVE_BY_ID.run(connection, {"user_id": user_id}).one_or_none()
    return account_of_row(row) if row else None


def account_by_email(connection: Connection, email: str) -> AccountRow | None:
    """Return the local account with this address, if it exists."""
    is_local = users.c.email == normal_email(email), users.c.issuer.is_(None)
    row = connection.execute(_ACTIVE.where(*is_local)).one_or_none()
    return account_of_row(row) if row else None


def account_by_subject(connection: Connection, issuer: str, subject: str) -> tuple[bool, AccountRow | None]:
    """Return whether the external subject is known, and its account unless that was deleted."""
    row = connection.execute(select(users).where(users.c.issuer == issuer, users.c.subject == subject)).one_or_none()
    if row is None:
        return False, None
    return True, None if row.deleted_at else account_of_row(row)


def list_accounts(connection: Connection, paging: PageRequest) -> list[AccountRow]:
    """Return a page of accounts, oldest first."""
    rows = connection.execute(_ACTIVE.order_by(users.c.id).limit(paging.limit).offset(paging.offset))
    return [account_of_row(row) for row in rows]


def lock_account(connection: Connection, user_id: int) -> AccountRow | None:
    """Lock the account until the end of the transaction and return it, if it exists."""
    row = connection.execute(_ACTIVE.where(users.c.id == user_id).with_for_update()).one_or_none()
    return account_of_row(row) if row else None


def set_password_hash(tx: Tx, password_hash: str | None, *, end_tokens: bool = False) -> None:
    """Replace the user's password hash (None: no password).

    With `end_tokens` also refuse older tokens that belong to no login.
    """
    changed = update(users).where(users.c.id == tx.principal.user_id).values(password_hash=password_hash)
    tx.connection.execute(changed.values(tokens_since=datetime.now(UTC)) if end_tokens else changed)


def set_limits(tx: Tx, values: Mapping[str, int | None], by: Principal | OtherActor) -> AccountRow:
    """Set the user's limits (`monthly_micros`, `storage_bytes`) and return the account."""
    user_id = tx.principal.user_id
    if values:
        active = users.c.id == user_id, users.c.deleted_at.is_(None)
        if tx.connection.execute(update(users).where(*active).values(**values)).rowcount:
            limits = ", ".join(f"{name}={_limit_text(value)}" for name, value in sorted(values.items()))
            record(tx.connection, Action.LIMITS_CHANGED, by, target_user_id=user_id, detail=limits)
    return find_account(tx.connection, str(user_id))


def _limit_text(value: int | None) -> str:
    return "default" if value is None else "none" if value < 0 else str(value)


def count_accounts(connection: Connection) -> int:
    """Return the number of accounts."""
    return int(connection.execute(select(func.count()).where(users.c.deleted_at.is_(None))).scalar_one())


def find_account(connection: Connection, email_or_id: str) -> AccountRow:
    """Return the account with this address or id, or raise AccountNotFound."""
    is_id = email_or_id.isascii() and email_or_id.isdigit()
    found = account_by_id(connection, int(email_or_id)) if is_id else account_by_email(connection, email_or_id)
    if found is None:
        raise AccountNotFound(f"There is no account {email_or_id}. Run `artel users list` to see all accounts.")
    return found


def delete_account(connection: Connection, email_or_id: str, by: Principal | OtherActor) -> None:
    """Delete an account with all its data; only its id stays, so that it is never reused."""
    user_id = find_account(connection, email_or_id).user_id
    record(connection, Action.ACCOUNT_DELETED, by, target_user_id=user_id)
    # Lock order: the account first, because transactions that add something to an account lock its row.
    connection.execute(
        update(users).where(users.c.id == user_id).values(deleted_at=datetime.now(UTC), email=None, password_hash=None)
    )
    connection.execute(
        update(users).where(users.c.id == user_id, users.c.issuer == LOCAL_ISSUER).values(issuer=None, subject=None)
    )
    connection.execute(delete(projects).where(projects.c.user_id == user_id))
    for table in (logins, login_codes):
        connection.execute(delete(table).where(table.c.user_id == user_id))


def ensure_local_account(connection: Connection) -> AccountRow:
    """Return the password-less account of `artel up`; create it if it does not exist."""
    _, account = account_by_subject(connection, LOCAL_ISSUER, "local")
    return account or create_external_account(connection, LOCAL_ISSUER, "local", LOCAL_EMAIL)


def has_accounts(connection: Connection) -> bool:
    """Return whether this installation has or ever had an account."""
    return connection.execute(select(installation.c.first_user_id)).scalar_one() is not None


def _create(connection: Connection, by: Principal | OtherActor | None, detail: str, **values: Any) -> AccountRow:
    row = connection.execute(
        insert(users).values(created_at=datetime.now(UTC), is_admin=False, **values).returning(*users.c)
    ).one()
    first = connection.execute(
        update(installation).where(installation.c.first_user_id.is_(None)).values(first_user_id=row.id)
    )
    if first.rowcount:
        row = connection.execute(
            update(users).where(users.c.id == row.id).values(is_admin=True).returning(*users.c)
        ).one()
    account = account_of_row(row)
    record(connection, Action.ACCOUNT_CREATED, by or account.principal, target_user_id=account.user_id, detail=detail)
    return account


def account_of_row(row: Row[Any]) -> AccountRow:
    """Convert a row of `users` to an account."""
    return AccountRow(
        row.id,
        row.email,
        row.is_admin,
        row.created_at,
        row.password_hash,
        row.tokens_since,
        row.monthly_micros,
        row.storage_bytes,
        row.issuer is None,
        row.issuer not in (None, LOCAL_ISSUER),
    )
