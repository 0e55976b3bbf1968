"""Add sessions, messages, turns and events."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, MOMENT, create_partial_index, of_project, of_session, session_key

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _create_sessions()
    _create_events()
    _create_messages()
    _create_turns()


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("last_event", sa.Integer, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.UniqueConstraint("user_id", "project_id", "id"),
    )
    op.create_index(None, "sessions", ["user_id", "updated_at"])


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("user_id", ID, autoincrement=False, primary_key=True),
        sa.Column("project_id", ID, autoincrement=False, primary_key=True),
        sa.Column("session_id", sa.String(36), primary_key=True),
        sa.Column("number", sa.Integer, autoincrement=False, primary_key=True),
        sa.Column("turn_id", sa.String(36)),
        sa.Column("type", sa.String(40), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        session_key(),
    )


def _create_messages() -> None:
    op.create_table(
        "messages",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_session(),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("turn_id", sa.String(36)),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("agent_id", ID),
        sa.Column("agent", sa.String(63)),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.UniqueConstraint("user_id", "project_id", "session_id", "number"),
    )


def _create_turns() -> None:
    op.create_table(
        "turns",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_session(),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("mode", sa.String(12), nullable=False),
        sa.Column("agent_id", ID),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("idempotency_key", sa.String(200)),
        sa.Column("request_hash", sa.String(64), nullable=False),
        sa.Column("error_code", sa.String(64)),
        sa.Column("error", sa.Text),
        sa.Column("usage", sa.JSON(none_as_null=True)),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT),
        sa.Column("finished_at", MOMENT),
        sa.UniqueConstraint("session_id", "idempotency_key"),
        sa.UniqueConstraint("user_id", "project_id", "session_id", "number"),
    )
    create_partial_index(
        "ix_turns_unfinished", "turns", "project_id", "session_id", "number", where="finished_at IS NULL"
    )
