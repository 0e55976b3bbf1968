"""Runs transactions: plain functions, each on a database thread, committed or rolled back as a whole."""

import asyncio
import contextvars
import random
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from artel.errors import DatabaseUnavailable
from artel.logs import get_logger

P = ParamSpec("P")
T = TypeVar("T")

MAX_WAITING = 2_000  # transactions queued in this process; more are refused, not piled up
MAX_TRIES = 5
SQLITE_READERS = 2  # they share one interpreter lock: more only wait for it
LOCK_WAIT_SECONDS = 10
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


class Database:
    """SQLite (one writer thread, read-only readers) or PostgreSQL (a pool), behind the same two methods."""

    def __init__(self, url: str, *, connections: int = 10, synchronous: Literal["normal", "full"] = "normal") -> None:
        self.is_sqlite = make_url(url).get_backend_name() == "sqlite"
        if self.is_sqlite:
            self._writer = _sqlite_engine(url, synchronous, begin="BEGIN IMMEDIATE", connections=1)
            self._reader = _sqlite_engine(url, synchronous, begin="BEGIN", connections=SQLITE_READERS)
            self._write_threads = ThreadPoolExecutor(1, "db-writer")
            self._read_threads = ThreadPoolExecutor(SQLITE_READERS, "db-reader")
        else:
            self._writer = _postgres_engine(url, connections)
            self._reader = self._writer.execution_options(postgresql_readonly=True)
            self._write_threads = self._read_threads = ThreadPoolExecutor(connections, "db")
        self._waiting = 0

    @property
    def engine(self) -> Engine:
        """The engine that writes, for migrations."""
        return self._writer

    async def run(self, transaction: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a transaction that may write; cancelling the caller doesn't stop it half way."""
        return await self._on_thread(
            self._write_threads, self._writer, lambda connection: transaction(connection, *args, **kwargs)
        )

    async def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a transaction that only reads."""
        return await self._on_thread(
            self._read_threads, self._reader, lambda connection: query(connection, *args, **kwargs)
        )

    async def close(self) -> None:
        """Let running transactions finish, drop those that have not begun, and close every connection."""
        for threads in {self._write_threads, self._read_threads}:
            await asyncio.to_thread(threads.shutdown, wait=True, cancel_futures=True)
        for engine in (self._reader, self._writer):
            engine.dispose()

    async def _on_thread(
        self, threads: ThreadPoolExecutor, engine: Engine, transaction: Callable[[Connection], T]
    ) -> T:
        if self._waiting >= MAX_WAITING:
            raise DatabaseUnavailable("The database has too much to do. Try again in a moment.", retry_after=1)
        self._waiting += 1
        context = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(threads, context.run, _run, engine, transaction)
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # seen, even when the caller was cancelled and no longer asks


def _run(engine: Engine, transaction: Callable[[Connection], T]) -> T:
    for attempt in range(1, MAX_TRIES + 1):
        try:
            with engine.begin() as connection:
                return transaction(connection)
        except DBAPIError as failure:
            if attempt < MAX_TRIES and getattr(failure.orig, "sqlstate", None) in _RUN_AGAIN:
                log.info("transaction_runs_again", attempt=attempt)
                time.sleep(random.uniform(0.5, 1) * 0.005 * 2**attempt)  # noqa: S311 - jitter, no secret
                continue
            if _is_unavailable(failure):
                raise unavailable(failure) from failure
            raise
        except PoolTimeout as failure:
            raise DatabaseUnavailable("The database is busy. Try again in a moment.", retry_after=1) from failure
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


def _sqlite_engine(url: str, synchronous: str, begin: str, connections: int) -> Engine:
    engine = create_engine(url, pool_size=connections, max_overflow=0, hide_parameters=True)
    read_only = begin == "BEGIN"

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # we begin and commit ourselves, DDL included
        connection.execute(f"PRAGMA busy_timeout = {LOCK_WAIT_SECONDS * 1000}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA foreign_keys = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _postgres_engine(url: str, connections: int) -> Engine:
    return create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=LOCK_WAIT_SECONDS,
        pool_pre_ping=True,
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args={
            "connect_timeout": 5,
            # A line that has gone silent is given up: the limits below are the server's, which can't be heard then.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
            "application_name": "artel",
            "options": f"-c lock_timeout={LOCK_WAIT_SECONDS}s -c statement_timeout=30s"
            " -c idle_in_transaction_session_timeout=60s -c timezone=UTC",
        },
    )
