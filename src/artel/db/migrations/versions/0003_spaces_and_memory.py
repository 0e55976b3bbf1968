"""Add hosts, worker spaces, alerts, memories and project events."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.drop_index("ix_agents_user_id_project_id", table_name="agents")
    op.create_index("uq_agents_user_id_project_id_id", "agents", ["user_id", "project_id", "id"], unique=True)
    op.add_column("projects", sa.Column("last_event", sa.Integer(), server_default="0", nullable=False))
    op.add_column("turns", sa.Column("context", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("messages", sa.Column("turn_number", sa.Integer(), server_default="0", nullable=False))
    op.create_index("ix_messages_session_id_turn_number_number", "messages", ["session_id", "turn_number", "number"])
    op.create_table(
        "hosts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_hosts"),
    )
    op.create_table(
        "index_chores",
        sa.Column("id", ID, nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("collection", sa.String(length=200), nullable=False),
        sa.Column("new_name", sa.String(length=200), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_index_chores"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "alerts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=100), nullable=False),
        sa.Column("severity", sa.String(length=10), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("raised_at", MOMENT, nullable=False),
        sa.Column("resolved_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_alerts_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
    )
    op.create_index(
        "ix_alerts_user_id_project_id_raised_at", "alerts", ["user_id", "project_id", "raised_at"], unique=False
    )
    op.create_index(
        "uq_alerts_open",
        "alerts",
        ["project_id", "kind", "subject"],
        unique=True,
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )
    op.create_table(
        "memory_archives",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("agent", sa.String(length=63), nullable=False),
        sa.Column("memories", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_memory_archives_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_memory_archives"),
    )
    op.create_index("ix_memory_archives_user_id_project_id", "memory_archives", ["user_id", "project_id"], unique=False)
    op.create_table(
        "project_events",
        sa.Column("user_id", ID, autoincrement=False, nullable=False),
        sa.Column("project_id", ID, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_project_events_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("user_id", "project_id", "number", name="pk_project_events"),
    )
    op.create_table(
        "space_calls",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("operation", sa.String(length=40), nullable=False),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("answer", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_space_calls_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_space_calls"),
    )
    op.create_index("ix_space_calls_user_id_project_id", "space_calls", ["user_id", "project_id"], unique=False)
    op.create_table(
        "spaces",
        sa.Column("project_id", ID, autoincrement=False, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("owner", sa.String(length=36), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("config_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_spaces_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", name="pk_spaces"),
    )
    op.create_index("ix_spaces_owner", "spaces", ["owner"], unique=False)
    op.create_table(
        "memories",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("archive_id", sa.String(length=36), nullable=True),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("indexed_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["memory_archives.id"], name="fk_memories_archive_id_memory_archives", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "agent_id"],
            ["agents.user_id", "agents.project_id", "agents.id"],
            name="fk_memories_user_id_project_id_agent_id_agents",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_memories_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_memories"),
    )
    op.create_index("ix_memories_archive_id", "memories", ["archive_id"], unique=False)
    op.create_index(
        "ix_memories_not_indexed",
        "memories",
        ["id"],
        unique=False,
        sqlite_where=sa.text("indexed_at IS NULL AND archive_id IS NULL"),
        postgresql_where=sa.text("indexed_at IS NULL AND archive_id IS NULL"),
    )
    op.create_index(
        "ix_memories_user_id_project_id_agent_id_id",
        "memories",
        ["user_id", "project_id", "agent_id", "id"],
        unique=False,
    )
