"""Logins of a user, and one-time codes that sign a browser in."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, or_, select, update

from artel.auth.accounts import AccountRow, account_of_row, find_account, lock_account, set_password_hash
from artel.auth.audit_log import Action, OtherActor, record
from artel.auth.principal import Principal
from artel.contract.http import PageRequest
from artel.db.prepared import Statement
from artel.db.tables import login_codes, logins, users
from artel.db.tx import Tx
from artel.errors import CodeExpired, LoginNotFound, NoPassword, OtherAccount, TokenInvalid, TooManyLogins
from artel.ids import uuid7

CODE_LIFETIME = timedelta(seconds=60)
INVITATION_LIFETIME = timedelta(days=3)
USE_RECORD_INTERVAL = timedelta(minutes=1)  # precision of `last_used_at`
# Rows per user, including ended ones: the throttle uses them to recognize networks that signed in before.
MAX_LOGINS = 1000
MAX_LABEL_CHARACTERS = 200


class LoginKind(StrEnum):
    """Kind of client that is signed in."""

    BROWSER = "browser"
    CLI = "cli"
    TOKEN = "token"  # noqa: S105 - a kind of login, not a secret


@dataclass(frozen=True, slots=True)
class Device:
    """A client: its kind, its User-Agent, and a hash of its network."""

    kind: LoginKind
    label: str
    network: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The token that a login or code is created with: its login id, or its issue time if it has no login."""

    login_id: str | None = None
    issued_at: int | None = None


PASSWORD = Proof()  # no token: the caller has verified a password, or is the operator


@dataclass(frozen=True, slots=True)
class LiveLogin:
    """A login that is neither expired nor revoked."""

    id: str
    kind: LoginKind
    label: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


# One statement for account and login, because every request executes it.
_SIGNED_IN = Statement(
    select(users, logins.c.revoked_at, logins.c.last_used_at)
    .select_from(users.join(logins, logins.c.user_id == users.c.id))
    .where(users.c.id == bindparam("user_id"), logins.c.id == bindparam("login_id"))
)


def signed_in_account(connection: Connection, user_id: int, login_id: str) -> tuple[AccountRow, bool]:
    """Return the account of a live login and whether to record its use; raise TokenInvalid if it has ended."""
    row = _SIGNED_IN.run(connection, {"user_id": user_id, "login_id": login_id}).one_or_none()
    if row is None or row.revoked_at is not None:
        raise TokenInvalid("This login has ended. Log in again.")
    if row.deleted_at is not None:
        raise TokenInvalid("The account of this token no longer exists.")
    return account_of_row(row), datetime.now(UTC) - row.last_used_at > USE_RECORD_INTERVAL


def refuse_older_token(account: AccountRow, issued_at: int | None) -> None:
    """Raise TokenInvalid if a token without a login is older than the last change of the password."""
    # Issue times have whole seconds: a token of the same second may be older than the change.
    if issued_at is not None and account.tokens_since and issued_at <= int(account.tokens_since.timestamp()):
        raise TokenInvalid("The password was changed. Log in again.")


def begin_login(
    tx: Tx, device: Device, expires_at: datetime, proof: Proof = PASSWORD, *, is_independent: bool = False
) -> str:
    """Store a new login and return its id; at the limit delete an ended login, or one of the largest group.

    An independent login does not end with the login of the proof.
    """
    _lock_proven(tx, proof)
    now, login_id = datetime.now(UTC), uuid7()
    label = "".join(character for character in device.label if character.isprintable())[:MAX_LABEL_CHARACTERS]
    tx.connection.execute(
        insert(logins).values(
            id=login_id,
            user_id=tx.principal.user_id,
            kind=device.kind,
            label=label,
            network=device.network,
            created_at=now,
            last_used_at=now,
            expires_at=expires_at,
            parent_id=None if is_independent else proof.login_id,
        )
    )
    _make_room(tx, login_id)
    record(tx.connection, Action.LOGIN, tx.principal, detail=f"{device.kind}, {label}" if label else device.kind)
    return login_id


def begin_key(
    tx: Tx, device: Device, expires_at: datetime, proof: Proof, proof_expires_at: datetime
) -> tuple[str, datetime]:
    """Store the login of an API key; return its id and its expiry, at most `expires_at`.

    It is independent if a person has signed in for it, in a browser or on the command line. Otherwise it ends with the
    proof: a key or a stolen token can't prolong itself.
    """
    is_independent = proof.login_id is not None and not _comes_from_token(tx, proof.login_id)
    if not is_independent:
        expires_at = min(expires_at, proof_expires_at)
    return begin_login(tx, device, expires_at, proof, is_independent=is_independent), expires_at


def has_signed_in_from(connection: Connection, user_id: int, network: str) -> bool:
    """Return whether a stored login of the user came from this network."""
    from_network = select(logins.c.id).where(logins.c.user_id == user_id, logins.c.network == network).limit(1)
    return connection.execute(from_network).first() is not None


