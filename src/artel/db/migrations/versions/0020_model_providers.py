"""Add providers of models and settings, which administrators change while the server runs."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, MOMENT

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "model_providers",
        sa.Column("id", ID, primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("prefix", sa.String(63), nullable=False),
        sa.Column("base_url", sa.String(500)),
        sa.Column("encrypted_key", sa.Text),
        sa.Column("key_hint", sa.String(4)),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("tested_at", MOMENT),
        sa.Column("latency_ms", sa.Integer),
        sa.Column("models", sa.JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.UniqueConstraint("prefix"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "server_settings",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.JSON, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
    )
    op.add_column("installation", sa.Column("settings_version", sa.Integer, nullable=False, server_default="0"))
