"""Add the loop settings of agents; NULL means the defaults."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("agents", sa.Column("loop", sa.JSON(none_as_null=True)))
