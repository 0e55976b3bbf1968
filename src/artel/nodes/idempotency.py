"""The answers that a node has given, in a file, so that a command that comes again is not carried out again."""

import asyncio
import sqlite3
import threading
import time
from pathlib import Path

from artel.logs import get_logger
from artel.nodes.sqlite_file import open_file

HOLD_SECONDS = 24 * 3600.0
MAX_ANSWERS = 10_000
MAX_BYTES = 200_000_000
SPARE_SHARE = 0.1  # of the limits is freed at once, so that not each answer has to

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    answer BLOB NOT NULL,
    stored_at REAL NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX IF NOT EXISTS answers_by_age ON answers (stored_at);
CREATE TABLE IF NOT EXISTS used_approvals (
    signature TEXT PRIMARY KEY,
    expires REAL NOT NULL
);
"""

log = get_logger(__name__)


class AnswerStore:
    """The answers by tenant and idempotency key; old ones are dropped by age, number and size."""

    def __init__(
        self,
        file: Path,
        *,
        hold_seconds: float = HOLD_SECONDS,
        max_answers: int = MAX_ANSWERS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._hold_seconds = hold_seconds
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._connection = _open(file)
        row = self._connection.execute("SELECT count(*), coalesce(sum(length(answer)), 0) FROM answers").fetchone()
        self._count, self._bytes = int(row[0]), int(row[1])
        self._delete_old()

    async def get(self, tenant: str, key: str) -> bytes | None:
        """Return the answer to a command, None if there is none or it is too old."""
        return await asyncio.to_thread(self._get, tenant, key)

    async def keep(self, tenant: str, key: str, answer: bytes) -> bytes:
        """Store the answer to a command, unless it has one; return the one that it has."""
        return await asyncio.to_thread(self._keep, tenant, key, answer)

    async def use_approval(self, signature: str, expires: float) -> bool:
        """Note that an approval is used, until it expires; return False if it was used before."""
        return await asyncio.to_thread(self._use_approval, signature, expires)

    async def forget(self, tenant: str) -> None:
        """Delete the answers of a tenant."""
        await asyncio.to_thread(self._forget, tenant)

    async def delete_old(self) -> None:
        """Delete the answers that are too old to be used."""
        await asyncio.to_thread(self._delete_old)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _get(self, tenant: str, key: str) -> bytes | None:
        with self._lock:
            return self._find(tenant, key)

    def _find(self, tenant: str, key: str) -> bytes | None:
        oldest = time.time() - self._hold_seconds
        row = self._connection.execute(
            "SELECT answer FROM answers WHERE tenant = ? AND key = ? AND stored_at >= ?", (tenant, key, oldest)
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _keep(self, tenant: str, key: str, answer: bytes) -> bytes:
        now = time.time()
        with self._lock, self._connection:
            self._delete("WHERE stored_at < ?", (now - self._hold_seconds,))
            added = self._connection.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", (tenant, key, answer, now)
            )
            if not added.rowcount:
                return self._find(tenant, key) or answer
            self._count, self._bytes = self._count + 1, self._bytes + len(answer)
            while self._count > max(1, self._max_answers) or (self._bytes > self._max_bytes and self._count > 1):
                oldest = max(1, int(self._count * SPARE_SHARE))
                self._delete("WHERE rowid IN (SELECT rowid FROM answers ORDER BY stored_at LIMIT ?)", (oldest,))
        return answer

    def _forget(self, tenant: str) -> None:
        with self._lock, self._connection:
            self._delete("WHERE tenant = ?", (tenant,))

    def _delete_old(self) -> None:
        with self._lock, self._connection:
            self._delete("WHERE stored_at < ?", (time.time() - self._hold_seconds,))

    def _use_approval(self, signature: str, expires: float) -> bool:
        with self._lock, self._connection:
            self._connection.execute("DELETE FROM used_approvals WHERE expires < ?", (time.time(),))
            added = self._connection.execute("INSERT OR IGNORE INTO used_approvals VALUES (?, ?)", (signature, expires))
            return added.rowcount == 1

    def _delete(self, condition: str, values: tuple[object, ...]) -> None:
        """Delete answers and count what is left."""
        deleted = self._connection.execute(
            f"DELETE FROM answers {condition} RETURNING length(answer)",  # noqa: S608 - our own conditions
            values,
        ).fetchall()
        self._count -= len(deleted)
        self._bytes -= sum(int(row[0]) for row in deleted)


def _open(file: Path) -> sqlite3.Connection:
    """Open the file; put a damaged one aside, because a node that knows no answers is better than none."""
    try:
        return open_file(file, _SCHEMA, synchronous="NORMAL")
    except sqlite3.DatabaseError as damage:
        if isinstance(damage, sqlite3.OperationalError):  # locked, or the disk is full
            raise
        aside = file.with_name(f"{file.name}.damaged")
        log.exception("answers_damaged", file=str(file), moved_to=str(aside))
        file.replace(aside)
        for left in ("-wal", "-shm"):
            file.with_name(f"{file.name}{left}").unlink(missing_ok=True)
        return open_file(file, _SCHEMA, synchronous="NORMAL")
