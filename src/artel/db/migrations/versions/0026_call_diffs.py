"""Add the diffs of changes that agents made, and why the user was not asked about them."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import of_session

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.add_column("tool_calls", sa.Column("added", sa.Integer))
    op.add_column("tool_calls", sa.Column("removed", sa.Integer))
    op.add_column("tool_calls", sa.Column("holds", sa.String(10)))
    op.add_column("tool_calls", sa.Column("grant", sa.Text))
    op.create_table(
        "tool_call_contents",
        sa.Column("call_id", sa.String(36), primary_key=True),
        *of_session(),
        sa.Column("diff", sa.Text),
    )
    op.create_index(None, "tool_call_contents", ["session_id"])
