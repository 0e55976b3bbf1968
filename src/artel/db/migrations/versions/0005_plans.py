"""Add workflows, tasks, the plan cache, budgets and the installation key."""

import uuid

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, MOMENT, of_project, of_session, project_key

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    with op.batch_alter_table("installation") as installation:
        installation.add_column(sa.Column("key", sa.String(36), nullable=False, server_default=str(uuid.uuid4())))
    with op.batch_alter_table("installation") as installation:
        installation.alter_column("key", server_default=None)
    _create_budgets()
    _create_plan_cache()
    _create_reservations()
    _create_workflows()
    _create_tasks()


def _create_budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("scope", sa.String(36), nullable=False),
        sa.Column("limit_micros", sa.BigInteger, nullable=False),
        sa.Column("spent_micros", sa.BigInteger, nullable=False),
        sa.Column("reserved_micros", sa.BigInteger, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.UniqueConstraint("project_id", "kind", "scope"),
    )


def _create_plan_cache() -> None:
    op.create_table(
        "plan_cache",
        sa.Column("project_id", ID, autoincrement=False, primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("plan", sa.JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        project_key(),
    )


def _create_reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("budget_id", sa.String(36), primary_key=True),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("turn_id", sa.String(36), nullable=False),
        sa.Column("micros", sa.BigInteger, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["budget_id"], ["budgets.id"], ondelete="CASCADE"),
        project_key(),
    )
    op.create_index(None, "reservations", ["turn_id"])


def _create_workflows() -> None:
    op.create_table(
        "workflows",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_session(),
        sa.Column("turn_id", sa.String(36), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("instruction", sa.Text, nullable=False),
        sa.Column("plan_id", sa.String(36)),
        sa.Column("planned_by", sa.String(10)),
        sa.Column("estimate", sa.JSON(none_as_null=True)),
        sa.Column("limit_micros", sa.BigInteger),
        sa.Column("approved_at", MOMENT),
        sa.Column("spent_micros", sa.BigInteger, nullable=False),
        sa.Column("price_unknown", sa.Boolean, nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("error_code", sa.String(64)),
        sa.Column("error", sa.Text),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT),
        sa.Column("finished_at", MOMENT),
    )
    op.create_index(None, "workflows", ["turn_id"])
    op.create_index(None, "workflows", ["user_id", "created_at"])


def _create_tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("workflow_id", sa.String(36), sa.ForeignKey("workflows.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        *of_project(),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("agent_id", ID),
        sa.Column("agent", sa.String(63), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("depends_on", sa.JSON, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("estimate", sa.JSON(none_as_null=True)),
        sa.Column("usage", sa.JSON(none_as_null=True)),
        sa.Column("cost_micros", sa.BigInteger),
        sa.Column("result", sa.Text),
        sa.Column("error_code", sa.String(64)),
        sa.Column("error", sa.Text),
        sa.Column("parked", sa.JSON(none_as_null=True)),
        sa.Column("started_at", MOMENT),
        sa.Column("finished_at", MOMENT),
    )
    op.create_index(None, "tasks", ["user_id", "project_id", "agent_id", "finished_at"])
