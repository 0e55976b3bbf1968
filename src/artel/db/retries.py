"""Running one transaction, with retries and readable errors."""

import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from artel.db.prepared import require_connected
from artel.errors import DatabaseUnavailable
from artel.logs import get_logger
from artel.retry import Backoff, retry

T = TypeVar("T")

MAX_ATTEMPTS = 5
BACKOFF = Backoff(0.005)
OUTAGE_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.2
PAUSE_SHARE = 0.02  # of the whole wait, for the longest pause between two attempts
# Serialization failure, deadlock; a prepared statement is gone, or its result has other columns after a migration.
_RETRYABLE = frozenset({"40001", "40P01", "26000", "0A000"})
# SQLite errors that the environment causes; any other one is a bug.
_SQLITE_ERRORS = {
    sqlite3.SQLITE_BUSY: "The database is busy. Try again in a moment.",
    sqlite3.SQLITE_FULL: "The disk of the database is full. Free some space.",
    sqlite3.SQLITE_IOERR: "The database file can't be read or written. Check the disk.",
    sqlite3.SQLITE_CANTOPEN: "The database file can't be opened. Check that its folder exists and is writable.",
    sqlite3.SQLITE_READONLY: "The database file is read-only. Check its permissions.",
    sqlite3.SQLITE_NOTADB: "The database file is not a SQLite database, or it is damaged. Restore a backup.",
    sqlite3.SQLITE_CORRUPT: "The database file is damaged. Restore a backup.",
}

log = get_logger(__name__)


def run(begin: Callable[[], AbstractContextManager[Connection]], transaction: Callable[[Connection], T]) -> T:
    """Run a transaction in the context of `begin`; retry after serialization failures and lost connections."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        is_committing = False
        try:
            with begin() as connection:
                result = transaction(connection)
                require_connected(connection)
                is_committing = True
        except DBAPIError as failure:
            if attempt < MAX_ATTEMPTS and getattr(failure.orig, "sqlstate", None) in _RETRYABLE:
                log.info("transaction_runs_again", attempt=attempt)
                time.sleep(BACKOFF.seconds(attempt))
                continue
            # The server closed the pooled connection: retry with a new one. Not during a commit, which may have
            # succeeded: the transaction must not run twice.
            if attempt < MAX_ATTEMPTS and failure.connection_invalidated and not is_committing:
                log.info("connection_lost", attempt=attempt)
                continue
            if _is_unavailable(failure):
                raise unavailable(failure) from failure
            raise
        except PoolTimeout as failure:
            raise DatabaseUnavailable("The database is busy. Try again in a moment.", retry_after=1) from failure
        else:
            return result
    raise AssertionError("the last attempt returns or raises")


async def with_outage_retry(store: Callable[[], Awaitable[T]], what: str, seconds: float = OUTAGE_SECONDS) -> T:
    """Run an idempotent transaction, again for some seconds while the database is unavailable."""

    def note(failure: DatabaseUnavailable) -> None:
        log.warning("database_waited_for", what=what, reason=failure.detail)

    backoff = Backoff(FIRST_PAUSE_SECONDS, max(FIRST_PAUSE_SECONDS, PAUSE_SHARE * seconds))
    return await retry(store, DatabaseUnavailable, backoff, note, seconds)


def unavailable(failure: DBAPIError) -> DatabaseUnavailable:
    """Log the driver's error and return one that users can read."""
    log.warning("database_unavailable", error=str(failure.orig))
    detail = "The database can't be reached. Is it running? Try again in a moment."
    if isinstance(failure.orig, sqlite3.Error):
        detail = _SQLITE_ERRORS.get(_sqlite_code(failure.orig), "The database failed. The server's log says why.")
    return DatabaseUnavailable(detail, retry_after=5)


def _is_unavailable(failure: DBAPIError) -> bool:
    if isinstance(failure.orig, sqlite3.Error):
        return _sqlite_code(failure.orig) in _SQLITE_ERRORS
    return failure.connection_invalidated or isinstance(failure, OperationalError)


def _sqlite_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
