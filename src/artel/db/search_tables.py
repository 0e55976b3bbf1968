"""The table that messages are searched by, and its index, which SQLite and PostgreSQL define differently.

The index finds messages that may contain a text; `artel/sessions/message_index.py` uses it. A row is deleted with its
message, and the database keeps the index in step with the rows.
"""

from sqlalchemy import (
    ARRAY,
    DDL,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    column,
    event,
    literal_column,
    table,
)

from artel.db.columns import Id
from artel.db.tables import metadata

GRAMS = ARRAY(Integer)

# `key` grows with each message. In SQLite it begins with the user, so that a range of keys has one user's messages;
# in PostgreSQL every BUCKET_BITS bits of keys are a bucket. Messages that are indexed later get keys below the others.
message_search = Table(
    "message_search",
    metadata,
    Column("key", Id, primary_key=True),
    Column("user_id", Id, nullable=False),
    Column("message_id", String(36), ForeignKey("messages.id", ondelete="CASCADE"), nullable=False),
    Column("grams", GRAMS.with_variant(Text(), "sqlite"), nullable=False),  # SQLite: the text that its index splits
    UniqueConstraint("message_id"),
    Index(None, "user_id", "key"),
)

# SQLite's full-text index. Without positions and sizes, which substrings don't need, it is a third as large.
_SQLITE = (
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
message_grams = table("message_grams", column("rowid", Integer), column("message_grams", Text))

BUCKET_BITS = 14
# A literal text: only a query that says the same uses the index.
_WITH_BUCKET = f"array_append(grams, (-2 * (key >> {BUCKET_BITS}) - 1)::integer)"
GRAMS_AND_BUCKET = literal_column(_WITH_BUCKET, GRAMS)
_POSTGRES = (
    f"CREATE INDEX message_grams ON message_search USING gin ({_WITH_BUCKET})",
    "ALTER SEQUENCE message_search_key_seq RESTART WITH 1099511627776",
)

for dialect, statements in (("sqlite", _SQLITE), ("postgresql", _POSTGRES)):
    for statement in statements:
        event.listen(message_search, "after_create", DDL(statement).execute_if(dialect=dialect))  # type: ignore[no-untyped-call]
