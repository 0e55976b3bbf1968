"""Pending work on the vector index of all users: memories to add, and chores that follow changes of the rows.

Each function is one transaction, or part of a larger one. Between two of them another task or process may clear,
rename or delete. To detect this race, an indexer takes a *ticket* before it adds memories, and emptying a collection
revokes all tickets: memories are marked as indexed only if the ticket still exists and they were not replaced since
they were read. At worst a memory is indexed twice; none is lost, and none stays in a collection that it doesn't belong
to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from artel.agent_memory.repository import UnindexedMemory
from artel.db.tables import agents, index_chores, memories
from artel.vector_index.store import collection_name, collection_owner

Kind = Literal["clear", "drop", "rename", "forget", "ticket"]
TICKET: Kind = "ticket"
RESET_ROWS = 5_000  # in one transaction
_NAMED_BY = agents.c.user_id, agents.c.project_id, agents.c.name  # what the name of a collection is made of


@dataclass(frozen=True, slots=True)
class Chore:
    """Work on the index that follows a change of the rows."""

    id: int
    kind: Kind
    collection: str
    new_name: str | None  # of a collection; of "forget": the id of the memory
    owned: bool  # whether an existing agent has this collection


@dataclass(frozen=True, slots=True)
class Ticket:
    """A permit to index some memories, with the collection of each memory that still exists."""

    number: int
    collections: Mapping[str, str]
    agents: Mapping[str, int]  # the agent of each memory


def waiting(connection: Connection, after: str, limit: int) -> list[UnindexedMemory]:
    """Return the next memories that are not in the index, oldest first."""
    names = "id", "content", "type", "success", "created_at", "edited_at"
    columns = [memories.c[name] for name in names]
    following = _waiting(*columns).where(memories.c.id > after).order_by(memories.c.id).limit(limit)
    return [UnindexedMemory(*row) for row in connection.execute(following)]


def count_waiting(connection: Connection) -> int:
    """Return the number of memories that are not in the index."""
    found: int = connection.execute(_waiting(func.count())).scalar_one()
    return found


def take_ticket(connection: Connection, ids: Sequence[str]) -> Ticket:
    """Create a ticket for indexing these memories."""
    stored = _stored(connection, ids)
    number = add_chore(connection, TICKET, "")
    names = {memory_id: row.collection for memory_id, row in stored.items()}
    return Ticket(number, names, {memory_id: row.agent_id for memory_id, row in stored.items()})


def return_ticket(connection: Connection, ticket: Ticket, read: Mapping[str, datetime]) -> int:
    """Delete the ticket; mark its memories as indexed unless it was revoked; return the number of marked memories.

    `read` has the times of the memories as they were read: one that was replaced since is indexed again.
    """
    valid = connection.execute(delete(index_chores).where(index_chores.c.id == ticket.number)).rowcount
    stored = _stored(connection, list(ticket.collections), lock=True)
    current = {memory_id: row.collection for memory_id, row in stored.items()}
    _remove_left_behind(connection, ticket, current)
    replaced = [memory_id for memory_id, row in stored.items() if read.get(memory_id, row.stored_at) != row.stored_at]
    if replaced:  # another indexer may have marked it with its new content, before the old one was added
        connection.execute(update(memories).where(memories.c.id.in_(replaced)).values(indexed_at=None))
    if not valid:
        return 0
    unchanged = [
        memory_id
        for memory_id, name in ticket.collections.items()
        if current.get(memory_id) == name and memory_id not in replaced
    ]
    marked = update(memories).where(memories.c.id.in_(unchanged)).values(indexed_at=datetime.now(UTC))
    return connection.execute(marked).rowcount


def _remove_left_behind(connection: Connection, ticket: Ticket, current: Mapping[str, str]) -> None:
    """Queue the removal of points of memories that were deleted or moved while they were indexed."""
    left = {memory_id: name for memory_id, name in ticket.collections.items() if current.get(memory_id) != name}
    for collection in set(left.values()):
        if _owner(connection, collection) is None:
            add_chore(connection, "drop", collection)
        elif any(memory_id in current for memory_id, name in left.items() if name == collection):
            add_chore(connection, "clear", collection)
    for memory_id, collection in left.items():
        if memory_id not in current:
            # The point may have been moved with the collection, if the agent was renamed meanwhile.
            names = {collection, _collection_of(connection, ticket.agents[memory_id])}
            for name in names - {None}:
                add_chore(connection, "forget", str(name), memory_id)


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
    if chore.kind == "forget":  # nothing else left the index; whoever adds the memory just now finds it deleted
        return
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


@dataclass(frozen=True, slots=True)
class _Stored:
    agent_id: int
    collection: str
    stored_at: datetime


def _stored(connection: Connection, ids: Sequence[str], *, lock: bool = False) -> dict[str, _Stored]:
    """Return the agent, the collection and the time of each memory that still exists."""
    stored_at = func.coalesce(memories.c.edited_at, memories.c.created_at).label("stored_at")
    found = (
        select(memories.c.id, stored_at, agents.c.id.label("agent_id"), *_NAMED_BY)
        .join(agents, agents.c.id == memories.c.agent_id)
        .where(memories.c.id.in_(ids))
    )
    # Locked, nobody replaces a memory until it is marked.
    rows = connection.execute(found.with_for_update(of=memories) if lock else found).all()
    return {row.id: _Stored(row.agent_id, _name_of(row), row.stored_at) for row in rows}


def _collection_of(connection: Connection, agent_id: int) -> str | None:
    """Return the collection of an agent, None if it was deleted."""
    row = connection.execute(select(*_NAMED_BY).where(agents.c.id == agent_id)).one_or_none()
    return _name_of(row) if row else None


def _name_of(row: Any) -> str:
    return collection_name(row.user_id, row.project_id, row.name)


def _owner(connection: Connection, collection: str) -> int | None:
    """Return the id of the agent that has the collection now, or None."""
    named_after = collection_owner(collection)
    if named_after is None:
        return None
    user_id, project_id, name = named_after
    conditions = agents.c.user_id == user_id, agents.c.project_id == project_id, agents.c.name == name
    owner: int | None = connection.execute(select(agents.c.id).where(*conditions)).scalar_one_or_none()
    return owner
