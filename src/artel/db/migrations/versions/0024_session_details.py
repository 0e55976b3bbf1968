"""Add what the list of sessions shows, and which message an answer goes on from."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, create_partial_index

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    for column in (
        sa.Column("title_source", sa.String(10), nullable=False, server_default="auto"),
        sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("archived", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("recipient_id", ID),
        sa.Column("failed", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("cost_micros", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("price_unknown", sa.Boolean, nullable=False, server_default=sa.false()),
    ):
        op.add_column("sessions", column)
    op.create_index(None, "sessions", ["user_id", "archived", "updated_at"])
    op.drop_index("ix_sessions_user_id_updated_at", "sessions")
    op.add_column("messages", sa.Column("continues", sa.String(36)))
    op.add_column("turns", sa.Column("continues", sa.String(36)))
    changes = "status = 'done' AND tool IN ('tool_write_file', 'tool_edit_file', 'tool_delete_file')"
    create_partial_index("ix_tool_calls_changes", "tool_calls", "session_id", where=changes)
    # What the sessions have cost so far.
    op.execute(
        "UPDATE sessions SET cost_micros = used.micros, price_unknown = used.unpriced > 0 FROM"
        " (SELECT user_id, session_id, coalesce(sum(cost_micros), 0) AS micros,"
        " sum(CASE WHEN cost_micros IS NULL THEN 1 ELSE 0 END) AS unpriced FROM usage GROUP BY user_id, session_id)"
        " AS used WHERE used.user_id = sessions.user_id AND used.session_id = sessions.id"
    )
