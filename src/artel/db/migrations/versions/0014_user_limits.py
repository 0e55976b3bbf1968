"""Add limits per user for spending and storage."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("users", sa.Column("monthly_micros", sa.BigInteger))
    op.add_column("users", sa.Column("storage_bytes", sa.BigInteger))
    op.add_column("reservations", sa.Column("user_month", sa.String(7)))
    op.create_table(
        "user_budgets",
        sa.Column("user_id", ID, sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("scope", sa.String(7), primary_key=True),
        sa.Column("spent_micros", sa.BigInteger, nullable=False),
    )
