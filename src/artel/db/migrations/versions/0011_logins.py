"""Add logins, and one-time codes that sign a browser in."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "logins",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("last_used_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("revoked_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_logins"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_logins_user_id_users"),
    )
    op.create_index("ix_logins_user_id_last_used_at", "logins", ["user_id", "last_used_at"], unique=False)
    op.create_table(
        "login_codes",
        sa.Column("code_hash", sa.String(64), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("login_expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("code_hash", name="pk_login_codes"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_login_codes_user_id_users"),
    )
    op.create_index("ix_login_codes_expires_at", "login_codes", ["expires_at"], unique=False)
