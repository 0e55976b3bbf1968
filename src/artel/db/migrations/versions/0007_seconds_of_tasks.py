"""Add the working time of tasks, without waiting for a person."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("seconds", sa.Float))
