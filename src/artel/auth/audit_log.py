"""The audit log of the server: who signed in, and what administrators and the operator did.

Entries are written in the transaction of what they report. They contain no secrets, and of accounts only the id, so
that a deleted account leaves no address behind.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, func, insert, select

from artel.auth.principal import Principal
from artel.contract.http import PageRequest
from artel.db.tables import audit_log, users
from artel.text import one_line, storable

RETENTION = timedelta(days=365)
# Kept of each class: what users cause by themselves can't push out what administrators did.
MAX_ENTRIES = 50_000
CLEAN_UP_EVERY = 500  # entries
MAX_TARGET_CHARACTERS = 255
MAX_DETAIL_CHARACTERS = 500

# Who acts, if it is no account: the operator on the command line, the server itself, or somebody without a login.
OtherActor = Literal["operator", "server", "unknown"]


class Action(StrEnum):
    """What an entry reports."""

    ACCOUNT_CREATED = "account_created"
    ACCOUNT_DELETED = "account_deleted"
    LOGIN = "login"
    LOGIN_FAILED = "login_failed"
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - the name of an action
    LIMITS_CHANGED = "limits_changed"
    SPACE_RESET = "space_reset"
    NODE_CONTROLLED = "node_controlled"
    PROVIDER_ADDED = "provider_added"
    PROVIDER_CHANGED = "provider_changed"
    PROVIDER_DELETED = "provider_deleted"
    SETTINGS_CHANGED = "settings_changed"


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An entry as administrators see it."""

    id: int
    at: datetime
    actor: str
    actor_id: int | None
    action: str
    target: str
    target_user_id: int | None
    detail: str


def record(
    connection: Connection,
    action: Action,
    actor: Principal | OtherActor,
    *,
    target: str = "",
    target_user_id: int | None = None,
    detail: str = "",
) -> None:
    """Add an entry, and now and then delete old ones; `target_user_id` is the account that the action is about."""
    is_user = isinstance(actor, Principal)
    values = {
        "at": datetime.now(UTC),
        "is_routine": action in (Action.LOGIN, Action.LOGIN_FAILED) or not _is_operating(actor),
        "actor_id": actor.user_id if isinstance(actor, Principal) else None,
        "actor": "user" if is_user else actor,
        "action": action,
        "target": storable(one_line(target, MAX_TARGET_CHARACTERS)),
        "target_user_id": target_user_id,
        "detail": storable(one_line(detail, MAX_DETAIL_CHARACTERS)),
    }
    number: int = connection.execute(insert(audit_log).values(**values).returning(audit_log.c.id)).scalar_one()
    if number % CLEAN_UP_EVERY == 0:
        _clean_up(connection)


def list_entries(connection: Connection, action: str | None, paging: PageRequest) -> tuple[list[AuditRow], int]:
    """Return a page of entries, newest first, of all actions or one, and the number of all."""
    wanted = [] if action is None else [audit_log.c.action == action]
    actors, targets = users.alias("actors"), users.alias("targets")
    found = (
        select(audit_log, actors.c.email.label("actor_email"), targets.c.email.label("target_email"))
        .select_from(
            audit_log.outerjoin(actors, actors.c.id == audit_log.c.actor_id).outerjoin(
                targets, targets.c.id == audit_log.c.target_user_id
            )
        )
        .where(*wanted)
        .order_by(audit_log.c.id.desc())
    )
    rows = connection.execute(found.limit(paging.limit).offset(paging.offset))
    total = connection.execute(select(func.count()).select_from(audit_log).where(*wanted)).scalar_one()
    return [_entry(row) for row in rows], total


def _is_operating(actor: Principal | OtherActor) -> bool:
    """Return whether somebody acts who is responsible for the server."""
    return actor.is_admin if isinstance(actor, Principal) else actor != "unknown"


def _clean_up(connection: Connection) -> None:
    connection.execute(delete(audit_log).where(audit_log.c.at < datetime.now(UTC) - RETENTION))
    for is_routine in (True, False):
        of_class = audit_log.c.is_routine.is_(is_routine)
        newest = select(audit_log.c.id).where(of_class).order_by(audit_log.c.id.desc())
        excess = newest.offset(MAX_ENTRIES).limit(1).scalar_subquery()
        connection.execute(delete(audit_log).where(of_class, audit_log.c.id <= excess))


def _entry(row: Row[Any]) -> AuditRow:
    actor = row.actor if row.actor_id is None else row.actor_email or f"user {row.actor_id}"
    about = row.target_email or f"user {row.target_user_id}" if row.target_user_id is not None else ""
    return AuditRow(
        id=row.id,
        at=row.at,
        actor=actor,
        actor_id=row.actor_id,
        action=row.action,
        target=row.target or about,
        target_user_id=row.target_user_id,
        detail=row.detail,
    )
