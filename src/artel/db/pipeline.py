"""Pipelines of PostgreSQL: the statements of a transaction share round trips.

Prepared statements wait in a queue until one of their results is read, until SQLAlchemy runs another statement, or
until the commit, which is sent with them. So a transaction takes one round trip each time that it needs an answer, and
one at its end. An error is raised where the queue is sent.

This talks to libpq by psycopg's wrapper, because psycopg's cursors take six times as long as libpq for a statement.
"""

import itertools
import select
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InFailedSqlTransaction, error_from_result
from sqlalchemy import Connection, Dialect, Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from artel.db.driver_errors import raise_driver_error
from artel.db.prepared import PIPELINE
from artel.db.rows import Rows

MAX_PREPARED = 300  # statements per connection; those beyond are parsed each time
BATCH_BYTES = 1 << 20  # of values in the queue; more are sent at once, so that they are not all in memory twice
DIALECT: Dialect = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]  # what libpq understands
# The server has dropped a prepared statement, or its tables were changed: the transaction can run again.
NOT_PREPARED = "26000"
CACHED_PLAN = "0A000"

_OK = frozenset({pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK})
_IDLE, _IN_ERROR, _BAD = pq.TransactionStatus.IDLE, pq.TransactionStatus.INERROR, pq.ConnStatus.BAD
_LOST = "the connection to the database was lost"
_ABORTED = "not executed, because a statement of the transaction failed before"

# Returns the converted rows of a result, from its rows and the types of its columns.
Convert = Callable[[list[Any], Sequence[int]], list[Any]]


class QueuedRows(Rows):
    """The result of a queued statement; reading it sends the queue."""

    __slots__ = ("connection", "convert", "failure", "sql", "types", "values")

    def __init__(
        self,
        connection: Connection,
        sql: bytes,
        types: Sequence[int],
        values: Sequence[Any] | None,
        convert: Convert | None,
    ) -> None:
        super().__init__([], -1)
        self.connection: Connection | None = connection
        self.sql, self.types, self.values, self.convert = sql, types, values, convert
        self.failure: Exception | None = None  # of the conversion of its rows; raised to those who read them

    def all(self) -> list[Any]:
        self._send()
        if self.failure is not None:
            raise self.failure
        return self._rows

    @property
    def rowcount(self) -> int:
        self._send()
        return self._rowcount

    def take(self, rows: list[Any], rowcount: int) -> None:
        """Store the result."""
        self._rows, self._rowcount, self.connection = rows, rowcount, None

    def _send(self) -> None:
        if self.connection is not None:
            pipeline_of(self.connection).send(self.connection)
        if self.connection is not None:  # it was dropped with a statement that failed before
            raise_driver_error(self.connection, self.sql.decode(), InFailedSqlTransaction(_ABORTED))


# A statement and who receives its result: its rows, nobody, or the statements, under the name that it was prepared as.
Expected = tuple[bytes, QueuedRows | bytes | None]


