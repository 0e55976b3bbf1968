"""Add connectors, tool calls, approvals and parked runs."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, MOMENT, create_partial_index, of_project, of_session, project_key

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    _create_connectors()
    _create_relay_calls()
    _create_tool_calls()
    _create_approvals()
    op.add_column("turns", sa.Column("parked", sa.JSON(none_as_null=True)))


def _create_connectors() -> None:
    op.create_table(
        "connectors",
        sa.Column("project_id", ID, autoincrement=False, primary_key=True),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("connector_id", sa.String(64), nullable=False),
        sa.Column("line_id", sa.String(36), nullable=False),
        sa.Column("process_id", sa.String(36), nullable=False),
        sa.Column("workspace_name", sa.String(200), nullable=False),
        sa.Column("read_only", sa.Boolean, nullable=False),
        sa.Column("mode", sa.String(12), nullable=False),
        sa.Column("commands", sa.JSON, nullable=False),
        sa.Column("features", sa.JSON, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        project_key(),
    )


def _create_relay_calls() -> None:
    op.create_table(
        "relay_calls",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("process_id", sa.String(36), nullable=False),
        sa.Column("method", sa.String(40), nullable=False),
        sa.Column("params", sa.JSON, nullable=False),
        sa.Column("answer", sa.JSON(none_as_null=True)),
        sa.Column("expires_at", MOMENT, nullable=False),
    )
    op.create_index(None, "relay_calls", ["process_id"])


def _create_tool_calls() -> None:
    op.create_table(
        "tool_calls",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("session_id", sa.String(36)),
        sa.Column("turn_id", sa.String(36)),
        sa.Column("agent_id", ID),
        sa.Column("agent", sa.String(63), nullable=False),
        sa.Column("tool", sa.String(100), nullable=False),
        sa.Column("arguments", sa.JSON, nullable=False),
        sa.Column("level", sa.String(12), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("connector_id", sa.String(64)),
        sa.Column("approval_id", sa.String(36)),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
    )
    op.create_index(None, "tool_calls", ["user_id", "project_id", "created_at"])


def _create_approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_session(),
        sa.Column("turn_id", sa.String(36), nullable=False),
        sa.Column("agent_id", ID),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("tool", sa.String(100), nullable=False),
        sa.Column("arguments", sa.JSON, nullable=False),
        sa.Column("arguments_hash", sa.String(64), nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("risk", sa.String(10), nullable=False),
        sa.Column("seconds", sa.Integer, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("holds", sa.String(10)),
        sa.Column("feedback", sa.Text),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("warned_at", MOMENT),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("decided_at", MOMENT),
        sa.Column("used_at", MOMENT),
    )
    create_partial_index("ix_approvals_pending", "approvals", "expires_at", where="status = 'pending'")
    op.create_index(None, "approvals", ["turn_id"])
    op.create_index(None, "approvals", ["user_id", "created_at"])
