"""What tables are made of: types of columns, the columns that tie a row to its user, partial indexes."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    TypeDecorator,
    text,
)
from sqlalchemy.schema import SchemaItem

# SQLite autoincrements only columns of the type INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")


class Moment(TypeDecorator[datetime]):
    """A datetime that is always in UTC with its zone, which SQLite doesn't store."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def project_foreign_key() -> ForeignKeyConstraint:
    """Return the composite foreign key to the project of the same user."""
    return ForeignKeyConstraint(["user_id", "project_id"], ["projects.user_id", "projects.id"], ondelete="CASCADE")


def of_project(*, primary_key: bool = False) -> tuple[SchemaItem, ...]:
    """Return the columns user_id and project_id, tied to the project."""
    key: dict[str, Any] = {"primary_key": True, "autoincrement": False} if primary_key else {"nullable": False}
    return Column("user_id", Id, **key), Column("project_id", Id, **key), project_foreign_key()


def of_session(*, primary_key: bool = False) -> tuple[SchemaItem, ...]:
    """Return the columns user_id, project_id and session_id, tied to the session."""
    user_id, project_id, _ = of_project(primary_key=primary_key)
    session_id = Column("session_id", String(36), nullable=False, primary_key=primary_key)
    own = ["user_id", "project_id", "session_id"]
    session = ["sessions.user_id", "sessions.project_id", "sessions.id"]
    return user_id, project_id, session_id, ForeignKeyConstraint(own, session, ondelete="CASCADE")


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Return an index of the rows that match a condition."""
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))
