"""Add the login from which a login or one-time code was created."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("logins", sa.Column("parent_id", sa.String(36)))
    op.add_column("login_codes", sa.Column("login_id", sa.String(36)))
