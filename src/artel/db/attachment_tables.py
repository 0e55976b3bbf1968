"""The tables of attached files: what lists show of them, and apart from it their content."""

from sqlalchemy import Column, ForeignKeyConstraint, Index, Integer, LargeBinary, String, Table, UniqueConstraint

from artel.db.columns import Moment, of_project, of_session, partial_index
from artel.db.tables import metadata

# The content of attached files. Rows are never changed; a fork of a session refers to the same ones.
attachment_contents = Table(
    "attachment_contents",
    metadata,
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("size", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    UniqueConstraint("user_id", "project_id", "id"),
)

# Attached files of a session. `message_id` is NULL until the file is sent with a message, which has a copy of these
# columns, so that messages are read without this table.
attachments = Table(
    "attachments",
    metadata,
    Column("id", String(36), primary_key=True),
    *of_session(),
    Column("content_id", String(36), nullable=False),
    Column("message_id", String(36)),
    Column("name", String(255), nullable=False),
    Column("media_type", String(40), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("size", Integer, nullable=False),
    Column("lines", Integer),
    Column("width", Integer),
    Column("height", Integer),
    Column("created_at", Moment, nullable=False),
    ForeignKeyConstraint(
        ["user_id", "project_id", "content_id"],
        ["attachment_contents.user_id", "attachment_contents.project_id", "attachment_contents.id"],
    ),
    Index(None, "session_id"),
    Index(None, "content_id"),
    partial_index("ix_attachments_unsent", "user_id", "created_at", where="message_id IS NULL"),
)
