"""Who runs which worker space, when there are many processes: one row per host, one per space.

Works for the server itself, so nothing here is scoped to a user. The database's clock decides; see
docs/decisions for why a host that is cut off can do no harm.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from artel.db.dialect import insert_into
from artel.db.tables import approvals, hosts, projects, sessions, space_calls, spaces, turns
from artel.db.tx import Lease
from artel.errors import ProjectNotFound

MAX_WORK = 1_000
MAX_HOSTS = 1_000  # listed
WARN_ONLY_LONGER_SECONDS = 90  # shorter approvals get no warning

TurnIds = tuple[int, str, str]  # of user, session and turn


class SpaceElsewhere(Exception):
    """Another host runs the worker space."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """An acquired lease: whether the space had an owner before, and the version of the project's agents."""

    lease: Lease
    had_owner: bool
    config_version: int


@dataclass(frozen=True, slots=True)
class SpaceCall:
    """A call to a worker space that another process runs."""

    id: str
    user_id: int
    project_id: int
    operation: str
    agent_id: int | None


def renew_host(connection: Connection, host_id: str, lease_seconds: float) -> None:
    """Renew the lease of a host; delete hosts whose lease expired long ago."""
    until = func.now() + timedelta(seconds=lease_seconds)
    renewed = connection.execute(update(hosts).where(hosts.c.id == host_id).values(expires_at=until))
    if not renewed.rowcount:
        connection.execute(insert_into(connection, hosts).values(id=host_id, expires_at=until))
    connection.execute(delete(hosts).where(hosts.c.expires_at < func.now() - timedelta(hours=1)))


@dataclass(frozen=True, slots=True)
class HostState:
    """A process that runs worker spaces."""

    id: str
    spaces: int
    is_alive: bool


def list_hosts(connection: Connection) -> list[HostState]:
    """Return the hosts, with the number of spaces that each has; embedded servers have none."""
    owned = select(func.count()).where(spaces.c.owner == hosts.c.id).scalar_subquery()
    found = select(hosts.c.id, owned, hosts.c.expires_at >= func.now()).order_by(hosts.c.id).limit(MAX_HOSTS)
    return [HostState(host_id, count, is_alive) for host_id, count, is_alive in connection.execute(found)]


def remove_host(connection: Connection, host_id: str) -> None:
    """Delete a host that shuts down: its spaces can be acquired at once."""
    connection.execute(update(spaces).where(spaces.c.owner == host_id).values(owner=None))
    connection.execute(delete(hosts).where(hosts.c.id == host_id))


def acquire_space(connection: Connection, host_id: str, user_id: int, project_id: int) -> Acquired:
    """Acquire the lease of a space that no live host has, or that this host has already."""
    values = {"project_id": project_id, "user_id": user_id, "owner": None, "epoch": 0, "config_version": 0}
    try:
        connection.execute(insert_into(connection, spaces).values(values).on_conflict_do_nothing())
    except IntegrityError:  # the user has no such project
        raise ProjectNotFound("Project not found") from None
    mine = spaces.c.project_id == project_id, spaces.c.user_id == user_id
    row = connection.execute(select(spaces).where(*mine).with_for_update()).one_or_none()
    if row is None:
        raise ProjectNotFound("Project not found")
    if row.owner == host_id:
        return Acquired(Lease(project_id, host_id, row.epoch), had_owner=False, config_version=row.config_version)
    alive = hosts.c.id == row.owner, hosts.c.expires_at >= func.now()
    if row.owner is not None and connection.execute(select(hosts.c.id).where(*alive)).first():
        raise SpaceElsewhere
    connection.execute(update(spaces).where(*mine).values(owner=host_id, epoch=row.epoch + 1))
    lease = Lease(project_id, host_id, row.epoch + 1)
    return Acquired(lease, had_owner=row.epoch > 0, config_version=row.config_version)


def release_space(connection: Connection, lease: Lease) -> None:
    held = spaces.c.project_id == lease.project_id, spaces.c.owner == lease.owner, spaces.c.epoch == lease.epoch
    connection.execute(update(spaces).where(*held).values(owner=None))


