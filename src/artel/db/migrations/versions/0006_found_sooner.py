"""Add indexes for recent turns, running workflows and workflows of a session; delete budgets of deleted plans."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_index(
        "ix_turns_user_id_project_id_agent_id_finished_at",
        "turns",
        ["user_id", "project_id", "agent_id", "finished_at"],
        unique=False,
    )
    op.create_index(
        "ix_workflows_unfinished",
        "workflows",
        ["project_id"],
        unique=False,
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_index("ix_workflows_session_id", "workflows", ["session_id"], unique=False)
    op.execute("DELETE FROM budgets WHERE kind = 'plan' AND scope NOT IN (SELECT id FROM workflows)")
