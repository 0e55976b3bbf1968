"""Differences between SQLite and PostgreSQL."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Float, Integer, Table, cast, extract, func

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert


def insert_into(connection: Connection, table: Table) -> "Insert":
    """Return an INSERT that supports ON CONFLICT, which both dialects write alike."""
    # Imported here: a server starts faster without the dialect that it does not use.
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)  # type: ignore[return-value]
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


def seconds_of(connection: Connection, moment: ColumnElement[Any]) -> ColumnElement[float]:
    """Return a moment as seconds since 1970, with fractions down to a tenth of a millisecond."""
    if connection.dialect.name == "sqlite":
        return (func.julianday(moment, type_=Float) - 2440587.5) * 86400.0
    return cast(extract("epoch", moment), Float)


def bucket_of(connection: Connection, moment: ColumnElement[Any], since: datetime, seconds: int) -> ColumnElement[int]:
    """Return the number of the interval of so many seconds since `since` that a later moment is in, from 0."""
    intervals = (seconds_of(connection, moment) - since.timestamp()) / float(seconds)
    # SQLite has `floor` only if it was compiled so, and a cast cuts; a cast of PostgreSQL rounds.
    is_sqlite = connection.dialect.name == "sqlite"
    return cast(intervals if is_sqlite else func.floor(intervals, type_=Float), Integer)
