"""The little in which SQLite and PostgreSQL differ for us."""

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_into(connection: Connection, table: Table) -> postgresql.Insert:
    """Answer an INSERT that knows ON CONFLICT; both dialects spell it alike."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)  # type: ignore[return-value]
    return postgresql.insert(table)
