"""Add the usage of models by agent, and fill it from earlier turns as far as they recorded it."""

import sqlalchemy as sa
from alembic import op

from artel.db.migrations.schema_items import ID, of_project

revision = "0013"
down_revision = "0012"

BATCH = 1_000
MILLION = 1_000_000


def upgrade() -> None:
    usage = op.create_table(
        "usage",
        sa.Column("id", sa.String(36), primary_key=True),
        *of_project(),
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("turn_id", sa.String(36), nullable=False),
        sa.Column("agent_id", ID),
        sa.Column("agent", sa.String(63), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_micros", sa.BigInteger),
        sa.Index("ix_usage_user_id_day", "user_id", "day"),
        sa.Index("ix_usage_user_id_project_id", "user_id", "project_id"),
    )
    _take_over(op.get_bind(), usage)


def _take_over(connection: sa.Connection, usage: sa.Table) -> None:
    turns = sa.table(
        "turns",
        *(sa.column(name) for name in ("id", "user_id", "project_id", "session_id", "agent_id")),
        sa.column("usage", sa.JSON),
        sa.column("finished_at", sa.DateTime(timezone=True)),
    )
    agents = sa.table("agents", sa.column("id"), sa.column("name"))
    used = sa.select(turns, agents.c.name).select_from(turns.outerjoin(agents, agents.c.id == turns.c.agent_id))
    used = used.where(turns.c.usage.is_not(sa.null()), turns.c.finished_at.is_not(None)).order_by(turns.c.id)
    last = ""
    while rows := connection.execute(used.where(turns.c.id > last).limit(BATCH)).all():
        last = rows[-1].id
        connection.execute(usage.insert(), [_row(row) for row in rows if row.usage])


def _row(row: sa.Row) -> dict[str, object]:
    cost = row.usage.get("cost_usd")
    return {
        "id": row.id,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "session_id": row.session_id,
        "turn_id": row.id,
        "agent_id": row.agent_id,
        "agent": row.name or "",
        "model": str(row.usage.get("model", ""))[:200],
        "day": row.finished_at.date().isoformat(),
        "calls": row.usage.get("calls", 0),
        "input_tokens": row.usage.get("input_tokens", 0),
        "output_tokens": row.usage.get("output_tokens", 0),
        "cost_micros": None if cost is None else round(cost * MILLION),
    }
