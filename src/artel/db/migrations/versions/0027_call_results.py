"""Add what is shown of the results of tool calls."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("tool_call_contents", sa.Column("result", sa.JSON(none_as_null=True)))
