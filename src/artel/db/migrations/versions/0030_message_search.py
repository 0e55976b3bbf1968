"""Add the index that messages are searched by; the server adds the messages that exist while it runs."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, create_partial_index

revision = "0030"
down_revision = "0029"

GRAMS = sa.ARRAY(sa.Integer).with_variant(sa.Text(), "sqlite")
SQLITE = (
    """
    CREATE VIRTUAL TABLE message_grams USING fts5(
        grams, content='message_search', content_rowid='key',
        tokenize='trigram case_sensitive 1', detail=none, columnsize=0
    )
    """,
    """
    CREATE TRIGGER message_search_added AFTER INSERT ON message_search BEGIN
        INSERT INTO message_grams(rowid, grams) VALUES (new.key, new.grams);
    END
    """,
    """
    CREATE TRIGGER message_search_removed AFTER DELETE ON message_search BEGIN
        INSERT INTO message_grams(message_grams, rowid, grams) VALUES ('delete', old.key, old.grams);
    END
    """,
    """
    CREATE TRIGGER message_search_changed AFTER UPDATE OF grams ON message_search BEGIN
        INSERT INTO message_grams(message_grams, rowid, grams) VALUES ('delete', old.key, old.grams);
        INSERT INTO message_grams(rowid, grams) VALUES (new.key, new.grams);
    END
    """,
)
POSTGRES = (
    "CREATE INDEX message_grams ON message_search USING gin (array_append(grams, (-2 * (key >> 14) - 1)::integer))",
    "ALTER SEQUENCE message_search_key_seq RESTART WITH 1099511627776",
)


def upgrade() -> None:
    op.add_column("messages", sa.Column("searchable", sa.Boolean, nullable=False, server_default=sa.false()))
    create_partial_index("ix_messages_not_searchable", "messages", "user_id", "id", where="NOT searchable")
    op.create_table(
        "message_search",
        sa.Column("key", ID, primary_key=True),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("message_id", sa.String(36), sa.ForeignKey("messages.id", ondelete="CASCADE"), nullable=False),
        sa.Column("grams", GRAMS, nullable=False),
        sa.UniqueConstraint("message_id"),
    )
    op.create_index(None, "message_search", ["user_id", "key"])
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRES:
        op.execute(statement)
