"""Add connectors, tool calls, approvals and parked runs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "connectors",
        sa.Column("project_id", ID, autoincrement=False, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("connector_id", sa.String(length=64), nullable=False),
        sa.Column("line_id", sa.String(length=36), nullable=False),
        sa.Column("process_id", sa.String(length=36), nullable=False),
        sa.Column("workspace_name", sa.String(length=200), nullable=False),
        sa.Column("read_only", sa.Boolean(), nullable=False),
        sa.Column("mode", sa.String(length=12), nullable=False),
        sa.Column("commands", sa.JSON(), nullable=False),
        sa.Column("features", sa.JSON(), nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_connectors_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", name="pk_connectors"),
    )
    op.create_table(
        "relay_calls",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("process_id", sa.String(length=36), nullable=False),
        sa.Column("method", sa.String(length=40), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("answer", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_relay_calls_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_relay_calls"),
    )
    op.create_index("ix_relay_calls_process_id", "relay_calls", ["process_id"], unique=False)
    op.create_table(
        "tool_calls",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=True),
        sa.Column("turn_id", sa.String(length=36), nullable=True),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("agent", sa.String(length=63), nullable=False),
        sa.Column("tool", sa.String(length=100), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("level", sa.String(length=12), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("connector_id", sa.String(length=64), nullable=True),
        sa.Column("approval_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_tool_calls_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tool_calls"),
    )
    op.create_index(
        "ix_tool_calls_user_id_project_id_created_at",
        "tool_calls",
        ["user_id", "project_id", "created_at"],
        unique=False,
    )
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("turn_id", sa.String(length=36), nullable=False),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("tool", sa.String(length=100), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("arguments_hash", sa.String(length=64), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("risk", sa.String(length=10), nullable=False),
        sa.Column("seconds", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("holds", sa.String(length=10), nullable=True),
        sa.Column("feedback", sa.Text(), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("warned_at", MOMENT, nullable=True),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("decided_at", MOMENT, nullable=True),
        sa.Column("used_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "session_id"],
            ["sessions.user_id", "sessions.project_id", "sessions.id"],
            name="fk_approvals_user_id_project_id_session_id_sessions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_approvals"),
    )
    op.create_index(
        "ix_approvals_pending",
        "approvals",
        ["expires_at"],
        unique=False,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index("ix_approvals_turn_id", "approvals", ["turn_id"], unique=False)
    op.create_index("ix_approvals_user_id_created_at", "approvals", ["user_id", "created_at"], unique=False)
    op.add_column("turns", sa.Column("parked", sa.JSON(none_as_null=True), nullable=True))
