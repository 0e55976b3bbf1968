"""Add an index on memories that are not in the vector index yet, which every search reads."""

from artel.db.migrations.schema_items import create_partial_index

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    create_partial_index("ix_memories_of_agent_not_indexed", "memories", "agent_id", "id", where="indexed_at IS NULL")
