"""Add the retried turn, and why an answer was cut off."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("turns", sa.Column("retry_of", sa.String(36)))
    op.add_column("messages", sa.Column("retry_of", sa.String(36)))
    op.add_column("messages", sa.Column("error_code", sa.String(64)))
