"""Usage of a user's model calls, one row for each agent and model of a turn, and reports of it."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func

from artel.auth.principal import Principal
from artel.budgets.money import dollars, micros_or_none
from artel.contract.http import PageRequest
from artel.contract.parked_run import UsageShare
from artel.contract.spaces import UsageGroup, UsageReport, UsageSum
from artel.db.tables import usage
from artel.db.tenant import TenantRepository
from artel.ids import MINUTE_DIGITS, first_id_since, time_of_digits, uuid7
from artel.projects.repository import ProjectRepository

COLUMNS = {
    "day": (usage.c.day,),
    "project": (usage.c.project_id,),
    "agent": (usage.c.agent_id, usage.c.agent),
    "model": (usage.c.model,),
}

SUMMED = ("calls", "input_tokens", "output_tokens", "cost_micros", "unpriced_calls")
_UNPRICED = case((usage.c.cost_micros.is_(None), usage.c.calls), else_=0)
_TOKENS_AND_COST = (
    func.coalesce(func.sum(usage.c.input_tokens + usage.c.output_tokens), 0),
    func.coalesce(func.sum(usage.c.cost_micros), 0),
)
SUMS = [func.sum(column) for column in (*(usage.c[name] for name in SUMMED[:-1]), _UNPRICED)]


class UsageRepository(TenantRepository):
    """Usage of one user."""

    table = usage

    def add(self, project_id: int, session_id: str, turn_id: str, now: datetime, shares: Sequence[UsageShare]) -> None:
        self._add(
            [
                {
                    "id": uuid7(),
                    "project_id": project_id,
                    "session_id": session_id,
                    "turn_id": turn_id,
                    "agent_id": share.agent_id,
                    "agent": share.agent,
                    "model": share.usage.model[:200],
                    "day": now.date().isoformat(),
                    "calls": share.usage.calls,
                    "input_tokens": share.usage.input_tokens,
                    "output_tokens": share.usage.output_tokens,
                    "cost_micros": micros_or_none(share.usage.cost_usd),
                }
                for share in shares
            ]
        )

    def sums(
        self, first: date, last: date, groups: Sequence[str], project_id: int | None, paging: PageRequest
    ) -> tuple[list[dict[str, Any]], int]:
        """Return a page of the sums per group, newest day first, and the number of groups."""
        columns = [column for name in groups for column in COLUMNS[name]]
        within = _within(first, last, project_id)
        order = [column.desc() if column is usage.c.day else column for column in columns]
        grouped = self._select(*columns, *SUMS).where(*within).group_by(*columns).order_by(*order)
        rows = self.connection.execute(grouped.limit(paging.limit).offset(paging.offset))
        names = [*(column.name for column in columns), *SUMMED]
        keys = self._select(*columns).where(*within).distinct().subquery()
        counted = keys.select().with_only_columns(func.count(), maintain_column_froms=True)
        return [dict(zip(names, row, strict=True)) for row in rows], self.connection.execute(counted).scalar_one()

    def sum_of_all(self, first: date, last: date, project_id: int | None) -> dict[str, Any]:
        """Return the sums from `first` to `last` day."""
        row = self.connection.execute(self._select(*SUMS).where(*_within(first, last, project_id))).one()
        return dict(zip(SUMMED, row, strict=True))

    def cost_of_month(self, scope: str, project_id: int | None = None) -> int:
        """Return the cost in micros of a month's calls whose price is known, of all projects or one."""
        days = [usage.c.day >= f"{scope}-01", usage.c.day <= f"{scope}-31"]
        in_project = [] if project_id is None else [usage.c.project_id == project_id]
        total = self._select(func.coalesce(func.sum(usage.c.cost_micros), 0)).where(*days, *in_project)
        return int(self.connection.execute(total).scalar_one())

    def by_minute(self, project_id: int, since: datetime) -> list[tuple[datetime, int, int]]:
        """Return time, tokens and cost in micros of a project's calls, summed over about a minute each.

        The time is that of the rows' ids: the end of the turn.
        """
        digits = func.substr(usage.c.id, 1, MINUTE_DIGITS)
        sums = self._select(digits, *_TOKENS_AND_COST).where(*_since(project_id, since)).group_by(digits)
        return [(time_of_digits(unit), int(tokens), int(cost)) for unit, tokens, cost in self.connection.execute(sums)]

    def by_agent(self, project_id: int, since: datetime, most: int) -> list[tuple[int | None, str, int]]:
        """Return the id, name and cost in micros of the agents that a project paid most for."""
        cost = _TOKENS_AND_COST[1]
        columns = usage.c.agent_id, func.max(usage.c.agent)  # an agent may have been renamed
        grouped = self._select(*columns, cost).where(*_since(project_id, since)).group_by(usage.c.agent_id)
        rows = self.connection.execute(grouped.order_by(cost.desc(), usage.c.agent_id).limit(most))
        return [(agent_id, name, int(micros)) for agent_id, name, micros in rows]


def _since(project_id: int, since: datetime) -> list[ColumnElement[bool]]:
    # The day narrows the rows by an index; the id is exact.
    of_day = usage.c.day >= since.date().isoformat()
    return [of_day, usage.c.project_id == project_id, usage.c.id >= first_id_since(since)]


def _within(first: date, last: date, project_id: int | None) -> list[ColumnElement[bool]]:
    days = [usage.c.day >= first.isoformat(), usage.c.day <= last.isoformat()]
    return days if project_id is None else [*days, usage.c.project_id == project_id]


def report_usage(
    connection: Connection,
    principal: Principal,
    first: date,
    last: date,
    groups: Sequence[str],
    project_id: int | None,
    paging: PageRequest,
) -> UsageReport:
    """Return the user's usage from `first` to `last` day, grouped, of all projects or one."""
    if project_id is not None:
        ProjectRepository(connection, principal).get(project_id)
    usage = UsageRepository(connection, principal)
    rows, total = usage.sums(first, last, groups, project_id, paging)
    return UsageReport(
        items=[UsageGroup(**shown(row)) for row in rows],
        total=total,
        limit=paging.limit,
        offset=paging.offset,
        first_day=first,
        last_day=last,
        sum=UsageSum(**shown(usage.sum_of_all(first, last, project_id))),
    )


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels and sums of a row, with the cost in dollars."""
    labels = {name: value for name, value in row.items() if name not in SUMMED}
    numbers = {name: int(row[name] or 0) for name in SUMMED}
    cost = dollars(numbers.pop("cost_micros"))
    return {**labels, **numbers, "cost_usd": cost}
