"""Add indexes on tool calls and approvals by session."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_index("ix_tool_calls_session_id_created_at", "tool_calls", ["session_id", "created_at"])
    op.create_index("ix_approvals_session_id", "approvals", ["session_id"])
