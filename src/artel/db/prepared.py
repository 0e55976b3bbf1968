"""Statements that are compiled once and executed by the driver directly.

SQLAlchemy still writes the SQL and converts the values. Only its execution layer is skipped, which takes ten times as
long as SQLite takes for the statement: a turn has some fifteen of them. With PostgreSQL they are queued and sent
together (`db/pipeline.py`).
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Boolean, Connection, Dialect, Insert, SelectBase
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql.dml import UpdateBase

from artel.db.driver_errors import raise_driver_error
from artel.db.rows import Rows

if TYPE_CHECKING:
    from artel.db.pipeline import Pipeline

BOOLEAN = 16  # PostgreSQL's number of the type
PIPELINE = "pipeline"  # in the `info` of a PostgreSQL connection


class Statement:
    """A statement and its compiled form for each dialect."""

    def __init__(self, statement: SelectBase | UpdateBase, columns: Sequence[str] | None = None) -> None:
        """Store a statement; an insert needs the names of the rows' columns."""
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        """Run the statement and return its result."""
        pipeline = connection.info.get(PIPELINE)
        if pipeline is not None:
            return self._queue(pipeline, connection, parameters)
        compiled = self._for(connection.dialect)
        with _Cursor(connection, compiled.sql) as cursor:
            cursor.execute(compiled.sql, compiled.bound(parameters))
            return compiled.fetch(cursor)

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement once for every row."""
        pipeline = connection.info.get(PIPELINE)
        if pipeline is not None:
            for row in rows:
                self._queue(pipeline, connection, row)
            return
        compiled = self._for(connection.dialect)
        with _Cursor(connection, compiled.sql) as cursor:
            if len(rows) == 1:
                cursor.execute(compiled.sql, compiled.bound(rows[0]))
            else:
                cursor.executemany(compiled.sql, [compiled.bound(row) for row in rows])

    def _queue(self, pipeline: "Pipeline", connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        compiled = self._for(pipeline.dialect)
        convert = compiled.converted if compiled.has_rows else None
        return pipeline.add(connection, compiled.encoded, compiled.types, compiled.bound(parameters), convert)

    def _for(self, dialect: Dialect) -> "_Compiled":
        compiled = self._compiled.get(dialect.paramstyle)
        if compiled is None:
            compiled = self._compiled[dialect.paramstyle] = _Compiled(self._statement, dialect, self._columns)
        return compiled


def check_after_send(connection: Connection, check: Callable[[], object]) -> None:
    """Call a function, which may raise, as soon as what is queued now was sent: before any other result is used."""
    pipeline: Pipeline | None = connection.info.get(PIPELINE)
    if pipeline is None:
        check()
    else:
        pipeline.check_after_send(check)


def require_connected(connection: Connection) -> None:
    """Raise if the connection is lost and nothing was sent on it yet: then the transaction can run again."""
    pipeline: Pipeline | None = connection.info.get(PIPELINE)
    if pipeline is not None:
        pipeline.begin(connection)


class _Compiled:
    """The SQL of a statement in one dialect and the conversions of its values."""

    def __init__(
        self, statement: SelectBase | UpdateBase, dialect: Dialect, columns: Sequence[str] | None = None
    ) -> None:
        compiled: Any = statement.compile(dialect=dialect, column_keys=columns)
        self.sql: str = compiled.string
        self.encoded = self.sql.encode()
        if compiled.insert_prefetch or compiled.update_prefetch or "[POSTCOMPILE" in self.sql:
            raise ValueError(f"can't be prepared because its SQL depends on the values: {self.sql}")
        self._defaults: dict[str, Any] = compiled.params
        self._positional = compiled.positional
        types = {name: bind.type for bind, name in compiled.bind_names.items()}
        self._required = frozenset(name for bind, name in compiled.bind_names.items() if bind.required)
        names = compiled.positiontup if compiled.positional else types
        self._binds = [(name, types[name].dialect_impl(dialect).bind_processor(dialect)) for name in names]
        # SQLAlchemy casts parameters of other types, as in $1::BIGINT; PostgreSQL would take a selected $1 for a text.
        self.types = [BOOLEAN if isinstance(types[name], Boolean) else 0 for name in names]
        self._dialect = dialect
        self._result_columns = [] if isinstance(statement, Insert) else list(statement.exported_columns)
        make_row: Any = namedtuple  # noqa: PYI024 - the names are not known before
        self._row = make_row("Row", [column.key or "" for column in self._result_columns], rename=True)._make
        self._results: list[tuple[int, Callable[[Any], Any]]] | None = None

    def bound(self, parameters: Mapping[str, Any]) -> Any:
        """Return the parameters converted for the driver; raise ValueError if any is missing or unknown."""
        if parameters.keys() != self._required:
            wrong = sorted(parameters.keys() ^ self._required)
            raise ValueError(f"missing or unknown parameters: {', '.join(wrong)}")
        values = {**self._defaults, **parameters}
        if self._positional:
            return [convert(values[name]) if convert else values[name] for name, convert in self._binds]
        return {name: convert(values[name]) if convert else values[name] for name, convert in self._binds}

    @property
    def has_rows(self) -> bool:
        """Whether the statement returns rows."""
        return bool(self._result_columns)

    def fetch(self, cursor: DBAPICursor) -> Rows:
        """Return the converted rows of a cursor."""
        if not self._result_columns:
            return Rows([], cursor.rowcount)
        codes = [described[1] for described in cursor.description or ()]
        return Rows(self.converted(cursor.fetchall(), codes), cursor.rowcount)

    def converted(self, fetched: Sequence[Any], codes: Sequence[Any]) -> list[Any]:
        """Return the driver's rows as they are used here; `codes` are the driver's types of the columns."""
        if self._results is None:  # the conversions depend on the driver's type codes, which the first query has
            columns = zip(self._result_columns, codes, strict=True)
            impls = [(column.type.dialect_impl(self._dialect), code) for column, code in columns]
            every = [impl.result_processor(self._dialect, code) for impl, code in impls]
            self._results = [(index, convert) for index, convert in enumerate(every) if convert]
        if self._results:
            fetched = [list(values) for values in fetched]
            for values in fetched:
                for index, convert in self._results:
                    values[index] = convert(values[index])
        return [self._row(values) for values in fetched]


class _Cursor:
    """A cursor whose driver errors are raised as SQLAlchemy's errors."""

    __slots__ = ("_connection", "_cursor", "_sql")

    def __init__(self, connection: Connection, sql: str) -> None:
        self._connection = connection
        self._sql = sql

    def __enter__(self) -> DBAPICursor:
        self._cursor = self._connection.connection.cursor()
        return self._cursor

    def __exit__(self, kind: type[BaseException] | None, failure: BaseException | None, _trace: object) -> None:
        self._cursor.close()
        if isinstance(failure, self._connection.dialect.loaded_dbapi.Error):
            raise_driver_error(self._connection, self._sql, failure)
