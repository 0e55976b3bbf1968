"""Add workflows, tasks, the plan cache, budgets and the installation key."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    with op.batch_alter_table("installation") as installation:
        installation.add_column(
            sa.Column("key", sa.String(length=36), nullable=False, server_default=str(uuid.uuid4()))
        )
    with op.batch_alter_table("installation") as installation:
        installation.alter_column("key", server_default=None)
    op.create_table(
        "budgets",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("scope", sa.String(length=36), nullable=False),
        sa.Column("limit_micros", sa.BigInteger(), nullable=False),
        sa.Column("spent_micros", sa.BigInteger(), nullable=False),
        sa.Column("reserved_micros", sa.BigInteger(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_budgets_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_budgets"),
        sa.UniqueConstraint("project_id", "kind", "scope", name="uq_budgets_project_id_kind_scope"),
    )
    op.create_table(
        "plan_cache",
        sa.Column("project_id", ID, autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_plan_cache_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", "key", name="pk_plan_cache"),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("budget_id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("turn_id", sa.String(length=36), nullable=False),
        sa.Column("micros", sa.BigInteger(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["budget_id"], ["budgets.id"], name="fk_reservations_budget_id_budgets", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_reservations_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", "budget_id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_turn_id", "reservations", ["turn_id"], unique=False)
    op.create_table(
        "workflows",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("turn_id", sa.String(length=36), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("instruction", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.String(length=36), nullable=True),
        sa.Column("planned_by", sa.String(length=10), nullable=True),
        sa.Column("estimate", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("limit_micros", sa.BigInteger(), nullable=True),
        sa.Column("approved_at", MOMENT, nullable=True),
        sa.Column("spent_micros", sa.BigInteger(), nullable=False),
        sa.Column("price_unknown", sa.Boolean(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=True),
        sa.Column("finished_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id", "session_id"],
            ["sessions.user_id", "sessions.project_id", "sessions.id"],
            name="fk_workflows_user_id_project_id_session_id_sessions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_workflows"),
    )
    op.create_index("ix_workflows_turn_id", "workflows", ["turn_id"], unique=False)
    op.create_index("ix_workflows_user_id_created_at", "workflows", ["user_id", "created_at"], unique=False)
    op.create_table(
        "tasks",
        sa.Column("workflow_id", sa.String(length=36), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("agent", sa.String(length=63), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("depends_on", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("estimate", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("usage", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("cost_micros", sa.BigInteger(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("parked", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("started_at", MOMENT, nullable=True),
        sa.Column("finished_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id", "project_id"],
            ["projects.user_id", "projects.id"],
            name="fk_tasks_user_id_project_id_projects",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["workflow_id"], ["workflows.id"], name="fk_tasks_workflow_id_workflows", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("workflow_id", "id", name="pk_tasks"),
    )
    op.create_index(
        "ix_tasks_user_id_project_id_agent_id_finished_at",
        "tasks",
        ["user_id", "project_id", "agent_id", "finished_at"],
        unique=False,
    )
