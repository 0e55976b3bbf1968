"""Create accounts, projects and agents."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "login_attempts",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("retry_at", MOMENT, nullable=False),
        sa.Column("forget_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_login_attempts"),
    )
    op.create_index("ix_login_attempts_forget_at", "login_attempts", ["forget_at"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", ID, nullable=False),
        sa.Column("email", sa.String(length=254), nullable=True),
        sa.Column("password_hash", sa.String(length=200), nullable=True),
        sa.Column("issuer", sa.String(length=500), nullable=True),
        sa.Column("subject", sa.String(length=500), nullable=True),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("tokens_since", MOMENT, nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("deleted_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("issuer", "subject", name="uq_users_issuer_subject"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_users_local_email",
        "users",
        ["email"],
        unique=True,
        sqlite_where=sa.text("issuer IS NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("issuer IS NULL AND deleted_at IS NULL"),
    )
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_user_id", ID, nullable=True),
        sa.Column("compatible_since", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["first_user_id"], ["users.id"], name="fk_installation_first_user_id_users"),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
    )
    op.create_table(
        "projects",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_projects_user_id_users"),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("user_id", "id", name="uq_projects_user_id_id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_projects_default",
        "projects",
        ["user_id"],
        unique=True,
        sqlite_where=sa.text("is_default"),
        postgresql_where=sa.text("is_default"),
    )
    op.create_table(
        "agents",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("parent_agent_id", ID, nullable=True),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("role", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("temperature", sa.Float(), nullable=False),
        sa.Column("max_tokens", sa.Integer(), nullable=False),
        sa.Column("system_prompt", sa.Text(), nullable=False),
        sa.Column("tools", sa.JSON(), nullable=False),
        sa.Column("concurrency_limit", sa.Integer(), nullable=False),
        sa.Column("capabilities", sa.JSON(), nullable=False),
        sa.Column("memory", sa.Boolean(), nullable=False),
        sa.Column("runtime", sa.String(length=10), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["parent_agent_id"], ["agents.id"], name="fk_agents_parent_agent_id_agents", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_agents_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        sa.UniqueConstraint("project_id", "name", name="uq_agents_project_id_name"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_agents_parent_agent_id", "agents", ["parent_agent_id"], unique=False)
    op.create_index("ix_agents_user_id_project_id", "agents", ["user_id", "project_id"], unique=False)
    installation = sa.table("installation", sa.column("id", sa.Integer), sa.column("compatible_since", sa.String))
    op.bulk_insert(installation, [{"id": 1, "compatible_since": revision}])
