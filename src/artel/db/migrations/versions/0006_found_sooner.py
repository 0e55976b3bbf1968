"""Add indexes for recent turns, running workflows and workflows of a session; delete budgets of deleted plans."""

from alembic import op

from artel.db.migrations.schema_items import create_partial_index

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_index(None, "turns", ["user_id", "project_id", "agent_id", "finished_at"])
    create_partial_index("ix_workflows_unfinished", "workflows", "project_id", where="finished_at IS NULL")
    op.create_index(None, "workflows", ["session_id"])
    op.execute("DELETE FROM budgets WHERE kind = 'plan' AND scope NOT IN (SELECT id FROM workflows)")
