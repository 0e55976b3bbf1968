"""Usage reports of a user's model calls."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.money import dollars
from artel.budgets.usage_repository import SUMMED, UsageRepository
from artel.contract.usage import UsageGroup, UsageReport, UsageSum
from artel.projects.repository import ProjectRepository


def report_usage(
    connection: Connection,
    principal: Principal,
    first: date,
    last: date,
    groups: Sequence[str],
    project_id: int | None,
    limit: int,
    offset: int,
) -> UsageReport:
    """Return the user's usage from `first` to `last` day, grouped, of all projects or one."""
    if project_id is not None:
        ProjectRepository(connection, principal).get(project_id)
    usage = UsageRepository(connection, principal)
    rows, total = usage.sums(first, last, groups, project_id, limit, offset)
    return UsageReport(
        items=[_group(row) for row in rows],
        total=total,
        limit=limit,
        offset=offset,
        first_day=first,
        last_day=last,
        sum=UsageSum(**_sum(usage.sum_of_all(first, last, project_id))),
    )


def _group(row: Mapping[str, Any]) -> UsageGroup:
    labels = {name: value for name, value in row.items() if name not in SUMMED}
    return UsageGroup(**labels, **_sum(row))


def _sum(row: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: int(row[name] or 0) for name in SUMMED}
    return numbers | {"cost_usd": dollars(numbers.pop("cost_micros"))}
