"""Rows of nodes, and what the monitor reads of the commands of all users.

Works for the server itself, so nothing here is scoped to a user. The database's clock decides how old a heartbeat is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, or_, select, type_coerce, update

from artel.bus.topology import word
from artel.contract.node_messages import MAX_GIVEN_UP, Progress
from artel.contract.passport import (
    BLOCKED_METRIC,
    FORGOTTEN_SECONDS,
    NOT_READY_SECONDS,
    OFFLINE_SECONDS,
    Passport,
    Status,
)
from artel.db.columns import Moment
from artel.db.dialect import insert_into
from artel.db.node_tables import node_commands, nodes
from artel.db.tables import alerts, turns
from artel.errors import ArtelError, Kind
from artel.logs import get_logger
from artel.registry.commands import GIVEN_UP, OPEN, Problem
from artel.registry.node import RegisteredNode
from artel.remote_calls import database_time

MAX_NODES = 10_000
MAX_OPEN_COMMANDS = 10_000
MAX_ORPHANS = 500  # that one check stops
FEW_NODES = 100  # whose commands are counted by name; else those of all nodes are
PHASE_CHARACTERS = 40
PROBLEM_CHARACTERS = 500
KEEP_COMMANDS = timedelta(days=1)
SILENT = timedelta(days=1)  # after which a name may make room for another
MAX_CLAIMED_EPOCH = 1_000_000  # that a node may say it has; all that the registry gives count up from there
KEEP_EPOCHS = timedelta(days=31)  # longer than any message lives on the bus
ORPHANED = timedelta(seconds=10)  # after the end of its turn, whose host stops its tasks itself

log = get_logger(__name__)

AlertKey = tuple[int, int, str, str]  # user, project, kind and subject


class TooManyNodes(Exception):
    """The registry has no room for another name."""


class AddressInUse(Exception):
    """Another name that is alive has the same address on the bus."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class OlderInstance(Exception):
    """A later instance of the name is alive, so this one is gone, and its request came late."""


class NodeRuns(ArtelError, kind=Kind.CONFLICT, code="node_runs"):
    """A node that is to be forgotten may still run."""


def current_time(connection: Connection) -> datetime:
    """Return the time of the clock that measures how old heartbeats and progress are."""
    now: datetime = connection.execute(select(type_coerce(database_time(connection), Moment))).scalar_one()
    return now


# Nodes


def register(connection: Connection, passport: Passport, epoch: int = 0) -> int:
    """Store the passport of a node and return its epoch, which is one higher than that of the instance before.

    An instance that registers again keeps its epoch. `epoch` is what the node says that it is: it counts if the
    database knows less, because it was restored. Raise TooManyNodes, AddressInUse or OlderInstance.
    """
    name, uid, given = passport.metadata.name, passport.metadata.uid, epoch
    now, stored = database_time(connection), passport.dump()
    alive = nodes.c.deregistered_at.is_(None), nodes.c.heartbeat_at > now - timedelta(seconds=NOT_READY_SECONDS)
    _check_address(connection, name, alive)
    columns = nodes.c.uid, nodes.c.epoch, nodes.c.passport, and_(*alive).label("is_alive")
    row = connection.execute(select(*columns).where(nodes.c.name == name).with_for_update()).first()
    if row is not None and row.uid != uid and not given and row.is_alive and _is_older(passport, row.passport):
        raise OlderInstance
    epoch = max(given, 1 if row is None else row.epoch if row.uid == uid else row.epoch + 1)
    values = {
        "uid": uid,
        "epoch": epoch,
        "node_type": passport.metadata.node_type,
        "protocol": passport.spec.endpoint.protocol,
        "status": stored.pop("status"),
        "passport": stored,
        "registered_at": now,
        "heartbeat_at": now,
        "deregistered_at": None,
    }
    if row is not None:
        connection.execute(update(nodes).where(nodes.c.name == name).values(**values))
        return epoch
    _make_room(connection)
    added = insert_into(connection, nodes).values(name=name, chosen_at=None, **values).on_conflict_do_nothing()
    if connection.execute(added).rowcount:
        return epoch
    return register(connection, passport, given)  # another process was faster; now there is a row to lock


def _make_room(connection: Connection) -> None:
    """Forget names that were silent for long if there are too many; raise TooManyNodes if that does not help."""
    if connection.execute(select(func.count()).select_from(nodes)).scalar_one() < MAX_NODES:
        return
    silent = nodes.c.heartbeat_at < database_time(connection) - SILENT
    if not connection.execute(delete(nodes).where(silent)).rowcount:
        raise TooManyNodes


