"""Add sessions, messages, turns and events."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("last_event", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_sessions_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.UniqueConstraint("user_id", "project_id", "id", name="uq_sessions_user_id_project_id_id"),
    )
    op.create_index("ix_sessions_user_id_updated_at", "sessions", ["user_id", "updated_at"], unique=False)
    op.create_table(
        "events",
        sa.Column("user_id", ID, autoincrement=False, nullable=False),
        sa.Column("project_id", ID, autoincrement=False, nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("turn_id", sa.String(length=36), nullable=True),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "session_id"],
            ["sessions.user_id", "sessions.project_id", "sessions.id"],
            name="fk_events_user_id_project_id_session_id_sessions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("user_id", "project_id", "session_id", "number", name="pk_events"),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.String(length=36), nullable=True),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("agent", sa.String(length=63), nullable=True),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "session_id"],
            ["sessions.user_id", "sessions.project_id", "sessions.id"],
            name="fk_messages_user_id_project_id_session_id_sessions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
        sa.UniqueConstraint(
            "user_id", "project_id", "session_id", "number", name="uq_messages_user_id_project_id_session_id_number"
        ),
    )
    op.create_table(
        "turns",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("mode", sa.String(length=12), nullable=False),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("usage", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=True),
        sa.Column("finished_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "session_id"],
            ["sessions.user_id", "sessions.project_id", "sessions.id"],
            name="fk_turns_user_id_project_id_session_id_sessions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.UniqueConstraint("session_id", "idempotency_key", name="uq_turns_session_id_idempotency_key"),
        sa.UniqueConstraint(
            "user_id", "project_id", "session_id", "number", name="uq_turns_user_id_project_id_session_id_number"
        ),
    )
    op.create_index(
        "ix_turns_unfinished",
        "turns",
        ["project_id", "session_id", "number"],
        unique=False,
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )
