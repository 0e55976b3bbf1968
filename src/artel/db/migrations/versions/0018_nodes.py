"""Add nodes, and the commands that hosts send to them."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import MOMENT, create_partial_index, of_project

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("uid", sa.String(100), nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("node_type", sa.String(63), nullable=False),
        sa.Column("protocol", sa.String(10), nullable=False),
        sa.Column("passport", sa.JSON, nullable=False),
        sa.Column("status", sa.JSON, nullable=False),
        sa.Column("registered_at", MOMENT, nullable=False),
        sa.Column("heartbeat_at", MOMENT, nullable=False),
        sa.Column("deregistered_at", MOMENT),
        sa.Column("chosen_at", MOMENT),
    )
    op.create_table(
        "node_commands",
        sa.Column("id", sa.String(100), primary_key=True),
        *of_project(),
        sa.Column("turn_id", sa.String(36), sa.ForeignKey("turns.id", ondelete="CASCADE"), nullable=False),
        sa.Column("task_id", sa.String(128), nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("node_name", sa.String(255), nullable=False),
        sa.Column("node_uid", sa.String(100), nullable=False),
        sa.Column("node_epoch", sa.Integer, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("problem", sa.String(10)),
        sa.Column("command", sa.JSON, nullable=False),
        sa.Column("answer", sa.JSON(none_as_null=True)),
        sa.Column("progress_at", MOMENT),
        sa.Column("phase", sa.String(40)),
        sa.Column("elapsed", sa.Float),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.UniqueConstraint("user_id", "task_id", "step", "attempt"),
    )
    op.create_index(None, "node_commands", ["turn_id"])
    op.create_index(None, "node_commands", ["updated_at"])
    create_partial_index("ix_node_commands_open", "node_commands", "node_name", where="status IN ('sending', 'sent')")
