"""One transaction: committed or rolled back, run again where that helps, its troubles told in words for people."""

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from artel.errors import DatabaseUnavailable
from artel.logs import get_logger

T = TypeVar("T")

MAX_TRIES = 5
_RUN_AGAIN = frozenset({"40001", "40P01"})  # serialisation failure, deadlock
# What can be wrong with a SQLite file, in words; anything else that SQLite complains of is a mistake of ours.
_SQLITE_TROUBLE = {
    sqlite3.SQLITE_BUSY: "The database is busy. Try again in a moment.",
    sqlite3.SQLITE_FULL: "The disk of the database is full. Make room.",
    sqlite3.SQLITE_IOERR: "The file of the database can't be read or written. Check the disk.",
    sqlite3.SQLITE_CANTOPEN: "The file of the database can't be opened. Check that its folder exists and is writable.",
    sqlite3.SQLITE_READONLY: "The file of the database can't be written to. Check its permissions.",
    sqlite3.SQLITE_NOTADB: "The file of the database is no SQLite database, or damaged. Restore a copy.",
    sqlite3.SQLITE_CORRUPT: "The file of the database is damaged. Restore a copy.",
}

log = get_logger(__name__)


def run(begin: Callable[[], AbstractContextManager[Connection]], transaction: Callable[[Connection], T]) -> T:
    """Run a transaction in what `begin` begins, and commits or rolls back."""
    for attempt in range(1, MAX_TRIES + 1):
        is_committing = False
        try:
            with begin() as connection:
                result = transaction(connection)
                is_committing = True
        except DBAPIError as failure:
            if attempt < MAX_TRIES and getattr(failure.orig, "sqlstate", None) in _RUN_AGAIN:
                log.info("transaction_runs_again", attempt=attempt)
                time.sleep(random.uniform(0.5, 1) * 0.005 * 2**attempt)  # noqa: S311 - jitter, no secret
                continue
            # The server has closed the connection while it was in the pool: others are opened, at once. Whether a
            # commit got through nobody knows; the same transaction must not be done twice.
            if attempt < MAX_TRIES and failure.connection_invalidated and not is_committing:
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


def unavailable(failure: DBAPIError) -> DatabaseUnavailable:
    """Say for people what is wrong with the database; the log gets the driver's words."""
    log.warning("database_unavailable", error=str(failure.orig))
    detail = "The database can't be reached. Is it running? Try again in a moment."
    if isinstance(failure.orig, sqlite3.Error):
        detail = _SQLITE_TROUBLE.get(_sqlite_code(failure.orig), "The database does not work.")
    return DatabaseUnavailable(detail, retry_after=5)


def _is_unavailable(failure: DBAPIError) -> bool:
    if isinstance(failure.orig, sqlite3.Error):
        return _sqlite_code(failure.orig) in _SQLITE_TROUBLE
    return failure.connection_invalidated or isinstance(failure, OperationalError)


def _sqlite_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
