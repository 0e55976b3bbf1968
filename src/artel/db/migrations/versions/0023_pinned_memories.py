"""Add pinned and edited memories, and an index that SQLite uses for those that are not in the vector index."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import MOMENT, create_partial_index

revision = "0023"
down_revision = "0022"

OF_AGENT = "user_id", "project_id", "agent_id", "id"


def upgrade() -> None:
    op.add_column("memories", sa.Column("edited_at", MOMENT))
    op.add_column("memories", sa.Column("pinned_at", MOMENT))
    op.drop_index("ix_memories_of_agent_not_indexed", "memories")
    create_partial_index("ix_memories_of_agent_not_indexed", "memories", *OF_AGENT, where="indexed_at IS NULL")
    create_partial_index("ix_memories_of_agent_pinned", "memories", *OF_AGENT, where="pinned_at IS NOT NULL")