def _check_address(connection: Connection, name: str, alive: Iterable[ColumnElement[bool]]) -> None:
    """Raise AddressInUse if another name that is alive has the same queue."""
    same = func.replace(nodes.c.name, ".", "_") == word(name), nodes.c.name != name
    if other := connection.execute(select(nodes.c.name).where(*same, *alive).limit(1)).scalar():
        raise AddressInUse(other)


def _is_older(passport: Passport, registered: dict[str, Any]) -> bool:
    """Return whether an instance began before the registered one."""
    began = datetime.fromisoformat(registered["metadata"]["creationTimestamp"])
    return passport.metadata.creation_timestamp < began


def beat(connection: Connection, name: str, uid: str, epoch: int, status: Status) -> bool:
    """Store a heartbeat; return False if it is of another instance than the registered one, or of none."""
    same = nodes.c.name == name, nodes.c.uid == uid, nodes.c.deregistered_at.is_(None)
    known = nodes.c.epoch == epoch if epoch else nodes.c.epoch > 0  # 0: it has not heard of its epoch yet
    values = {"status": _status_json(status), "heartbeat_at": database_time(connection)}
    return bool(connection.execute(update(nodes).where(*same, known).values(**values)).rowcount)


def adopt(connection: Connection, passport: Passport, epoch: int) -> bool:
    """Register a node that only its heartbeat tells of; return False if the name belongs to another instance.

    That is a node which could not register yet (epoch 0), or one that a restored database does not know.
    """
    if epoch > MAX_CLAIMED_EPOCH:
        return False
    name, uid = passport.metadata.name, passport.metadata.uid
    now = type_coerce(database_time(connection), Moment)
    columns = nodes.c.uid, nodes.c.epoch, nodes.c.heartbeat_at, nodes.c.deregistered_at, now.label("now")
    row = connection.execute(select(*columns).where(nodes.c.name == name)).first()
    if row is not None:
        is_free = row.deregistered_at is not None or row.now - row.heartbeat_at >= timedelta(seconds=NOT_READY_SECONDS)
        is_later = epoch > row.epoch
        if not (is_later if row.uid == uid else is_free and (is_later or epoch == 0)):
            return False
    register(connection, passport, epoch)
    return True


def deregister(connection: Connection, name: str, uid: str) -> bool:
    """Hide a node that has stopped; return whether it was there."""
    same = nodes.c.name == name, nodes.c.uid == uid, nodes.c.deregistered_at.is_(None)
    gone = update(nodes).where(*same).values(deregistered_at=database_time(connection))
    return bool(connection.execute(gone).rowcount)


def find_nodes(
    connection: Connection,
    *,
    name: str | None = None,
    node_type: str | None = None,
    protocol: str | None = None,
    newer_than: float | None = None,
    with_gone: bool = False,
) -> list[RegisteredNode]:
    """Return the nodes that are not forgotten, by name; of one name, type or protocol, or heard within seconds.

    `with_gone`: also those that have deregistered and would not be forgotten yet.
    """
    now = database_time(connection)
    seconds = FORGOTTEN_SECONDS if newer_than is None else newer_than
    conditions = [nodes.c.heartbeat_at > now - timedelta(seconds=seconds)]
    conditions += [] if with_gone else [nodes.c.deregistered_at.is_(None)]
    conditions += [nodes.c.name == name] if name is not None else []
    conditions += [nodes.c.node_type == node_type] if node_type is not None else []
    conditions += [nodes.c.protocol == protocol] if protocol is not None else []
    columns = (*nodes.c, type_coerce(now, Moment).label("now"))
    rows = connection.execute(select(*columns).where(*conditions).order_by(nodes.c.name).limit(MAX_NODES)).all()
    busy = _open_commands_of(connection, [row.name for row in rows])
    return list(_readable(rows, busy))


def newest_instance(connection: Connection, name: str) -> tuple[str, int]:
    """Return uid and epoch of the newest instance of a name, also if it is gone; "" and 0 if there never was one."""
    row = connection.execute(select(nodes.c.uid, nodes.c.epoch).where(nodes.c.name == name)).first()
    return ("", 0) if row is None else (row.uid, row.epoch)


