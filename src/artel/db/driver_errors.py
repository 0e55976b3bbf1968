"""Errors of the database driver, raised as SQLAlchemy's."""

from typing import Any, NoReturn

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


def raise_driver_error(connection: Connection, sql: str, failure: Exception) -> NoReturn:
    """Raise SQLAlchemy's error for one of the driver; a lost connection is invalidated."""
    dialect: Any = connection.dialect
    if dialect.is_disconnect(failure, connection.connection.dbapi_connection, None):
        connection.exec_driver_sql("SELECT 1")  # fails too, so that SQLAlchemy invalidates the connection
    error = dialect.loaded_dbapi.Error
    raise DBAPIError.instance(sql, None, failure, error, hide_parameters=True, dialect=dialect) from failure
