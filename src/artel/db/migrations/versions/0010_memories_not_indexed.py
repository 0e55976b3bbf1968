"""Add an index on memories that are not in the vector index yet, which every search reads."""

from alembic import op
from sqlalchemy import text

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    where = text("indexed_at IS NULL")
    op.create_index(
        "ix_memories_of_agent_not_indexed",
        "memories",
        ["agent_id", "id"],
        sqlite_where=where,
        postgresql_where=where,
    )