def record_use(tx: Tx, login_id: str) -> None:
    """Update `last_used_at`, at most once a minute."""
    now = datetime.now(UTC)
    mine = logins.c.user_id == tx.principal.user_id, logins.c.id == login_id
    is_due = logins.c.last_used_at < now - USE_RECORD_INTERVAL
    tx.connection.execute(update(logins).where(*mine, is_due).values(last_used_at=now))


def list_logins(connection: Connection, user_id: int, paging: PageRequest) -> tuple[int, list[LiveLogin]]:
    """Return the number of a user's live logins and a page of them, most recently used first."""
    live = _live(user_id)
    total = connection.execute(select(func.count()).select_from(logins).where(*live)).scalar_one()
    newest = select(logins).where(*live).order_by(logins.c.last_used_at.desc(), logins.c.id.desc())
    rows = connection.execute(newest.limit(paging.limit).offset(paging.offset))
    return total, [
        LiveLogin(row.id, LoginKind(row.kind), row.label, row.created_at, row.last_used_at, row.expires_at)
        for row in rows
    ]


def revoke_login(tx: Tx, login_id: str) -> None:
    """Revoke a login, the logins created from it, and their codes; raise LoginNotFound if it is not live."""
    lock_account(tx.connection, tx.principal.user_id)  # no login can be created from it concurrently
    if not _is_live(tx, login_id):
        raise LoginNotFound("Login not found. GET /auth/sessions lists your logins.")
    _revoke_family(tx, login_id)


def revoke_other_logins(tx: Tx, login_id: str | None) -> None:
    """Revoke all logins of a user except one, and all codes."""
    user_id, now = tx.principal.user_id, datetime.now(UTC)
    tx.connection.execute(update(logins).where(*_live(user_id), logins.c.id != (login_id or "")).values(revoked_at=now))
    tx.connection.execute(delete(login_codes).where(login_codes.c.user_id == user_id))


def change_password(
    connection: Connection, email_or_id: str, password_hash: str | None, by: Principal | OtherActor = "operator"
) -> AccountRow:
    """Replace or remove the password of an account, revoke all its logins and tokens, and return the account."""
    account = find_account(connection, email_or_id)
    if not account.is_local:
        raise NoPassword(f"{account.name} has no password here: it signs in through its identity provider.")
    tx = Tx(connection, account.principal)
    lock_account(connection, account.user_id)
    set_password_hash(tx, password_hash, end_tokens=True)
    revoke_other_logins(tx, None)
    record(connection, Action.PASSWORD_CHANGED, by, target_user_id=account.user_id)
    return account


def make_code(tx: Tx, login_expires_at: datetime, proof: Proof, lifetime: timedelta = CODE_LIFETIME) -> str:
    """Create a one-time code for a login that expires at `login_expires_at`; delete the user's earlier codes."""
    _lock_proven(tx, proof)
    now, code, user_id = datetime.now(UTC), secrets.token_urlsafe(16), tx.principal.user_id
    is_old = or_(login_codes.c.expires_at < now, login_codes.c.user_id == user_id)
    tx.connection.execute(delete(login_codes).where(is_old))
    tx.connection.execute(
        insert(login_codes).values(
            code_hash=_hash(code),
            user_id=user_id,
            expires_at=now + lifetime,
            login_expires_at=login_expires_at,
            login_id=proof.login_id,
        )
    )
    return code


def sign_in_by_code(
    connection: Connection, code: str, device: Device, replaced: AccountRow | None, latest: datetime
) -> tuple[AccountRow, str, datetime]:
    """Redeem a code; return its account, the new login's id and its expiry, `latest` at most.

    Raise OtherAccount for `replaced`.
    """
    owner = select(login_codes.c.user_id).where(login_codes.c.code_hash == _hash(code))
    # Lock order: account, then code, as in a change of password, which then either deletes the code or the new login.
    locked = lock_account(connection, connection.execute(owner).scalar_one_or_none() or 0)
    redeemed = connection.execute(
        delete(login_codes)
        .where(login_codes.c.code_hash == _hash(code))
        .returning(login_codes.c.expires_at, login_codes.c.login_expires_at, login_codes.c.login_id)
    ).one_or_none()
    account = locked if redeemed and redeemed.expires_at > datetime.now(UTC) else None
    if redeemed is None or account is None:
        raise CodeExpired("This link has expired. Run `artel link` to get a new one.")
    refuse_to_replace(replaced, account)
    expires_at = min(redeemed.login_expires_at, latest)
    login_id = begin_login(Tx(connection, account.principal), device, expires_at, Proof(redeemed.login_id))
    return account, login_id, expires_at


