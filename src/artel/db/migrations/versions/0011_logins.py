"""Add logins, and one-time codes that sign a browser in."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, MOMENT

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "logins",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("user_id", ID, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("last_used_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("revoked_at", MOMENT),
    )
    op.create_index(None, "logins", ["user_id", "last_used_at"])
    op.create_table(
        "login_codes",
        sa.Column("code_hash", sa.String(64), primary_key=True),
        sa.Column("user_id", ID, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("login_expires_at", MOMENT, nullable=False),
    )
    op.create_index(None, "login_codes", ["expires_at"])