class Pipeline:
    """The queue of one connection, and the statements that the server has prepared for it."""

    dialect = DIALECT

    def __init__(self, driver: "psycopg.Connection[Any]") -> None:
        self._driver, self._pg = driver, driver.pgconn
        self._queue: list[QueuedRows] = []
        self._bytes = 0
        self._checks: list[Callable[[], object]] = []
        self._names: dict[bytes, bytes] = {}
        self._numbers = itertools.count()
        self._transformer = Transformer(driver)
        self._socket = select.poll()
        self._socket.register(self._pg.socket, select.POLLIN)

    def add(
        self,
        connection: Connection,
        sql: bytes,
        types: Sequence[int],
        values: Sequence[Any],
        convert: Convert | None,
    ) -> QueuedRows:
        """Queue a statement and return its result, which is read later; type 0 lets the server infer it."""
        try:
            dumped = self._transformer.dump_sequence(values, [PyFormat.TEXT] * len(values)) if values else None
        except psycopg.Error as failure:
            raise_driver_error(connection, sql.decode(), failure)
        queued = QueuedRows(connection, sql, types, dumped, convert)
        self._queue.append(queued)
        self._bytes += sum(len(value) for value in dumped or () if value is not None)
        if self._bytes > BATCH_BYTES:
            self.send(connection)
        return queued

    def check_after_send(self, check: Callable[[], object]) -> None:
        """Call a function after the next time that the queue is sent."""
        self._checks.append(check)

    def send(self, connection: Connection) -> None:
        """Send the queue, after BEGIN if no transaction has begun, and store the results."""
        checks, self._checks = self._checks, []
        if self._queue:
            self._exchange(connection, commits=False)
        for check in checks:
            check()

    def begin(self, connection: Connection) -> None:
        """Send the queue if nothing was sent before, to find out before the commit whether the connection is alive."""
        if self._pg.transaction_status == _IDLE:
            self.send(connection)

    def commit(self, connection: Connection) -> None:
        """Send the queue with COMMIT; if it fails, the transaction is rolled back."""
        if self._pg.transaction_status == _IN_ERROR:  # COMMIT would roll back and succeed
            self.roll_back()
            raise_driver_error(connection, "COMMIT", InFailedSqlTransaction(_ABORTED))
        if self._checks:
            self.send(connection)
        if self._pg.transaction_status == _IDLE and not self._queue:
            return  # nothing was executed
        try:
            self._exchange(connection, commits=True)
        except BaseException:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        """Drop the queue and roll back; psycopg would also drop all prepared statements."""
        self._queue, self._bytes, self._checks = [], 0, []
        if self._pg.status != _BAD and self._pg.transaction_status != _IDLE:
            self._pg.exec_(b"ROLLBACK")

    def _exchange(self, connection: Connection, *, commits: bool) -> None:
        queue, self._queue, self._bytes = self._queue, [], 0
        try:
            failed, failure = self._receive(self._send(queue, commits=commits))
        except BaseException as lost:  # its state is unknown
            self._driver.close()
            if not isinstance(lost, psycopg.Error):
                raise
            failed, failure = b"", lost
        if failure is not None:
            if failure.sqlstate in (NOT_PREPARED, CACHED_PLAN):
                self._names.clear()
            raise_driver_error(connection, failed.decode(), failure)

    def _send(self, queue: Sequence[QueuedRows], *, commits: bool) -> list[Expected]:
        """Send statements in pipeline mode; return what the server answers: for each a statement and its receiver."""
        expected: list[Expected] = []
        names = self._names.copy()  # and those given now: a statement may be in the queue for many rows
        begins = self._pg.transaction_status == _IDLE and not self._driver.autocommit
        self._pg.enter_pipeline_mode()
        if begins:
            self._send_one(_begin(self._driver), None, names, expected)
        for statement in queue:
            self._send_one(statement.sql, statement, names, expected)
        if commits:
            self._send_one(b"COMMIT", None, names, expected)
        self._pg.pipeline_sync()
        self._flush()
        return expected

    def _send_one(
        self, sql: bytes, statement: QueuedRows | None, names: dict[bytes, bytes], expected: list[Expected]
    ) -> None:
        types, values = (statement.types, statement.values) if statement else (None, None)
        name = names.get(sql)
        if name is not None:
            self._pg.send_query_prepared(name, values)
        elif len(names) < MAX_PREPARED:
            name = names[sql] = b"artel_%d" % next(self._numbers)
            self._pg.send_prepare(name, sql, types)
            expected.append((sql, name))
            self._pg.send_query_prepared(name, values)
        else:
            self._pg.send_query_params(sql, values, types)
        expected.append((sql, statement))

    def _receive(self, expected: Sequence[Expected]) -> tuple[bytes, psycopg.Error | None]:
        """Store the results and leave pipeline mode; return the statement that failed first, and why."""
        failed, failure = b"", None
        for sql, receiver in expected:
            result = self._result()
            if self._pg.get_result() is not None:
                raise psycopg.OperationalError("a statement has more than one result")
            if result.status not in _OK:
                if failure is None:
                    failed, failure = sql, error_from_result(result, self._driver.info.encoding)
            elif isinstance(receiver, QueuedRows):
                self._take(receiver, result)
            elif receiver is not None:
                self._names[sql] = receiver
        self._result()  # that of the sync
        self._pg.exit_pipeline_mode()
        return failed, failure

    def _flush(self) -> None:
        """Send all that libpq holds back; read meanwhile, because the server may wait for that."""
        while self._pg.flush():
            self._socket.modify(self._pg.socket, select.POLLIN | select.POLLOUT)
            [(_, events)] = self._socket.poll()
            self._socket.modify(self._pg.socket, select.POLLIN)
            if events & ~select.POLLOUT:
                self._pg.consume_input()

    def _result(self) -> "pq.abc.PGresult":
        while self._pg.is_busy():
            self._socket.poll()
            self._pg.consume_input()
        result = self._pg.get_result()
        if result is None or self._pg.status == _BAD:
            raise psycopg.OperationalError(_LOST)
        return result

    def _take(self, statement: QueuedRows, result: "pq.abc.PGresult") -> None:
        rows: list[Any] = []
        if statement.convert is not None:
            try:
                self._transformer.set_pgresult(result)
                rows = self._transformer.load_rows(0, result.ntuples, tuple)
                rows = statement.convert(rows, [result.ftype(index) for index in range(result.nfields)])
            except Exception as failure:  # noqa: BLE001 - the other results must be received, and COMMIT may be executed
                statement.failure = failure
        statement.take(rows, result.ntuples if statement.convert else result.command_tuples or 0)


def use_pipelines(engine: Engine) -> None:
    """Let the prepared statements of an engine's connections share round trips."""

    @event.listens_for(engine, "connect")
    def prepare(driver: Any, record: Any) -> None:
        driver.prepare_threshold = None  # psycopg drops all prepared statements, ours too, after a DROP or ROLLBACK
        record.info[PIPELINE] = Pipeline(driver)

    @event.listens_for(engine, "before_cursor_execute")
    def send(connection: Connection, *_: object) -> None:
        pipeline_of(connection).send(connection)

    @event.listens_for(engine, "commit")
    def commit(connection: Connection) -> None:
        pipeline_of(connection).commit(connection)

    @event.listens_for(engine, "rollback")
    def roll_back(connection: Connection) -> None:
        if not connection.invalidated:
            pipeline_of(connection).roll_back()


def pipeline_of(connection: Connection) -> Pipeline:
    """Return the pipeline of a connection."""
    pipeline: Pipeline = connection.info[PIPELINE]
    return pipeline


def _begin(driver: "psycopg.Connection[Any]") -> bytes:
    """Return the statement that begins a transaction of the connection's kind."""
    level, is_read_only = driver.isolation_level, driver.read_only
    words = ["BEGIN"]
    if level is not None:
        words.append(f"ISOLATION LEVEL {level.name.replace('_', ' ')}")
    if is_read_only is not None:
        words.append("READ ONLY" if is_read_only else "READ WRITE")
    return " ".join(words).encode()