def require_ended(connection: Connection, name: str) -> None:
    """Raise NodeRuns if the registry heard of a node that has not deregistered less than 90 seconds ago."""
    now = database_time(connection)
    is_heard = nodes.c.heartbeat_at > now - timedelta(seconds=FORGOTTEN_SECONDS)
    if connection.execute(
        select(nodes.c.uid).where(nodes.c.name == name, nodes.c.deregistered_at.is_(None), is_heard)
    ).first():
        raise NodeRuns(
            f"{name} runs, or has ended less than {FORGOTTEN_SECONDS} s ago without saying so. Stop it and wait that "
            f"long: artel node drain {name}"
        )


def forget_node(connection: Connection, name: str) -> bool:
    """Delete what the registry knows of a node that has ended; return whether it knew it. Raise NodeRuns."""
    require_ended(connection, name)
    return bool(connection.execute(delete(nodes).where(nodes.c.name == name)).rowcount)


@dataclass(frozen=True, slots=True)
class NodeAge:
    """How long ago a node was heard; `is_gone` if it deregistered, `is_full` if it has as many tasks as it takes."""

    seconds: float
    is_gone: bool
    is_full: bool
    task_ids: frozenset[str]
    progress_seconds: float  # between two reports of progress; 0 if it does not say
    blocked_seconds: float  # since its event loop last ran; 0 if it runs


def node_ages(connection: Connection, names: Collection[str] | None) -> dict[str, NodeAge]:
    """Return the ages of nodes by name, of all or of some, also of those that are forgotten."""
    if names is not None and not names:
        return {}
    now = type_coerce(database_time(connection), Moment)
    columns = nodes.c.name, nodes.c.heartbeat_at, nodes.c.deregistered_at, nodes.c.status, now.label("now")
    spec = nodes.c.passport["spec"]  # without the rest of the passport, which may be large
    slots, interval = (spec[name].as_float() for name in ("maxConcurrentTasks", "progressIntervalSeconds"))
    statement = select(*columns, slots.label("slots"), interval.label("interval")).limit(MAX_NODES)
    if names is not None:
        statement = statement.where(nodes.c.name.in_(names))
    ages = {}
    for row in connection.execute(statement):
        tasks = _task_ids(row.status)
        seconds = (row.now - row.heartbeat_at).total_seconds()
        is_gone, is_full = row.deregistered_at is not None, len(tasks) >= (row.slots or 1)
        ages[row.name] = NodeAge(seconds, is_gone, is_full, tasks, row.interval or 0.0, _blocked_seconds(row.status))
    return ages


def offline_nodes(connection: Connection) -> set[tuple[str, str]]:
    """Return name and uid of the nodes that are offline and not forgotten yet."""
    now = database_time(connection)
    oldest, newest = (now - timedelta(seconds=seconds) for seconds in (FORGOTTEN_SECONDS, OFFLINE_SECONDS))
    silent = nodes.c.heartbeat_at.between(oldest, newest)
    found = select(nodes.c.name, nodes.c.uid).where(nodes.c.deregistered_at.is_(None), silent).limit(MAX_NODES)
    return {(row.name, row.uid) for row in connection.execute(found)}


def note_chosen(connection: Connection, name: str) -> None:
    """Remember that a node was chosen for a task, so that the next one goes to another that is as free."""
    connection.execute(update(nodes).where(nodes.c.name == name).values(chosen_at=database_time(connection)))


