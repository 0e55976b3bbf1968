"""Differences between SQLite and PostgreSQL."""

from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table

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
