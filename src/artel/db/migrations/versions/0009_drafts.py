"""Add drafts of streamed answers, so that a crash loses only their latest part."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    id_type = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "drafts",
        sa.Column("turn_id", sa.String(36), nullable=False),
        sa.Column("user_id", id_type, nullable=False),
        sa.Column("project_id", id_type, nullable=False),
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name="pk_drafts"),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "session_id"],
            ["sessions.user_id", "sessions.project_id", "sessions.id"],
            name="fk_drafts_user_id_project_id_session_id_sessions",
            ondelete="CASCADE",
        ),
        sa.Index("ix_drafts_session_id", "session_id"),
    )