def refuse_to_replace(current: AccountRow | None, account: AccountRow) -> None:
    """Raise OtherAccount if another account is signed in, so that the client asks the user first."""
    if current is not None and current.user_id != account.user_id:
        raise OtherAccount(f"Sign in as {account.name}? You are signed in as {current.name}.")


def _lock_proven(tx: Tx, proof: Proof) -> None:
    """Lock the account; raise TokenInvalid if the account or the proof is no longer valid."""
    account = lock_account(tx.connection, tx.principal.user_id)
    if account is None:
        raise TokenInvalid("The account of this token no longer exists.")
    if proof.login_id is None:
        refuse_older_token(account, proof.issued_at)
    elif not _is_live(tx, proof.login_id):
        raise TokenInvalid("This login has ended. Log in again.")


def _revoke_family(tx: Tx, login_id: str) -> None:
    """Revoke a login and all logins created from it."""
    user_id, now = tx.principal.user_id, datetime.now(UTC)
    # Terminates even with a cycle: UNION drops rows that were already found.
    family = select(logins.c.id).where(logins.c.user_id == user_id, logins.c.id == login_id).cte(recursive=True)
    children = logins.c.user_id == user_id, logins.c.parent_id == family.c.id
    ids = select(family.union(select(logins.c.id).where(*children)).c.id)
    tx.connection.execute(update(logins).where(*_live(user_id), logins.c.id.in_(ids)).values(revoked_at=now))
    tx.connection.execute(delete(login_codes).where(login_codes.c.user_id == user_id, login_codes.c.login_id.in_(ids)))


def _comes_from_token(tx: Tx, login_id: str) -> bool:
    """Whether a login, or one that it was created from, is of kind TOKEN."""
    columns, mine = (logins.c.id, logins.c.parent_id, logins.c.kind), logins.c.user_id == tx.principal.user_id
    origins = select(*columns).where(mine, logins.c.id == login_id).cte(recursive=True)
    origins = origins.union(select(*columns).where(mine, logins.c.id == origins.c.parent_id))
    of_token = select(origins.c.id).where(origins.c.kind == LoginKind.TOKEN).limit(1)
    return tx.connection.execute(of_token).first() is not None


def _make_room(tx: Tx, new_id: str) -> None:
    """Enforce MAX_LOGINS: delete the oldest ended login, else revoke the least recently used of the largest group.

    A group is the logins created from one login, or the logins of one kind and network. So a script or a stolen token
    that creates many logins revokes only its own; other devices stay signed in.
    """
    connection, mine = tx.connection, logins.c.user_id == tx.principal.user_id
    excess = connection.execute(select(func.count()).select_from(logins).where(mine)).scalar_one() - MAX_LOGINS
    if excess <= 0:
        return
    is_over = or_(logins.c.revoked_at.is_not(None), logins.c.expires_at <= datetime.now(UTC))
    ended = select(logins.c.id).where(mine, is_over).order_by(logins.c.last_used_at, logins.c.id).limit(excess)
    if connection.execute(delete(logins).where(mine, logins.c.id.in_(ended))).rowcount >= excess:
        return
    live = {row.id: row for row in connection.execute(select(logins).where(mine))}
    groups = _groups(live)
    sizes = Counter(groups.values())
    largest = max(sizes.values())
    spared, parent_id = {new_id}, live[new_id].parent_id
    while parent_id in live:  # revoking an ancestor would revoke the new login
        spared.add(parent_id)
        parent_id = live[parent_id].parent_id
    candidates = [row for row in live.values() if sizes[groups[row.id]] == largest and row.id not in spared]
    if not candidates:
        raise TooManyLogins(
            f"You have {MAX_LOGINS} logins, most of them created from each other. "
            "End some under Account or with `artel sessions revoke`."
        )
    dropped = min(candidates, key=lambda row: (row.last_used_at, row.id)).id
    _revoke_family(tx, dropped)
    connection.execute(delete(logins).where(mine, logins.c.id == dropped))


def _groups(live: Mapping[str, Row[Any]]) -> dict[str, tuple[str, ...]]:
    """Return the group of each login: its root login, or kind and network if it has no parent."""
    roots: dict[str, str] = {}
    for row in live.values():
        path = [row.id]
        while path[-1] not in roots and live[path[-1]].parent_id in live:
            path.append(live[path[-1]].parent_id)
        root = roots.get(path[-1], path[-1])
        roots |= dict.fromkeys(path, root)
    return {
        login_id: (root,) if root != login_id else (live[root].kind, live[root].network)
        for login_id, root in roots.items()
    }


def _is_live(tx: Tx, login_id: str) -> bool:
    live = select(logins.c.id).where(*_live(tx.principal.user_id), logins.c.id == login_id)
    return tx.connection.execute(live).first() is not None


def _live(user_id: int) -> tuple[Any, ...]:
    return logins.c.user_id == user_id, logins.c.revoked_at.is_(None), logins.c.expires_at > datetime.now(UTC)


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
