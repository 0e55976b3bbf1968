"""Add the audit log of the server."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, MOMENT

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", ID, primary_key=True),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("is_routine", sa.Boolean, nullable=False),
        sa.Column("actor_id", ID),
        sa.Column("actor", sa.String(20), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("target", sa.String(255), nullable=False),
        sa.Column("target_user_id", ID),
        sa.Column("detail", sa.String(500), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(None, "audit_log", ["is_routine", "id"])
    op.create_index(None, "audit_log", ["action", "id"])
