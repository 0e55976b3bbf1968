"""Add the task of a plan that a tool was called for."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.add_column("tool_calls", sa.Column("workflow_id", sa.String(36)))
    op.add_column("tool_calls", sa.Column("task_id", sa.String(64)))
