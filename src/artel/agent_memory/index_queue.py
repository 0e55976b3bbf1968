"""What the index has yet to learn, whosever it is: memories to add, and chores that follow a change of the rows.

Each function is one transaction, or part of a larger one. Between two of them somebody else may clear, rename or
delete, here or in another process. So whoever adds to the index first leaves a *ticket*, and whoever empties a
collection takes all tickets away: memories are marked as indexed only if the ticket is still there. At worst one is
indexed twice; none is lost, and nothing is left behind in a collection that it doesn't belong to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from artel.db.tables import agents, index_chores, memories
from artel.vector_index.store import collection_name, collection_owner

Kind = Literal["clear", "drop", "rename"]
TICKET = "ticket"
RESET_ROWS = 5_000  # in one transaction


@dataclass(frozen=True, slots=True)
class Waiting:
    """A memory that isn't in the index yet."""

    id: str
    content: str
    type: str
    success: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to do in the index because the rows have changed."""

    id: int
    kind: Kind
    collection: str
    new_name: str | None
    owned: bool  # whether an agent has this collection now


@dataclass(frozen=True, slots=True)
class Ticket:
    """The leave to add some memories, and the collections that they belong to; those that are gone are not in it."""

    number: int
    collections: Mapping[str, str]


def waiting(connection: Connection, after: str, limit: int) -> list[Waiting]:
    """Return the next memories that aren't in the index, oldest first."""
    rows = connection.execute(_waiting(memories).where(memories.c.id > after).order_by(memories.c.id).limit(limit))
    return [Waiting(row.id, row.content, row.type, row.success, row.created_at) for row in rows]


def count_waiting(connection: Connection) -> int:
    """Return how many memories aren't in the index."""
    found: int = connection.execute(_waiting(func.count())).scalar_one()
    return found


def take_ticket(connection: Connection, ids: Sequence[str]) -> Ticket:
    """Announce that these memories are going to be added."""
    values = {"kind": TICKET, "collection": "", "created_at": datetime.now(UTC)}
    number: int = connection.execute(insert(index_chores).values(**values).returning(index_chores.c.id)).scalar_one()
    return Ticket(number, _collections(connection, ids))


def return_ticket(connection: Connection, ticket: Ticket) -> int:
    """Mark what was added, unless a collection was emptied meanwhile; have leftovers removed; return how many."""
    valid = connection.execute(delete(index_chores).where(index_chores.c.id == ticket.number)).rowcount
    now = _collections(connection, list(ticket.collections))
    for collection in {name for memory_id, name in ticket.collections.items() if now.get(memory_id) != name}:
        add_chore(connection, "clear" if _owner(connection, collection) is not None else "drop", collection)
    right = [memory_id for memory_id, name in ticket.collections.items() if now.get(memory_id) == name]
    if not valid:
        return 0
    marked = update(memories).where(memories.c.id.in_(right)).values(indexed_at=datetime.now(UTC))
    return connection.execute(marked).rowcount


def break_off(connection: Connection) -> None:
    """Take all tickets away: what is being added may be lost again, and stays waiting."""
    connection.execute(delete(index_chores).where(index_chores.c.kind == TICKET))


def add_chore(connection: Connection, kind: Kind, collection: str, new_name: str | None = None) -> None:
    """Have something done in the index, after what the same transaction does to the rows."""
    values = {"kind": kind, "collection": collection, "new_name": new_name, "created_at": datetime.now(UTC)}
    connection.execute(insert(index_chores).values(**values))


def next_chore(connection: Connection) -> Chore | None:
    """Return the oldest chore."""
    row = connection.execute(_chores().order_by(index_chores.c.id).limit(1)).one_or_none()
    if row is None:
        return None
    return Chore(row.id, row.kind, row.collection, row.new_name, _owner(connection, row.collection) is not None)


def finish_chore(connection: Connection, chore: Chore) -> None:
    """Remove a chore that was carried out, and let all be indexed again that it may have taken along."""
    connection.execute(delete(index_chores).where(index_chores.c.id == chore.id))
    break_off(connection)
    if chore.kind == "rename" and chore.new_name is not None:
        # Somebody else may have had the old name before the index was told: then both collections are mixed up.
        if _is_spoken_of(connection, chore.collection):
            add_chore(connection, "clear", chore.new_name)
            add_chore(connection, "drop", chore.collection)
        return
    for name in _names_since(connection, chore.collection):
        owner = _owner(connection, name)
        if owner is not None:
            again = memories.c.agent_id == owner, memories.c.indexed_at.is_not(None)
            connection.execute(update(memories).where(*again).values(indexed_at=None))


def reset_some(connection: Connection, after: str) -> str | None:
    """Let the next memories be indexed again, because the index was made anew; return the last of them."""
    break_off(connection)
    some = connection.execute(
        select(memories.c.id).where(memories.c.id > after).order_by(memories.c.id).limit(RESET_ROWS)
    ).scalars()
    last: str | None = max(some, default=None)
    if last is not None:
        between = memories.c.id > after, memories.c.id <= last, memories.c.indexed_at.is_not(None)
        connection.execute(update(memories).where(*between).values(indexed_at=None))
    return last


def start_over(connection: Connection, collections: Iterable[str]) -> None:
    """Have every collection emptied, and those dropped that no agent has."""
    for collection in collections:
        add_chore(connection, "drop", collection)


def _waiting(*columns: Any) -> Any:
    is_waiting = memories.c.indexed_at.is_(None), memories.c.archive_id.is_(None)
    return select(*columns).select_from(memories).where(*is_waiting)


def _chores() -> Any:
    return select(index_chores).where(index_chores.c.kind != TICKET)


def _collections(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return the collection that each of the memories belongs to, if it is still there."""
    rows = connection.execute(
        select(memories.c.id, agents.c.user_id, agents.c.project_id, agents.c.name)
        .join(agents, agents.c.id == memories.c.agent_id)
        .where(memories.c.id.in_(ids))
    ).all()
    return {row.id: collection_name(row.user_id, row.project_id, row.name) for row in rows}


def _owner(connection: Connection, collection: str) -> int | None:
    """Return the agent that has the collection now."""
    named_after = collection_owner(collection)
    if named_after is None:
        return None
    user_id, project_id, name = named_after
    asked = agents.c.user_id == user_id, agents.c.project_id == project_id, agents.c.name == name
    owner: int | None = connection.execute(select(agents.c.id).where(*asked)).scalar_one_or_none()
    return owner


def _names_since(connection: Connection, collection: str) -> list[str]:
    """Return the collection's name, and those that its agent was given since without the index having been told."""
    names = [collection]
    renames = _chores().where(index_chores.c.kind == "rename").order_by(index_chores.c.id)
    for row in connection.execute(renames):
        if row.collection in names and row.new_name not in names:
            names.append(row.new_name)
    return names


def _is_spoken_of(connection: Connection, collection: str) -> bool:
    about = or_(index_chores.c.collection == collection, index_chores.c.new_name == collection)
    return _owner(connection, collection) is not None or connection.execute(_chores().where(about)).first() is not None
