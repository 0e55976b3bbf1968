"""What calls to models have taken: one row for every agent and model of a turn. It outlives sessions and agents."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import case, func

from artel.budgets.money import micros
from artel.db.tables import usage
from artel.db.tenant import TenantRepository
from artel.ids import uuid7

MAX_GROUPS = 10_000
COLUMNS = {
    "day": (usage.c.day,),
    "project": (usage.c.project_id,),
    "agent": (usage.c.agent_id, usage.c.agent),
    "model": (usage.c.model,),
}

# An agent (none is the orchestrator), its name, and what its calls to one model took.
Share = Mapping[str, Any]


class UsageRepository(TenantRepository):
    """What one user's calls have taken."""

    table = usage

    def add(self, project_id: int, session_id: str, turn_id: str, now: datetime, shares: Sequence[Share]) -> None:
        """Store what the calls of a turn took."""
        self._add(
            [
                {
                    "id": uuid7(),
                    "project_id": project_id,
                    "session_id": session_id,
                    "turn_id": turn_id,
                    "agent_id": share["agent_id"],
                    "agent": share["agent"],
                    "model": str(share["usage"].get("model", ""))[:200],
                    "day": now.date().isoformat(),
                    "calls": share["usage"].get("calls", 0),
                    "input_tokens": share["usage"].get("input_tokens", 0),
                    "output_tokens": share["usage"].get("output_tokens", 0),
                    "cost_micros": _micros(share["usage"].get("cost_usd")),
                }
                for share in shares
            ]
        )

    def sums(
        self, first: date, last: date, groups: Sequence[str], project_id: int | None = None
    ) -> list[dict[str, Any]]:
        """Return sums of the days from `first` to `last`, one for each group, newest day first."""
        columns = [column for name in groups for column in COLUMNS[name]]
        unpriced = case((usage.c.cost_micros.is_(None), usage.c.calls), else_=0)
        summed = usage.c.calls, usage.c.input_tokens, usage.c.output_tokens, usage.c.cost_micros
        found = self._select(*columns, *(func.sum(column) for column in summed), func.sum(unpriced))
        found = found.where(usage.c.day >= first.isoformat(), usage.c.day <= last.isoformat())
        if project_id is not None:
            found = found.where(usage.c.project_id == project_id)
        order = [column.desc() if column is usage.c.day else column for column in columns]
        rows = self.connection.execute(found.group_by(*columns).order_by(*order).limit(MAX_GROUPS))
        names = [*(column.name for column in columns), *(column.name for column in summed), "unpriced_calls"]
        return [dict(zip(names, row, strict=True)) for row in rows]


def _micros(cost_usd: float | None) -> int | None:
    return None if cost_usd is None else micros(cost_usd)
