"""Add limits per user for spending and storage."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("users", sa.Column("monthly_micros", sa.BigInteger(), nullable=True))
    op.add_column("users", sa.Column("storage_bytes", sa.BigInteger(), nullable=True))
    op.add_column("reservations", sa.Column("user_month", sa.String(7), nullable=True))
    op.create_table(
        "user_budgets",
        sa.Column("user_id", ID, sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("scope", sa.String(7), primary_key=True),
        sa.Column("spent_micros", sa.BigInteger(), nullable=False),
    )