def _open_commands_of(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """Return how many commands each node was sent and has not answered."""
    if not names:
        return {}
    is_open = node_commands.c.status.in_(OPEN)
    counted = select(node_commands.c.node_name, func.count().label("number")).where(is_open)
    if len(names) <= FEW_NODES:
        counted = counted.where(node_commands.c.node_name.in_(names))
    rows = connection.execute(counted.group_by(node_commands.c.node_name))
    return {row.node_name: row.number for row in rows}


def _readable(rows: Iterable[Row[Any]], open_commands: Mapping[str, int]) -> Iterator[RegisteredNode]:
    """Yield nodes, without those whose passport an earlier version took and this one does not."""
    for row in rows:
        try:
            yield _node_of(row, open_commands.get(row.name, 0))
        except ValidationError as invalid:
            log.warning("node_passport_unreadable", node=row.name, problem=str(invalid)[:PROBLEM_CHARACTERS])


def _node_of(row: Row[Any], open_commands: int) -> RegisteredNode:
    return RegisteredNode(
        name=row.name,
        uid=row.uid,
        epoch=row.epoch,
        passport=Passport.model_validate({**row.passport, "status": row.status}),
        heartbeat_at=row.heartbeat_at,
        heartbeat_age=max(0.0, (row.now - row.heartbeat_at).total_seconds()),
        registered_at=row.registered_at,
        chosen_at=row.chosen_at,
        open_commands=open_commands,
        is_gone=row.deregistered_at is not None,
    )


def _status_json(status: Status) -> dict[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


# Commands of all users


@dataclass(frozen=True, slots=True)
class OpenCommand:
    """A command that a node has not answered."""

    id: str
    user_id: int
    project_id: int
    task_id: str
    node_name: str
    is_sent: bool
    has_begun: bool
    silent_seconds: float  # since the node last reported progress, or since it was sent
    phase: str
    problem: Problem | None


def note_progress(connection: Connection, progress: Progress, node_name: str, idle_seconds: float) -> bool:
    """Store how far a node is with a command; return whether it is known and still open.

    That a node reports is no progress while its event loop stands still, nor when the task has not moved for longer
    than `idle_seconds`, which a call of a model or tool may take.
    """
    of_task = or_(node_commands.c.id == progress.task_id, node_commands.c.task_id == progress.task_id)
    conditions = [of_task, node_commands.c.node_name == node_name, node_commands.c.status.in_(OPEN)]
    if progress.epoch:  # an instance that was replaced says nothing about the command any more
        conditions.append(node_commands.c.node_epoch <= progress.epoch)
    silent_seconds = max(progress.blocked_seconds, progress.idle_seconds - idle_seconds, 0)
    values = {
        "progress_at": database_time(connection) - timedelta(seconds=silent_seconds),
        "phase": progress.phase[:PHASE_CHARACTERS],
        "elapsed": progress.elapsed_seconds,
    }
    return bool(connection.execute(update(node_commands).where(*conditions).values(**values)).rowcount)


def open_commands(connection: Connection) -> list[OpenCommand]:
    """Return the commands of unfinished turns that nodes have not answered."""
    now = type_coerce(database_time(connection), Moment)
    columns = node_commands.c
    statement = (
        select(
            *(columns[name] for name in ("id", "user_id", "project_id", "task_id", "node_name", "status", "problem"))
        )
        .add_columns(columns.phase, columns.progress_at, columns.updated_at, now.label("now"))
        .join(turns, turns.c.id == columns.turn_id)
        .where(columns.status.in_(OPEN), turns.c.finished_at.is_(None))
        .limit(MAX_OPEN_COMMANDS)
    )
    return [
        OpenCommand(
            id=row.id,
            user_id=row.user_id,
            project_id=row.project_id,
            task_id=row.task_id,
            node_name=row.node_name,
            is_sent=row.status == "sent",
            has_begun=row.progress_at is not None,
            silent_seconds=(row.now - max(row.updated_at, row.progress_at or row.updated_at)).total_seconds(),
            phase=row.phase or "",
            problem=row.problem,
        )
        for row in connection.execute(statement)
    ]


def given_up(connection: Connection, node_name: str) -> list[str]:
    """Return the ids of commands that nobody waits for, but that may still be in the queue of their node."""
    now, columns = type_coerce(database_time(connection), Moment), node_commands.c
    timeout = columns.command["timeout_seconds"].as_float()
    conditions = (
        columns.node_name == node_name,
        columns.status.in_(GIVEN_UP),
        columns.updated_at > database_time(connection) - KEEP_COMMANDS,
    )
    newest_first = columns.updated_at.desc()
    found = select(columns.id, columns.created_at, timeout.label("timeout"), now.label("now")).where(*conditions)
    return [
        row.id
        for row in connection.execute(found.order_by(newest_first).limit(MAX_GIVEN_UP))
        if row.timeout is None or row.created_at + timedelta(seconds=row.timeout) > row.now
    ]


@dataclass(frozen=True, slots=True)
class CommandLook:
    """What the sender of an open command has to know: what the monitor found, and the registered instance if any."""

    problem: Problem | None
    node_uid: str | None
    is_working: bool  # on the command, by the last heartbeat


def look_at(connection: Connection, command_ids: Collection[str]) -> dict[str, CommandLook]:
    """Return those of the commands that are still open; without their contents, which may be large."""
    columns = node_commands.c
    is_open = columns.id.in_(command_ids), columns.status.in_(OPEN)
    commands = connection.execute(select(columns.id, columns.problem, columns.node_name).where(*is_open)).all()
    instances = _instances(connection, {command.node_name for command in commands})
    looks = {}
    for command in commands:
        uid, task_ids = instances.get(command.node_name, (None, frozenset()))
        looks[command.id] = CommandLook(command.problem, uid, command.id in task_ids)
    return looks


def _instances(connection: Connection, names: Collection[str]) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the uids of nodes that are not forgotten, each with the tasks that it works on if it is alive."""
    now = database_time(connection)
    is_known = nodes.c.deregistered_at.is_(None), nodes.c.heartbeat_at > now - timedelta(seconds=FORGOTTEN_SECONDS)
    is_alive = nodes.c.heartbeat_at > now - timedelta(seconds=NOT_READY_SECONDS)
    columns = nodes.c.name, nodes.c.uid, nodes.c.status, is_alive.label("is_alive")
    found = connection.execute(select(*columns).where(nodes.c.name.in_(names), *is_known)).all()
    return {row.name: (row.uid, _task_ids(row.status) if row.is_alive else frozenset()) for row in found}


def _task_ids(status: dict[str, Any]) -> frozenset[str]:
    return frozenset(str(task.get("taskId")) for task in status.get("currentTasks", ()))


def _blocked_seconds(status: dict[str, Any]) -> float:
    return float(status.get("metrics", {}).get(BLOCKED_METRIC, 0.0))


def projects_of(connection: Connection, node_name: str, task_id: str) -> set[tuple[int, int]]:
    """Return user and project of the open commands to a node, of all its tasks or of one."""
    columns = node_commands.c
    conditions = [columns.node_name == node_name, columns.status.in_(OPEN)]
    if task_id:
        conditions.append(or_(columns.id == task_id, columns.task_id == task_id))
    found = select(columns.user_id, columns.project_id).where(*conditions).distinct().limit(MAX_OPEN_COMMANDS)
    return {(row.user_id, row.project_id) for row in connection.execute(found)}


def mark(connection: Connection, problem: Problem | None, command_ids: Collection[str]) -> None:
    """Store what is wrong with open commands."""
    marked = node_commands.c.id.in_(command_ids), node_commands.c.status.in_(OPEN)
    connection.execute(update(node_commands).where(*marked).values(problem=problem))


def open_alerts(connection: Connection, kinds: Iterable[str]) -> set[AlertKey]:
    """Return user, project, kind and subject of the open alerts of these kinds."""
    columns = alerts.c.user_id, alerts.c.project_id, alerts.c.kind, alerts.c.subject
    is_open = alerts.c.kind.in_(list(kinds)), alerts.c.resolved_at.is_(None)
    found = select(*columns).where(*is_open).limit(MAX_OPEN_COMMANDS)
    return {(row.user_id, row.project_id, row.kind, row.subject) for row in connection.execute(found)}


def orphans(connection: Connection) -> list[tuple[str, str]]:
    """Return node and id of the open commands whose turn is over, which no host has stopped."""
    ended = turns.c.finished_at < database_time(connection) - ORPHANED
    of_turns = select(node_commands.c.node_name, node_commands.c.id).join(turns, turns.c.id == node_commands.c.turn_id)
    found = of_turns.where(node_commands.c.status.in_(OPEN), ended).limit(MAX_ORPHANS)
    return [(row.node_name, row.id) for row in connection.execute(found)]


def cancel(connection: Connection, command_ids: Collection[str]) -> None:
    """Cancel those of the commands that are open."""
    columns = node_commands.c
    is_open = columns.id.in_(command_ids), columns.status.in_(OPEN)
    values = {"status": "cancelled", "updated_at": database_time(connection)}
    connection.execute(update(node_commands).where(*is_open).values(**values))


def clean_up(connection: Connection) -> None:
    """Delete commands and epochs that nobody needs any more."""
    now, columns = database_time(connection), node_commands.c
    over = select(turns.c.id).where(turns.c.id == columns.turn_id, turns.c.finished_at.is_not(None)).exists()
    old = columns.status.not_in(OPEN), columns.updated_at < now - KEEP_COMMANDS
    connection.execute(delete(node_commands).where(*old, over))
    connection.execute(delete(nodes).where(nodes.c.heartbeat_at < now - KEEP_EPOCHS))
