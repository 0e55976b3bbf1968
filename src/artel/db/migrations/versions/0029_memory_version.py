"""Add the version of an agent's memory, by which processes with a copy of it notice changes."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.add_column("agents", sa.Column("memory_version", sa.BigInteger(), nullable=False, server_default="0"))
