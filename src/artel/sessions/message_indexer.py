"""Adds messages to the index, some seconds after they were stored; searches read those that wait.

Many are added in one transaction, which costs a fraction of adding each in the transaction that stores it.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, insert, select, text, true, update

from artel.db.engine import Database
from artel.db.search_tables import message_search
from artel.db.tables import IS_NOT_SEARCHABLE, messages
from artel.logs import get_logger
from artel.poller import Poller
from artel.sessions.message_index import MIDDLE, first_key, indexed

BATCH = 200
BATCH_CHARACTERS = 500_000  # of more than one message
POLL_SECONDS = 3.0
SHARE = 0.2  # of one core at most, while there is work
FIRST_KEY_IN_POSTGRES = 2**40  # where the sequence of keys begins

log = get_logger(__name__)


class MessageIndexer:
    """Adds messages to the index in small transactions; one per process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._poller = Poller("message-index", self.step, POLL_SECONDS, "messages_not_indexed")

    def start(self) -> None:
        """Start; the first messages are added at once."""
        self._poller.start()
        self._poller.wake()

    async def close(self) -> None:
        """Stop, and wait for the running transaction."""
        await self._poller.close()

    async def step(self) -> None:
        """Add all messages that are waiting, at a limited speed."""
        total = 0
        while await self._database.read(_some_wait):
            count, seconds = await self._database.run(index_some)
            if not count:  # another process adds them
                break
            total += count
            await asyncio.sleep(seconds / SHARE - seconds)
        if total:
            log.debug("messages_indexed", messages=total)


def _some_wait(connection: Connection) -> bool:
    return connection.execute(select(messages.c.id).where(IS_NOT_SEARCHABLE).limit(1)).first() is not None


def index_some(connection: Connection) -> tuple[int, float]:
    """Add the next messages of one user to the index; return their number and the CPU time used.

    New messages come first, in their order. Those from before the index existed follow, newest first.
    """
    started, is_sqlite = time.thread_time(), connection.dialect.name == "sqlite"
    if not is_sqlite:  # one process at a time
        free = connection.execute(
            text("SELECT pg_try_advisory_xact_lock(hashtext('artel.message_index'))")
        ).scalar_one()
        if not free:
            return 0, 0.0
    newest = select(messages.c.user_id).where(IS_NOT_SEARCHABLE).order_by(messages.c.user_id.desc())
    user_id = connection.execute(newest.limit(1)).scalar_one_or_none()
    if user_id is None:
        return 0, 0.0
    edges = _Edges.read(connection, user_id, is_sqlite=is_sqlite)
    new: Sequence[Any] = ()
    if edges.oldest_id is not None:
        new = _batch(connection, user_id, messages.c.id > edges.oldest_id, messages.c.id.asc())
    keys = itertools.count(edges.after) if new else itertools.count(edges.before, -1)
    batch = new or _batch(connection, user_id, true(), messages.c.id.desc())
    rows = [
        {
            "key": next(keys),
            "user_id": user_id,
            "message_id": row.id,
            "grams": indexed(row.content, user_id, is_sqlite=is_sqlite),
        }
        for row in batch
    ]
    if rows:
        connection.execute(insert(message_search), rows)
        added = update(messages).where(messages.c.id.in_([row.id for row in batch]))
        connection.execute(added.values(searchable=True))
    return len(rows), time.thread_time() - started


def _batch(
    connection: Connection, user_id: int, which: ColumnElement[bool], order: ColumnElement[Any]
) -> Sequence[Any]:
    """Return the next waiting messages of a user; locked, so that one that is changed now is indexed as it is then."""
    waiting = messages.c.user_id == user_id, IS_NOT_SEARCHABLE, which
    columns = messages.c.id, func.length(messages.c.content).label("size")
    size, ids = 0, list[str]()
    for row in connection.execute(select(*columns).where(*waiting).order_by(order).limit(BATCH)):
        size += row.size
        if ids and size > BATCH_CHARACTERS:
            break
        ids.append(row.id)
    in_batch = select(messages.c.id, messages.c.content).where(messages.c.id.in_(ids), IS_NOT_SEARCHABLE)
    return connection.execute(in_batch.order_by(order).with_for_update(skip_locked=True)).all()


class _Edges(NamedTuple):
    """Where messages are added: the keys of the next newer and the next older one, and the oldest indexed message."""

    before: int
    after: int
    oldest_id: str | None

    @classmethod
    def read(cls, connection: Connection, user_id: int, *, is_sqlite: bool) -> "_Edges":
        """Return the edges of a user's keys; in PostgreSQL the keys of all users are one range."""
        key = message_search.c.key
        mine = message_search.c.user_id == user_id
        edges = select(func.min(key), func.max(key))
        oldest, newest = connection.execute(edges.where(mine) if is_sqlite else edges).one()
        middle = first_key(user_id) + MIDDLE if is_sqlite else FIRST_KEY_IN_POSTGRES
        if oldest is None:
            return cls(middle - 1, middle, None)
        first = select(message_search.c.message_id).where(mine).order_by(key).limit(1)
        return cls(oldest - 1, newest + 1, connection.execute(first).scalar_one_or_none())
