"""What the migrations share: types, keys and partial indexes. It describes the past, so it never changes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import SchemaItem

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def project_key() -> sa.ForeignKeyConstraint:
    """Return the foreign key to the project of the same user."""
    return sa.ForeignKeyConstraint(["user_id", "project_id"], ["projects.user_id", "projects.id"], ondelete="CASCADE")


def session_key() -> sa.ForeignKeyConstraint:
    """Return the foreign key to the session of the same user and project."""
    session = ["sessions.user_id", "sessions.project_id", "sessions.id"]
    return sa.ForeignKeyConstraint(["user_id", "project_id", "session_id"], session, ondelete="CASCADE")


def of_project() -> tuple[SchemaItem, ...]:
    """Return the columns user_id and project_id and their foreign key."""
    return sa.Column("user_id", ID, nullable=False), sa.Column("project_id", ID, nullable=False), project_key()


def of_session() -> tuple[SchemaItem, ...]:
    """Return the columns user_id, project_id and session_id and their foreign key."""
    user_id, project_id, _ = of_project()
    return user_id, project_id, sa.Column("session_id", sa.String(36), nullable=False), session_key()


def create_partial_index(name: str, table: str, *columns: str, where: str, unique: bool = False) -> None:
    """Create an index on the rows that meet a condition."""
    condition = sa.text(where)
    op.create_index(name, table, list(columns), unique=unique, sqlite_where=condition, postgresql_where=condition)
