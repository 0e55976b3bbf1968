"""Add drafts of streamed answers, so that a crash loses only their latest part."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import of_session

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "drafts",
        sa.Column("turn_id", sa.String(36), primary_key=True),
        *of_session(),
        sa.Column("content", sa.Text, nullable=False),
        sa.Index(None, "session_id"),
    )
