"""Add what the orchestrator does with the messages of a session."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("plan_mode", sa.String(10), nullable=False, server_default="auto"))
