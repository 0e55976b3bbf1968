"""The one thread that writes to a SQLite file, with group commit: queued transactions share a commit.

A commit takes as long as the statements before it. Each transaction still succeeds or fails by itself, in a savepoint.
After a database error all of them are rolled back and run again one by one, which is safe because transactions have no
effects outside the database. If the file can't be written at all (full disk, locked by another program), all fail.
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

from artel.db.retries import run
from artel.errors import DatabaseUnavailable

MAX_GROUP = 16

Transaction = Callable[[Connection], Any]
Begin = Callable[[], AbstractContextManager[Connection]]


@dataclass(slots=True)
class _Job:
    """A transaction and its outcome."""

    transaction: Transaction
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    failure: Exception | None = None

    def __call__(self, connection: Connection) -> None:
        self.result = self.context.run(self.transaction, connection)

    def resolve(self) -> None:
        """Pass the outcome to the future."""
        if self.future.done():
            return
        if self.failure is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.failure)


class SqliteWriter:
    """Runs transactions in order of submission."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = False

    def submit(self, transaction: Transaction) -> asyncio.Future[Any]:
        """Queue a transaction and return a future of its result."""
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
        """Wait for running transactions and cancel queued ones."""
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
                _call_in_loops(jobs, _cancel)
                continue
            if not _run_jobs(begin, jobs):
                connection = None  # its state is unknown
            _call_in_loops(jobs, _resolve)
        if connection is not None:
            connection.close()

    def _next(self) -> list[_Job]:
        """Wait for a job and return it with others in the queue; return no jobs when the writer is closed."""
        jobs: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == MAX_GROUP:
                return jobs
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return jobs
        if jobs:
            self._jobs.put(None)
        return jobs


def _run_jobs(begin: Begin, jobs: list[_Job]) -> bool:
    """Set the outcome of every job; return False if the connection can't be used any more."""
    try:
        if len(jobs) == 1 or not _run_together(begin, jobs):
            for job in jobs:
                job.failure = None
                try:
                    run(begin, job)
                except Exception as failure:  # noqa: BLE001 - raised in the caller of submit()
                    job.failure = failure
    except BaseException as failure:  # noqa: BLE001 - the thread must survive for later jobs
        for job in jobs:
            job.failure = RuntimeError(f"the writer failed: {failure!r}")
        return False
    return True


def _run_together(begin: Begin, jobs: list[_Job]) -> bool:
    """Run all jobs in one transaction; return False if they must run again one by one."""
    try:
        run(begin, lambda connection: _each_in_a_savepoint(connection, jobs))
    except DatabaseUnavailable as failure:
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
        except Exception as failure:  # noqa: BLE001 - raised in the caller of submit()
            job.failure = failure
            driver.execute("ROLLBACK TO job")
        driver.execute("RELEASE job")


def _call_in_loops(jobs: list[_Job], call: Callable[[list[_Job]], None]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, of_loop in by_loop.items():
        try:
            loop.call_soon_threadsafe(call, of_loop)
        except RuntimeError:  # the loop is closed
            continue


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        job.resolve()


def _cancel(jobs: list[_Job]) -> None:
    for job in jobs:
        job.future.cancel()
