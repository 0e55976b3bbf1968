"""Add hosts, worker spaces, alerts, memories and project events."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, MOMENT, create_partial_index, of_project, project_key

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.drop_index("ix_agents_user_id_project_id", table_name="agents")
    op.create_index("uq_agents_user_id_project_id_id", "agents", ["user_id", "project_id", "id"], unique=True)
    op.add_column("projects", sa.Column("last_event", sa.Integer, server_default="0", nullable=False))
    op.add_column("turns", sa.Column("context", sa.JSON(none_as_null=True)))
    op.add_column("messages", sa.Column("turn_number", sa.Integer, server_default="0", nullable=False))
    op.create_index("ix_messages_session_id_turn_number_number", "messages", ["session_id", "turn_number", "number"])
    _create_hosts()
    _create_index_chores()
    _create_alerts()
    _create_memory_archives()
    _create_project_events()
    _create_space_calls()
    _create_spaces()
    _create_memories()


def _create_hosts() -> None:
    op.create_table(
        "hosts",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("expires_at", MOMENT, nullable=False),
    )


def _create_index_chores() -> None:
    op.create_table(
        "index_chores",
        sa.Column("id", ID, primary_key=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("collection", sa.String(200), nullable=False),
        sa.Column("new_name", sa.String(200)),
        sa.Column("created_at", MOMENT, nullable=False),
        sqlite_autoincrement=True,
    )


def _create_alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("subject", sa.String(100), nullable=False),
        sa.Column("severity", sa.String(10), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("raised_at", MOMENT, nullable=False),
        sa.Column("resolved_at", MOMENT),
    )
    op.create_index(None, "alerts", ["user_id", "project_id", "raised_at"])
    create_partial_index(
        "uq_alerts_open", "alerts", "project_id", "kind", "subject", where="resolved_at IS NULL", unique=True
    )


def _create_memory_archives() -> None:
    op.create_table(
        "memory_archives",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("agent", sa.String(63), nullable=False),
        sa.Column("memories", sa.Integer, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
    )
    op.create_index(None, "memory_archives", ["user_id", "project_id"])


def _create_project_events() -> None:
    op.create_table(
        "project_events",
        sa.Column("user_id", ID, autoincrement=False, primary_key=True),
        sa.Column("project_id", ID, autoincrement=False, primary_key=True),
        sa.Column("number", sa.Integer, autoincrement=False, primary_key=True),
        sa.Column("type", sa.String(40), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        project_key(),
    )


def _create_space_calls() -> None:
    op.create_table(
        "space_calls",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("operation", sa.String(40), nullable=False),
        sa.Column("agent_id", ID),
        sa.Column("answer", sa.JSON(none_as_null=True)),
        sa.Column("expires_at", MOMENT, nullable=False),
    )
    op.create_index(None, "space_calls", ["user_id", "project_id"])


def _create_spaces() -> None:
    op.create_table(
        "spaces",
        sa.Column("project_id", ID, autoincrement=False, primary_key=True),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("owner", sa.String(36)),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("config_version", sa.Integer, nullable=False),
        project_key(),
    )
    op.create_index(None, "spaces", ["owner"])


def _create_memories() -> None:
    op.create_table(
        "memories",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("agent_id", ID),
        sa.Column("archive_id", sa.String(36)),
        sa.Column("type", sa.String(40), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("success", sa.Boolean, nullable=False),
        sa.Column("task_id", sa.String(64)),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("indexed_at", MOMENT),
        sa.ForeignKeyConstraint(["archive_id"], ["memory_archives.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "agent_id"],
            ["agents.user_id", "agents.project_id", "agents.id"],
            ondelete="CASCADE",
        ),
        project_key(),
    )
    op.create_index(None, "memories", ["archive_id"])
    create_partial_index("ix_memories_not_indexed", "memories", "id", where="indexed_at IS NULL AND archive_id IS NULL")
    op.create_index(None, "memories", ["user_id", "project_id", "agent_id", "id"])
