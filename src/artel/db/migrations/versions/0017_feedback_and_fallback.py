"""Add the user's feedback on answers, and the fallback model of agents; NULL means none and the server's default."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("messages", sa.Column("feedback", sa.JSON(none_as_null=True)))
    op.add_column("agents", sa.Column("fallback", sa.JSON(none_as_null=True)))
