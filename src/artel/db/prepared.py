"""Statements that are compiled once and executed by the driver directly.

SQLAlchemy still writes the SQL and converts the values. Only its execution layer is skipped, which takes ten times as
long as SQLite takes for the statement: a turn has some fifteen of them.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, SelectBase
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import UpdateBase


class Rows:
    """The result of a statement: its rows, or the number of changed rows."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> list[Any]:
        """Return every row."""
        return self._rows

    def one(self) -> Any:
        """Return the only row; raise ValueError if there is not exactly one."""
        [row] = self._rows
        return row

    def one_or_none(self) -> Any:
        """Return the only row, or None; raise ValueError if there are several."""
        return self.one() if self._rows else None

    def scalar_one_or_none(self) -> Any:
        """Return the first value of the only row, or None; raise ValueError if there are several."""
        return self.one()[0] if self._rows else None


class Statement:
    """A statement and its compiled form for each dialect."""

    def __init__(self, statement: SelectBase | UpdateBase, columns: Sequence[str] | None = None) -> None:
        """Store a statement; an insert needs the names of the rows' columns."""
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        """Run the statement and return its result."""
        compiled = self._for(connection.dialect)
        with _Cursor(connection, compiled.sql) as cursor:
            cursor.execute(compiled.sql, compiled.bound(parameters))
            return compiled.fetch(cursor)

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement once for every row."""
        compiled = self._for(connection.dialect)
        with _Cursor(connection, compiled.sql) as cursor:
            if len(rows) == 1:
                cursor.execute(compiled.sql, compiled.bound(rows[0]))
            else:
                cursor.executemany(compiled.sql, [compiled.bound(row) for row in rows])

    def _for(self, dialect: Dialect) -> "_Compiled":
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = _Compiled(self._statement, dialect, self._columns)
        return compiled


class _Compiled:
    """The SQL of a statement in one dialect and the conversions of its values."""

    def __init__(
        self, statement: SelectBase | UpdateBase, dialect: Dialect, columns: Sequence[str] | None = None
    ) -> None:
        compiled: Any = statement.compile(dialect=dialect, column_keys=columns)
        self.sql: str = compiled.string
        if compiled.insert_prefetch or compiled.update_prefetch or "[POSTCOMPILE" in self.sql:
            raise ValueError(f"can't be prepared because its SQL depends on the values: {self.sql}")
        self._defaults: dict[str, Any] = compiled.params
        self._positional = compiled.positional
        types = {name: bind.type for bind, name in compiled.bind_names.items()}
        self._required = frozenset(name for bind, name in compiled.bind_names.items() if bind.required)
        names = compiled.positiontup if compiled.positional else types
        self._binds = [(name, types[name].dialect_impl(dialect).bind_processor(dialect)) for name in names]
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

    def fetch(self, cursor: DBAPICursor) -> Rows:
        """Return the converted rows of a cursor."""
        if not self._result_columns:
            return Rows([], cursor.rowcount)
        if self._results is None:  # the conversions depend on the driver's type codes, which the first query has
            columns = zip(self._result_columns, cursor.description, strict=True)
            impls = [(column.type.dialect_impl(self._dialect), described[1]) for column, described in columns]
            every = [impl.result_processor(self._dialect, code) for impl, code in impls]
            self._results = [(index, convert) for index, convert in enumerate(every) if convert]
        fetched = cursor.fetchall()
        if self._results:
            fetched = [list(values) for values in fetched]
            for values in fetched:
                for index, convert in self._results:
                    values[index] = convert(values[index])
        return Rows([self._row(values) for values in fetched], cursor.rowcount)


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
        dialect = self._connection.dialect
        if failure is None or not isinstance(failure, dialect.loaded_dbapi.Error):
            return
        if dialect.is_disconnect(failure, self._connection.connection.dbapi_connection, None):
            self._connection.exec_driver_sql("SELECT 1")  # fails too, so that SQLAlchemy invalidates the connection
        error = dialect.loaded_dbapi.Error
        raise DBAPIError.instance(self._sql, None, failure, error, hide_parameters=True, dialect=dialect) from failure