def find_work(connection: Connection, host_id: str | None) -> list[str]:
    """Return sessions with unfinished turns in spaces that this host has or may acquire; without a host, all."""
    is_due = turns.c.finished_at.is_(None), turns.c.status != "waiting"
    work = select(turns.c.session_id).where(*is_due).distinct().limit(MAX_WORK)
    if host_id is not None:
        work = (
            work.outerjoin(spaces, spaces.c.project_id == turns.c.project_id)
            .outerjoin(hosts, hosts.c.id == spaces.c.owner)
            .where(_free_or(host_id))
        )
    return list(connection.execute(work).scalars())


def find_calls(connection: Connection, host_id: str) -> list[SpaceCall]:
    """Return calls to spaces that this host has or may acquire."""
    calls = (
        select(*(space_calls.c[name] for name in SpaceCall.__slots__))
        .outerjoin(spaces, spaces.c.project_id == space_calls.c.project_id)
        .outerjoin(hosts, hosts.c.id == spaces.c.owner)
        .where(space_calls.c.answer.is_(None), space_calls.c.expires_at > func.now(), _free_or(host_id))
        .limit(MAX_WORK)
    )
    return [SpaceCall(*row) for row in connection.execute(calls)]


@dataclass(frozen=True, slots=True)
class Due:
    """An approval that has expired, or will soon."""

    user_id: int
    session_id: str
    approval_id: str
    expires_at: datetime


def due_approvals(connection: Connection, now: datetime, soon: datetime) -> list[Due]:
    """Return pending approvals that have expired or will soon."""
    warns = approvals.c.warned_at.is_(None), approvals.c.seconds > WARN_ONLY_LONGER_SECONDS
    is_due = or_(approvals.c.expires_at <= now, and_(approvals.c.expires_at <= soon, *warns))
    columns = approvals.c.user_id, approvals.c.session_id, approvals.c.id, approvals.c.expires_at
    due = select(*columns).where(approvals.c.status == "pending", is_due).limit(MAX_WORK)
    return [Due(*row) for row in connection.execute(due)]


def running_turns(connection: Connection, project_id: int | None = None) -> list[TurnIds]:
    """Return user, session and id of running turns, of one project or of all."""
    is_running = turns.c.finished_at.is_(None), turns.c.status == "running"
    marked = select(turns.c.user_id, turns.c.session_id, turns.c.id).where(*is_running)
    if project_id is not None:
        marked = marked.where(turns.c.project_id == project_id)
    return [(row.user_id, row.session_id, row.id) for row in connection.execute(marked)]


def unfinished_of(connection: Connection, turn_ids: Iterable[str]) -> set[str]:
    """Return which of these turns exist and are unfinished."""
    asked = select(turns.c.id).where(turns.c.id.in_(list(turn_ids)), turns.c.finished_at.is_(None))
    return set(connection.execute(asked).scalars())


def owner_of(connection: Connection, session_id: str) -> int | None:
    owner: int | None = connection.scalar(select(sessions.c.user_id).where(sessions.c.id == session_id))
    return owner


def owner_of_project(connection: Connection, project_id: int) -> int | None:
    """Return the owner of a project; None if there is no such project."""
    owner: int | None = connection.scalar(select(projects.c.user_id).where(projects.c.id == project_id))
    return owner


def last_events(connection: Connection, session_ids: Iterable[str]) -> dict[str, int]:
    asked = select(sessions.c.id, sessions.c.last_event).where(sessions.c.id.in_(list(session_ids)))
    return {row.id: row.last_event for row in connection.execute(asked)}


def last_project_events(connection: Connection, project_ids: Iterable[str]) -> dict[str, int]:
    asked = select(projects.c.id, projects.c.last_event).where(projects.c.id.in_([int(one) for one in project_ids]))
    return {str(row.id): row.last_event for row in connection.execute(asked)}


def _free_or(host_id: str) -> ColumnElement[bool]:
    gone = or_(hosts.c.id.is_(None), hosts.c.expires_at < func.now())
    return or_(spaces.c.owner.is_(None), spaces.c.owner == host_id, and_(spaces.c.owner != host_id, gone))
