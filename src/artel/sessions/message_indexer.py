"""Adds messages to the index that were stored without it: before it existed, or by a server that does not know it."""

import asyncio
import time

from sqlalchemy import Connection, func, insert, select, text, update

from artel.db.engine import Database
from artel.db.search_tables import message_search
from artel.db.tables import IS_NOT_SEARCHABLE, messages
from artel.logs import get_logger
from artel.poller import Poller
from artel.sessions.message_index import MIDDLE, first_key, indexed

BATCH = 200
BATCH_CHARACTERS = 500_000  # of more than one message
POLL_SECONDS = 60.0
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
        while True:
            count, seconds = await self._database.run(index_some)
            total += count
            if not count:
                break
            await asyncio.sleep(seconds / SHARE - seconds)
        if total:
            log.info("messages_indexed", messages=total)


def index_some(connection: Connection) -> tuple[int, float]:
    """Add the next messages of one user to the index, newest first; return their number and the CPU time used."""
    started, is_sqlite = time.thread_time(), connection.dialect.name == "sqlite"
    if not is_sqlite:  # one process at a time
        free = connection.execute(
            text("SELECT pg_try_advisory_xact_lock(hashtext('artel.message_index'))")
        ).scalar_one()
        if not free:
            return 0, 0.0
    columns = messages.c.id, messages.c.user_id, func.length(messages.c.content).label("size")
    waiting = select(*columns).where(IS_NOT_SEARCHABLE).order_by(messages.c.user_id.desc(), messages.c.id.desc())
    found = connection.execute(waiting.limit(BATCH)).all()
    if not found:
        return 0, 0.0
    user_id, size, ids = found[0].user_id, 0, list[str]()
    for row in found:
        size += row.size
        if row.user_id != user_id or (ids and size > BATCH_CHARACTERS):
            break
        ids.append(row.id)
    # Locked, so that a message that is changed or deleted now is indexed as it is then.
    in_batch = messages.c.id.in_(ids), IS_NOT_SEARCHABLE
    newest_first = select(messages.c.id, messages.c.content).where(*in_batch).order_by(messages.c.id.desc())
    contents = connection.execute(newest_first.with_for_update(skip_locked=True)).all()
    oldest = _oldest_key(connection, user_id, is_sqlite=is_sqlite)
    rows = [
        {
            "key": oldest - number,
            "user_id": user_id,
            "message_id": row.id,
            "grams": indexed(row.content, user_id, is_sqlite=is_sqlite),
        }
        for number, row in enumerate(contents, 1)
    ]
    if rows:
        connection.execute(insert(message_search), rows)
        added = update(messages).where(messages.c.id.in_([row.id for row in contents]))
        connection.execute(added.values(searchable=True))
    return len(rows), time.thread_time() - started


def _oldest_key(connection: Connection, user_id: int, *, is_sqlite: bool) -> int:
    """Return the key that those of older messages come before."""
    oldest = select(func.min(message_search.c.key))
    key = connection.execute(oldest.where(message_search.c.user_id == user_id) if is_sqlite else oldest).scalar_one()
    if key is not None:
        return int(key)
    return first_key(user_id) + MIDDLE if is_sqlite else FIRST_KEY_IN_POSTGRES
