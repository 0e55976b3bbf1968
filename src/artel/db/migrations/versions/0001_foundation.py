"""Create accounts, projects and agents."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, MOMENT, create_partial_index, project_key

revision = "0001"
down_revision = None


def upgrade() -> None:
    _create_login_attempts()
    _create_users()
    _create_installation()
    _create_projects()
    _create_agents()
    installation = sa.table("installation", sa.column("id", sa.Integer), sa.column("compatible_since", sa.String))
    op.bulk_insert(installation, [{"id": 1, "compatible_since": revision}])


def _create_login_attempts() -> None:
    op.create_table(
        "login_attempts",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("retry_at", MOMENT, nullable=False),
        sa.Column("forget_at", MOMENT, nullable=False),
    )
    op.create_index(None, "login_attempts", ["forget_at"])


def _create_users() -> None:
    op.create_table(
        "users",
        sa.Column("id", ID, primary_key=True),
        sa.Column("email", sa.String(254)),
        sa.Column("password_hash", sa.String(200)),
        sa.Column("issuer", sa.String(500)),
        sa.Column("subject", sa.String(500)),
        sa.Column("is_admin", sa.Boolean, nullable=False),
        sa.Column("tokens_since", MOMENT),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("deleted_at", MOMENT),
        sa.UniqueConstraint("issuer", "subject"),
        sqlite_autoincrement=True,
    )
    create_partial_index(
        "uq_users_local_email", "users", "email", where="issuer IS NULL AND deleted_at IS NULL", unique=True
    )


def _create_installation() -> None:
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer, autoincrement=False, primary_key=True),
        sa.Column("first_user_id", ID),
        sa.Column("compatible_since", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(["first_user_id"], ["users.id"]),
    )


def _create_projects() -> None:
    op.create_table(
        "projects",
        sa.Column("id", ID, primary_key=True),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("is_default", sa.Boolean, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"]),
        sa.UniqueConstraint("user_id", "id"),
        sqlite_autoincrement=True,
    )
    create_partial_index("uq_projects_default", "projects", "user_id", where="is_default", unique=True)


def _create_agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", ID, primary_key=True),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("parent_agent_id", ID),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("role", sa.String(64), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("temperature", sa.Float, nullable=False),
        sa.Column("max_tokens", sa.Integer, nullable=False),
        sa.Column("system_prompt", sa.Text, nullable=False),
        sa.Column("tools", sa.JSON, nullable=False),
        sa.Column("concurrency_limit", sa.Integer, nullable=False),
        sa.Column("capabilities", sa.JSON, nullable=False),
        sa.Column("memory", sa.Boolean, nullable=False),
        sa.Column("runtime", sa.String(10), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["parent_agent_id"], ["agents.id"], ondelete="CASCADE"),
        project_key(),
        sa.UniqueConstraint("project_id", "name"),
        sqlite_autoincrement=True,
    )
    op.create_index(None, "agents", ["parent_agent_id"])
    op.create_index(None, "agents", ["user_id", "project_id"])
