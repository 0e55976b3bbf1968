"""Logins: where a user is signed in, and the one-time codes that sign a browser in."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, or_, select, update

from artel.auth.accounts import Account, account_of_row, find_account, lock_account, set_password_hash
from artel.db.prepared import Statement
from artel.db.tables import login_codes, logins, users
from artel.errors import CodeExpired, LoginNotFound, OtherAccount, TokenInvalid, TooManyLogins
from artel.ids import uuid7

CODE_LIFETIME = timedelta(seconds=60)
USED_AGAIN_AFTER = timedelta(minutes=1)  # how exact `last_used_at` is
# Rows per user, ended ones included: the throttle looks there for networks that have signed in before.
MAX_LOGINS = 1000
MAX_LABEL_CHARACTERS = 200


class LoginKind(StrEnum):
    """What is signed in."""

    BROWSER = "browser"
    CLI = "cli"
    TOKEN = "token"  # noqa: S105 - a kind of login, no secret


@dataclass(frozen=True, slots=True)
class Device:
    """What a user signs in with: its kind, its own description (User-Agent), and a hash of its network."""

    kind: LoginKind
    label: str
    network: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The token that a login or a code is made with: its login, or if it has none when this server issued it."""

    login_id: str | None = None
    issued_at: int | None = None


PASSWORD = Proof()  # no token: the caller has checked a password, or is the operator


@dataclass(frozen=True, slots=True)
class LiveLogin:
    """A login that has neither ended nor been revoked."""

    id: str
    kind: LoginKind
    label: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


# One statement for account and login, because every request runs it.
_SIGNED_IN = Statement(
    select(users, logins.c.revoked_at, logins.c.last_used_at)
    .select_from(users.join(logins, logins.c.user_id == users.c.id))
    .where(users.c.id == bindparam("user_id"), logins.c.id == bindparam("login_id"))
)


def signed_in_account(connection: Connection, user_id: int, login_id: str) -> tuple[Account, bool]:
    """Return the account of a live login, and whether its last use should be recorded; raise if it has ended."""
    row = _SIGNED_IN.run(connection, {"user_id": user_id, "login_id": login_id}).one_or_none()
    if row is None or row.revoked_at is not None:
        raise TokenInvalid("This login was ended. Log in again.")
    if row.deleted_at is not None:
        raise TokenInvalid("The account of this token does not exist any more.")
    return account_of_row(row), datetime.now(UTC) - row.last_used_at > USED_AGAIN_AFTER


def refuse_older_token(account: Account, issued_at: int | None) -> None:
    """Raise TokenInvalid if a token that has no login is from before the last change of password."""
    # A token of the very second of the change may be from before it.
    if issued_at is not None and account.tokens_since and issued_at <= int(account.tokens_since.timestamp()):
        raise TokenInvalid("The password was changed since. Log in again.")


def begin_login(
    connection: Connection, user_id: int, device: Device, expires_at: datetime, proof: Proof = PASSWORD
) -> str:
    """Store a new login and return its id; for lack of room delete an ended login, or one of the largest group."""
    _lock_proven(connection, user_id, proof)
    now, login_id = datetime.now(UTC), uuid7()
    label = "".join(character for character in device.label if character.isprintable())[:MAX_LABEL_CHARACTERS]
    connection.execute(
        insert(logins).values(
            id=login_id,
            user_id=user_id,
            kind=device.kind,
            label=label,
            network=device.network,
            created_at=now,
            last_used_at=now,
            expires_at=expires_at,
            parent_id=proof.login_id,
        )
    )
    _make_room(connection, user_id, login_id)
    return login_id


def has_signed_in_from(connection: Connection, user_id: int, network: str) -> bool:
    """Return whether a login of the user came from the network, as far as logins are kept."""
    known = select(logins.c.id).where(logins.c.user_id == user_id, logins.c.network == network).limit(1)
    return connection.execute(known).first() is not None


def record_use(connection: Connection, login_id: str) -> None:
    """Record that a login is in use, at most once a minute."""
    now = datetime.now(UTC)
    connection.execute(
        update(logins)
        .where(logins.c.id == login_id, logins.c.last_used_at < now - USED_AGAIN_AFTER)
        .values(last_used_at=now)
    )


def list_logins(connection: Connection, user_id: int, limit: int, offset: int) -> tuple[int, list[LiveLogin]]:
    """Return how many live logins a user has, and some of them, the most recently used first."""
    live = _live(user_id)
    total = connection.execute(select(func.count()).select_from(logins).where(*live)).scalar_one()
    rows = connection.execute(
        select(logins)
        .where(*live)
        .order_by(logins.c.last_used_at.desc(), logins.c.id.desc())
        .limit(limit)
        .offset(offset)
    )
    return total, [
        LiveLogin(row.id, LoginKind(row.kind), row.label, row.created_at, row.last_used_at, row.expires_at)
        for row in rows
    ]


def revoke_login(connection: Connection, user_id: int, login_id: str) -> None:
    """End a login of a user, the logins that were made from it, and the codes that could begin another."""
    lock_account(connection, user_id)  # so that nothing is made from it meanwhile
    is_live = select(logins.c.id).where(*_live(user_id), logins.c.id == login_id)
    if connection.execute(is_live).first() is None:
        raise LoginNotFound("You have no such login. GET /auth/sessions lists them.")
    _end_family(connection, user_id, login_id)


