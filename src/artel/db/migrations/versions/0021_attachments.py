"""Add attached files, and what messages show of them."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import MOMENT, create_partial_index, of_project, of_session

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("messages", sa.Column("attachments", sa.JSON(none_as_null=True)))
    op.create_table(
        "attachment_contents",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("user_id", "project_id", "id"),
    )
    op.create_table(
        "attachments",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_session(),
        sa.Column("content_id", sa.String(36), nullable=False),
        sa.Column("message_id", sa.String(36)),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("media_type", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("lines", sa.Integer),
        sa.Column("width", sa.Integer),
        sa.Column("height", sa.Integer),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "content_id"],
            ["attachment_contents.user_id", "attachment_contents.project_id", "attachment_contents.id"],
        ),
    )
    op.create_index(None, "attachments", ["session_id"])
    op.create_index(None, "attachments", ["content_id"])
    create_partial_index("ix_attachments_unsent", "attachments", "user_id", "created_at", where="message_id IS NULL")
