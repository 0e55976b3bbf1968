"""Running transactions: plain functions on database threads, each committed or rolled back as a whole."""

import asyncio
import contextvars
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError

from artel.auth.principal import Principal
from artel.db.lease import LeaseRepository
from artel.db.retries import run
from artel.db.sqlite_writer import SqliteWriter
from artel.db.tx import Lease, Tx
from artel.errors import ConfigurationInvalid, DatabaseUnavailable
from artel.logs import get_logger
from artel.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")
Hint = TypeVar("Hint")

MAX_WAITING = 2_000  # transactions queued in this process; more are refused (backpressure)
SQLITE_READERS = 2  # more would only contend for the interpreter lock
SEARCHERS = 2
STEPS_PER_CHECK = 1_000  # of SQLite's virtual machine, between two checks of the deadline
QUERY_CANCELED = "57014"
LOCK_WAIT_SECONDS = 10
CONNECT_SECONDS = 10  # a busy PostgreSQL needs seconds to start the process of a connection
WAL_POLL_SECONDS = 0.01
# Detect dead connections to PostgreSQL: it enforces other timeouts, and can't report them then.
CONNECT_OPTIONS: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

log = get_logger(__name__)


class Database:
    """SQLite (one writer thread, read-only readers) or PostgreSQL (a pool) behind the same methods."""

    def __init__(self, url: str, *, connections: int = 10, synchronous: Literal["normal", "full"] = "normal") -> None:
        self.is_sqlite = make_url(url).get_backend_name() == "sqlite"
        self._sqlite_writer: SqliteWriter | None = None
        if self.is_sqlite:
            # One connection is the writer's; the other is for migrations.
            self._writer = _sqlite_engine(url, synchronous, begin="BEGIN IMMEDIATE", connections=2)
            self._reader = _sqlite_engine(url, synchronous, begin="BEGIN", connections=SQLITE_READERS)
            self._sqlite_writer = SqliteWriter(self._writer)
            self._single = self._reader
            self._threads = ThreadPoolExecutor(SQLITE_READERS, "db-reader")
            # Searches are slow: own connections and threads keep them from blocking other reads.
            self._searcher = _sqlite_engine(url, synchronous, begin="BEGIN", connections=SEARCHERS)
            self._search_threads = ThreadPoolExecutor(SEARCHERS, "db-search")
        else:
            self._writer = _postgres_engine(url, connections)
            snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            self._reader = self._writer.execution_options(**snapshot)
            self._single = self._writer.execution_options(isolation_level="AUTOCOMMIT")
            self._threads = ThreadPoolExecutor(connections, "db")
            self._searcher, self._search_threads = self._reader, ThreadPoolExecutor(SEARCHERS, "db-search")
        self._waiting = 0
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}

    @property
    def engine(self) -> Engine:
        """The engine for writing, which migrations use."""
        return self._writer

    async def run(self, transaction: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a transaction that may write; it completes even if the caller is cancelled."""
        return await self._outcome(self._write(lambda connection: transaction(connection, *args, **kwargs)))

    def of(self, principal: Principal, lease: Lease | None = None) -> "UserDatabase":
        """Return the transactions of one user; with a lease, of a host of the user's worker space."""
        return UserDatabase(self, principal, lease)

    async def run_and_announce(self, transaction: Callable[[Connection], tuple[T, Sequence[object]]]) -> T:
        """Run a transaction that also returns hints, and send them to their handlers after the commit."""
        future = self._write(transaction)
        # Called before the caller resumes, and even if it was cancelled.
        future.add_done_callback(self._announce)
        return (await self._outcome(future))[0]

    def on_commit(self, kind: type[Hint], handler: Callable[[Hint], None]) -> None:
        """Call a handler in the event loop for each hint of a class, after its transaction has been committed."""
        self._handlers.setdefault(kind, []).append(handler)

    async def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read-only transaction; all its statements see the same snapshot of the database."""
        self._refuse_if_full()
        return await self._outcome(self._on_thread(self._reader, lambda connection: query(connection, *args, **kwargs)))

    async def read_once(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query of one statement: without a transaction around it, it takes one round trip instead of two."""
        self._refuse_if_full()
        return await self._outcome(self._on_thread(self._single, lambda connection: query(connection, *args, **kwargs)))

    async def read_within(
        self, seconds: float, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a slow read-only transaction on a snapshot; raise TimeoutError if it takes longer than `seconds`."""
        self._refuse_if_full()

        def bound(connection: Connection) -> T:
            with _time_limit(connection, seconds):
                return query(connection, *args, **kwargs)

        return await self._outcome(self._on_thread(self._searcher, bound, self._search_threads))

    async def close(self) -> None:
        """Wait for running transactions, drop queued ones, and close every connection."""
        if self._sqlite_writer is not None:
            await self._sqlite_writer.close()
        for threads in (self._threads, self._search_threads):
            await asyncio.to_thread(threads.shutdown, wait=True, cancel_futures=True)
        for engine in (self._searcher, self._reader, self._writer):
            engine.dispose()

    def _refuse_if_full(self) -> None:
        if self._waiting >= MAX_WAITING:
            raise DatabaseUnavailable("The database is overloaded. Try again in a moment.", retry_after=1)

    def _on_thread(
        self, engine: Engine, transaction: Callable[[Connection], T], threads: ThreadPoolExecutor | None = None
    ) -> asyncio.Future[T]:
        in_context = contextvars.copy_context().run
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(threads or self._threads, in_context, run, engine.begin, transaction)

    def _write(self, transaction: Callable[[Connection], T]) -> asyncio.Future[T]:
        self._refuse_if_full()
        if self._sqlite_writer is not None:
            return self._sqlite_writer.submit(transaction)
        return self._on_thread(self._writer, transaction)

    def _announce(self, future: asyncio.Future[tuple[Any, Sequence[object]]]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        for hint in future.result()[1]:
            for handler in self._handlers.get(type(hint), ()):
                try:
                    handler(hint)
                except Exception:
                    log.exception("hint_not_sent", hint=type(hint).__name__)

    async def _outcome(self, future: asyncio.Future[T]) -> T:
        self._waiting += 1
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # mark as retrieved, also when the caller was cancelled


class UserDatabase:
    """Transactions of one user. A host's begin with the fencing check of its lease, or raise LeaseLost."""

    def __init__(self, database: Database, principal: Principal, lease: Lease | None) -> None:
        self._database = database
        self._principal = principal
        self._lease = lease

    async def run(self, transaction: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a transaction and send its hints after the commit; it completes even if the caller is cancelled."""

        def attempt(connection: Connection) -> tuple[T, Sequence[object]]:
            tx = Tx(connection, self._principal, self._lease)
            if self._lease is not None:
                tx.held = LeaseRepository(tx).share(self._lease)
            return transaction(tx, *args, **kwargs), tx.hints

        return await self._database.run_and_announce(attempt)


def open_database(settings: Settings) -> Database:
    """Return the configured database, unconnected."""
    return Database(
        settings.sqlalchemy_url,
        connections=settings.database_connections,
        synchronous=settings.sqlite_synchronous,
    )


@contextmanager
def _time_limit(connection: Connection, seconds: float) -> Iterator[None]:
    """Let the database stop queries after a timeout; PostgreSQL gives each half of it, and begins none after it."""
    deadline = time.monotonic() + seconds
    if connection.dialect.name == "sqlite":
        sqlite: Any = connection.connection.driver_connection
        sqlite.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_PER_CHECK)
    else:
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, int(seconds * 500))}")

        @event.listens_for(connection, "before_cursor_execute")
        def refuse_if_late(*_: object) -> None:
            if time.monotonic() > deadline:
                raise TimeoutError

    try:
        yield
    except DBAPIError as failure:
        is_late = getattr(failure.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
        if is_late or getattr(failure.orig, "sqlstate", None) == QUERY_CANCELED:
            raise TimeoutError from failure
        raise
    finally:
        if connection.dialect.name == "sqlite":
            sqlite.set_progress_handler(None, 0)


def _sqlite_engine(url: str, synchronous: str, begin: str, connections: int) -> Engine:
    engine = create_engine(url, pool_size=connections, max_overflow=0, hide_parameters=True)
    read_only = begin == "BEGIN"

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # we begin and commit ourselves, also for DDL
        connection.execute(f"PRAGMA busy_timeout = {LOCK_WAIT_SECONDS * 1000}")
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA foreign_keys = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; wait while another process does so, for which SQLite has no timeout."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as failure:
            kind = failure.sqlite_errorcode & 0xFF  # the rest says more exactly why, as that another process recovers
            if kind != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(WAL_POLL_SECONDS)
        else:
            return


def _postgres_engine(url: str, connections: int) -> Engine:
    if find_spec("psycopg") is None:
        raise ConfigurationInvalid("The driver of PostgreSQL isn't installed: pip install 'artel-ai[postgres]'")
    from artel.db.pipeline import use_pipelines  # lazy: imports psycopg, which SQLite does not need

    engine = create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=LOCK_WAIT_SECONDS,
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args={
            **CONNECT_OPTIONS,
            "application_name": "artel",
            "options": f"-c lock_timeout={LOCK_WAIT_SECONDS}s -c statement_timeout=30s"
            " -c idle_in_transaction_session_timeout=60s -c timezone=UTC",
        },
    )
    use_pipelines(engine)
    return engine
