"""Add the name of the computer on which a connector runs."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("connectors", sa.Column("machine", sa.String(200)))
