"""Pending work on the vector index of all users: memories to add, and chores that follow changes of the rows.

Each function is one transaction, or part of a larger one. Between two of them another task or process may clear,
rename or delete. To detect this race, an indexer takes a *ticket* before it adds memories, and emptying a collection
revokes all tickets: memories are marked as indexed only if the ticket still exists. At worst a memory is indexed
twice; none is lost, and none stays in a collection that it doesn't belong to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from artel.agent_memory.repository import UnindexedMemory
from artel.db.tables import agents, index_chores, memories
from artel.vector_index.store import collection_name, collection_owner

Kind = Literal["clear", "drop", "rename", "ticket"]
TICKET: Kind = "ticket"
RESET_ROWS = 5_000  # in one transaction


@dataclass(frozen=True, slots=True)
class Chore:
    """Work on the index that follows a change of the rows."""

    id: int
    kind: Kind
    collection: str
    new_name: str | None
    owned: bool  # whether an existing agent has this collection


@dataclass(frozen=True, slots=True)
class Ticket:
    """A permit to index some memories, with the collection of each memory that still exists."""

    number: int
    collections: Mapping[str, str]


def waiting(connection: Connection, after: str, limit: int) -> list[UnindexedMemory]:
    """Return the next memories that are not in the index, oldest first."""
    columns = memories.c.id, memories.c.content, memories.c.type, memories.c.success, memories.c.created_at
    following = _waiting(*columns).where(memories.c.id > after).order_by(memories.c.id).limit(limit)
    return [UnindexedMemory(*row) for row in connection.execute(following)]


def count_waiting(connection: Connection) -> int:
    """Return the number of memories that are not in the index."""
    found: int = connection.execute(_waiting(func.count())).scalar_one()
    return found


def take_ticket(connection: Connection, ids: Sequence[str]) -> Ticket:
    """Create a ticket for indexing these memories."""
    return Ticket(add_chore(connection, TICKET, ""), _collections(connection, ids))


def return_ticket(connection: Connection, ticket: Ticket) -> int:
    """Delete the ticket; mark its memories as indexed unless it was revoked; return the number of marked memories."""
    valid = connection.execute(delete(index_chores).where(index_chores.c.id == ticket.number)).rowcount
    current = _collections(connection, list(ticket.collections))
    # Memories that were deleted or moved meanwhile left points behind in these collections.
    for collection in {name for memory_id, name in ticket.collections.items() if current.get(memory_id) != name}:
        add_chore(connection, "clear" if _owner(connection, collection) is not None else "drop", collection)
    if not valid:
        return 0
    unchanged = [memory_id for memory_id, name in ticket.collections.items() if current.get(memory_id) == name]
    marked = update(memories).where(memories.c.id.in_(unchanged)).values(indexed_at=datetime.now(UTC))
    return connection.execute(marked).rowcount


def revoke_tickets(connection: Connection) -> None:
    """Delete all tickets, so that memories being added now are not marked as indexed."""
    connection.execute(delete(index_chores).where(index_chores.c.kind == TICKET))


def add_chore(connection: Connection, kind: Kind, collection: str, new_name: str | None = None) -> int:
    """Queue work on the index, in the same transaction as the change of the rows; return its id."""
    values = {"kind": kind, "collection": collection, "new_name": new_name, "created_at": datetime.now(UTC)}
    number: int = connection.execute(insert(index_chores).values(**values).returning(index_chores.c.id)).scalar_one()
    return number


def next_chore(connection: Connection) -> Chore | None:
    """Return the oldest chore, or None."""
    row = connection.execute(_chores().order_by(index_chores.c.id).limit(1)).one_or_none()
    if row is None:
        return None
    return Chore(row.id, row.kind, row.collection, row.new_name, _owner(connection, row.collection) is not None)


def finish_chore(connection: Connection, chore: Chore) -> None:
    """Delete a finished chore, and queue again the memories that it may have removed from the index."""
    connection.execute(delete(index_chores).where(index_chores.c.id == chore.id))
    revoke_tickets(connection)
    if chore.kind == "rename" and chore.new_name is not None:
        # If another agent got the old name before the index was renamed, the collections are mixed up.
        refers = or_(index_chores.c.collection == chore.collection, index_chores.c.new_name == chore.collection)
        if _owner(connection, chore.collection) is not None or connection.execute(_chores().where(refers)).first():
            add_chore(connection, "clear", chore.new_name)
            add_chore(connection, "drop", chore.collection)
        return
    names = [chore.collection]  # then its later names, from renames that are still pending
    for row in connection.execute(_chores().where(index_chores.c.kind == "rename").order_by(index_chores.c.id)):
        if row.collection in names and row.new_name not in names:
            names.append(row.new_name)
    owners = {owner for name in names if (owner := _owner(connection, name)) is not None}
    if owners:  # SQLite scans the whole table to find the rows of nobody
        indexed = memories.c.agent_id.in_(owners), memories.c.indexed_at.is_not(None)
        connection.execute(update(memories).where(*indexed).values(indexed_at=None))


def reset_some(connection: Connection, after: str) -> str | None:
    """Mark the next memories as not indexed, for a rebuild; return the last one's id, or None at the end."""
    revoke_tickets(connection)
    ids = connection.execute(
        select(memories.c.id).where(memories.c.id > after).order_by(memories.c.id).limit(RESET_ROWS)
    ).scalars()
    last: str | None = max(ids, default=None)
    if last is not None:
        between = memories.c.id > after, memories.c.id <= last, memories.c.indexed_at.is_not(None)
        connection.execute(update(memories).where(*between).values(indexed_at=None))
    return last


def drop_collections(connection: Connection, collections: Iterable[str]) -> None:
    """Queue the deletion of collections; those of existing agents are only emptied."""
    for collection in collections:
        add_chore(connection, "drop", collection)


def _waiting(*columns: Any) -> Any:
    is_waiting = memories.c.indexed_at.is_(None), memories.c.archive_id.is_(None)
    return select(*columns).select_from(memories).where(*is_waiting)


def _chores() -> Any:
    return select(index_chores).where(index_chores.c.kind != TICKET)


def _collections(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return the collection of each memory that still exists."""
    rows = connection.execute(
        select(memories.c.id, agents.c.user_id, agents.c.project_id, agents.c.name)
        .join(agents, agents.c.id == memories.c.agent_id)
        .where(memories.c.id.in_(ids))
    ).all()
    return {row.id: collection_name(row.user_id, row.project_id, row.name) for row in rows}


def _owner(connection: Connection, collection: str) -> int | None:
    """Return the id of the agent that has the collection now, or None."""
    named_after = collection_owner(collection)
    if named_after is None:
        return None
    user_id, project_id, name = named_after
    conditions = agents.c.user_id == user_id, agents.c.project_id == project_id, agents.c.name == name
    owner: int | None = connection.execute(select(agents.c.id).where(*conditions)).scalar_one_or_none()
    return owner
