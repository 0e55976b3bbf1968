"""The one thread that writes to a SQLite file. Transactions that wait at the same time are committed together.

A commit takes as long as the statements before it, and who waits for the writer has to wait for a commit anyway. Each
transaction still succeeds or fails for itself, in a savepoint. When the database complains of one, all of them are
rolled back and run again one by one: transactions have no effect outside the database. When nobody can write (the disk
is full, another program holds the file), all are told so.
"""

import asyncio
import contextvars
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from artel.db.attempts import run
from artel.errors import DatabaseUnavailable

MOST_TOGETHER = 16

Transaction = Callable[[Connection], Any]
Begin = Callable[[], AbstractContextManager[Connection]]


@dataclass(slots=True)
class _Job:
    """A transaction, and what became of it."""

    transaction: Transaction
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    failure: Exception | None = None

    def __call__(self, connection: Connection) -> None:
        self.result = self.context.run(self.transaction, connection)

    def tell(self) -> None:
        """Give the outcome to whoever waits for it."""
        if self.future.done():
            return
        if self.failure is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.failure)


class SqliteWriter:
    """Runs transactions in the order in which they come."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = False

    def submit(self, transaction: Transaction) -> asyncio.Future[Any]:
        """Run a transaction when its turn comes."""
        if self._closing:
            raise RuntimeError("the database is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="db-writer", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        job = _Job(transaction, contextvars.copy_context(), loop, loop.create_future())
        self._jobs.put(job)
        return job.future

    async def close(self) -> None:
        """Wait for what has begun; what has not is cancelled."""
        self._closing = True
        self._jobs.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        connection: Connection | None = None

        @contextmanager
        def begin() -> Iterator[Connection]:
            nonlocal connection
            connection = connection or self._engine.connect()
            with connection.begin():
                yield connection

        while jobs := self._next():
            if self._closing:
                _on_their_thread(jobs, _cancel)
                continue
            if not _settled(begin, jobs):
                connection = None  # nobody knows in which state it is
            _on_their_thread(jobs, _tell)
        if connection is not None:
            connection.close()

    def _next(self) -> list[_Job]:
        """Wait for a job, and take others that wait too; there are none at the end."""
        jobs: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == MOST_TOGETHER:
                return jobs
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return jobs
        if jobs:
            self._jobs.put(None)
        return jobs


def _settled(begin: Begin, jobs: list[_Job]) -> bool:
    """Give every job its outcome; say whether all went as it should."""
    try:
        if len(jobs) == 1 or not _run_together(begin, jobs):
            for job in jobs:
                _run_alone(begin, job)
    except BaseException as failure:  # noqa: BLE001 - whatever it is, those who come next are not to suffer
        for job in jobs:
            job.failure = RuntimeError(f"the writer failed: {failure!r}")
        return False
    return True


def _run_together(begin: Begin, jobs: list[_Job]) -> bool:
    """Run all in one transaction; say whether that settled them, one way or the other."""
    try:
        run(begin, lambda connection: _each_in_a_savepoint(connection, jobs))
    except DatabaseUnavailable as failure:  # nobody can write now
        for job in jobs:
            job.failure = DatabaseUnavailable(failure.detail, retry_after=failure.retry_after)
    except (DBAPIError, sqlite3.Error):
        return False
    return True


def _each_in_a_savepoint(connection: Connection, jobs: list[_Job]) -> None:
    driver: Any = connection.connection.driver_connection
    for job in jobs:
        driver.execute("SAVEPOINT job")
        try:
            job(connection)
        except DBAPIError:
            raise
        except Exception as failure:  # noqa: BLE001 - it is for the one who asked for the transaction
            job.failure = failure
            driver.execute("ROLLBACK TO job")
        driver.execute("RELEASE job")


def _run_alone(begin: Begin, job: _Job) -> None:
    job.failure = None
    try:
        run(begin, job)
    except Exception as failure:  # noqa: BLE001 - it is for the one who asked for the transaction
        job.failure = failure


def _on_their_thread(jobs: list[_Job], call: Callable[[list[_Job]], None]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, of_loop in by_loop.items():
        try:
            loop.call_soon_threadsafe(call, of_loop)
        except RuntimeError:  # the loop is closed: nobody waits
            continue


def _tell(jobs: list[_Job]) -> None:
    for job in jobs:
        job.tell()


def _cancel(jobs: list[_Job]) -> None:
    for job in jobs:
        job.future.cancel()
