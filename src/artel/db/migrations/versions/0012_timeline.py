"""Add indexes on tool calls and approvals by session."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_index(None, "tool_calls", ["session_id", "created_at"])
    op.create_index(None, "approvals", ["session_id"])