def revoke_other_logins(connection: Connection, user_id: int, login_id: str | None) -> None:
    """End all logins of a user but one, and the codes that could begin another."""
    connection.execute(
        update(logins).where(*_live(user_id), logins.c.id != (login_id or "")).values(revoked_at=datetime.now(UTC))
    )
    connection.execute(delete(login_codes).where(login_codes.c.user_id == user_id))


def change_password(connection: Connection, email: str, password_hash: str) -> None:
    """Replace the password of the account with this address; all its logins and tokens end."""
    user_id = find_account(connection, email).user_id
    set_password_hash(connection, user_id, password_hash, end_tokens=True)
    revoke_other_logins(connection, user_id, None)


def make_code(connection: Connection, user_id: int, login_expires_at: datetime, proof: Proof) -> str:
    """Return a new code that signs a browser in once, until `login_expires_at`; earlier codes of the user are void."""
    _lock_proven(connection, user_id, proof)
    now, code = datetime.now(UTC), secrets.token_urlsafe(16)
    connection.execute(delete(login_codes).where(or_(login_codes.c.expires_at < now, login_codes.c.user_id == user_id)))
    connection.execute(
        insert(login_codes).values(
            code_hash=_hash(code),
            user_id=user_id,
            expires_at=now + CODE_LIFETIME,
            login_expires_at=login_expires_at,
            login_id=proof.login_id,
        )
    )
    return code


def sign_in_by_code(
    connection: Connection, code: str, device: Device, replaced: Account | None
) -> tuple[Account, str, datetime]:
    """Use up a code; return its account, and the new login with its end. `replaced` may not be signed out for it."""
    owner = select(login_codes.c.user_id).where(login_codes.c.code_hash == _hash(code))
    # The account before the code, as in a change of password: that either deletes the code first or sees the new login.
    locked = lock_account(connection, connection.execute(owner).scalar_one_or_none() or 0)
    used = connection.execute(
        delete(login_codes)
        .where(login_codes.c.code_hash == _hash(code))
        .returning(login_codes.c.expires_at, login_codes.c.login_expires_at, login_codes.c.login_id)
    ).one_or_none()
    account = locked if used and used.expires_at > datetime.now(UTC) else None
    if used is None or account is None:
        raise CodeExpired("This link has expired. Run `artel link` for a new one.")
    refuse_to_replace(replaced, account)
    expires_at = used.login_expires_at
    return account, begin_login(connection, account.user_id, device, expires_at, Proof(used.login_id)), expires_at


def refuse_to_replace(current: Account | None, account: Account) -> None:
    """Raise OtherAccount if somebody else is signed in, so that the user is asked first."""
    if current is not None and current.user_id != account.user_id:
        raise OtherAccount(f"Sign in as {account.name}? You are signed in as {current.name}.")


def _lock_proven(connection: Connection, user_id: int, proof: Proof) -> None:
    """Lock the account; raise TokenInvalid if it, or the token that something is made with, has ended meanwhile."""
    account = lock_account(connection, user_id)
    if account is None:
        raise TokenInvalid("The account of this token does not exist any more.")
    if proof.login_id is None:
        refuse_older_token(account, proof.issued_at)
    elif connection.execute(select(logins.c.id).where(*_live(user_id), logins.c.id == proof.login_id)).first() is None:
        raise TokenInvalid("This login was ended. Log in again.")


def _end_family(connection: Connection, user_id: int, login_id: str) -> None:
    """End a login and all that was made from it."""
    # Bounded by the user's logins: UNION drops those that were found before.
    family = select(logins.c.id).where(logins.c.user_id == user_id, logins.c.id == login_id).cte(recursive=True)
    made_from_it = logins.c.user_id == user_id, logins.c.parent_id == family.c.id
    ids = select(family.union(select(logins.c.id).where(*made_from_it)).c.id)
    connection.execute(update(logins).where(*_live(user_id), logins.c.id.in_(ids)).values(revoked_at=datetime.now(UTC)))
    connection.execute(delete(login_codes).where(login_codes.c.user_id == user_id, login_codes.c.login_id.in_(ids)))


def _make_room(connection: Connection, user_id: int, new_id: str) -> None:
    """Keep to MAX_LOGINS: delete the oldest ended login, or else end the least recently used one of the largest group.

    A group is what was made from one login, or otherwise the logins of one kind and network. So who begins many, a
    script or a thief with a token, ends their own: they neither lock the user out nor sign other devices out.
    """
    mine = logins.c.user_id == user_id
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
    while parent_id in live:  # to end one of these would end the new one
        spared.add(parent_id)
        parent_id = live[parent_id].parent_id
    candidates = [row for row in live.values() if sizes[groups[row.id]] == largest and row.id not in spared]
    if not candidates:
        raise TooManyLogins(
            f"You have {MAX_LOGINS} logins, most of them made from each other. "
            "End some under Account or with `artel sessions revoke`."
        )
    dropped = min(candidates, key=lambda row: (row.last_used_at, row.id)).id
    _end_family(connection, user_id, dropped)
    connection.execute(delete(logins).where(mine, logins.c.id == dropped))


def _groups(live: Mapping[str, Row[Any]]) -> dict[str, tuple[str, ...]]:
    """Return the group of each login: the login that it goes back to, or its kind and network if it has no parent."""
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


def _live(user_id: int) -> tuple[Any, ...]:
    return logins.c.user_id == user_id, logins.c.revoked_at.is_(None), logins.c.expires_at > datetime.now(UTC)


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
