"""Usage of all users, for administrators."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from artel.budgets.usage import SUMMED, SUMS, shown
from artel.contract.admin import ServerUsage, UsageOfDay, UsageOfModel, UsageOfUser
from artel.contract.spaces import UsageSum
from artel.db.tables import usage, users

MAX_GROUPS = 100  # users and models, the most expensive first


def report_server_usage(connection: Connection, first: date, last: date) -> ServerUsage:
    """Return the usage of all accounts from `first` to `last` day: in total, by day, by user and by model."""
    # Named by their ids, so that the index of usage by user and day is used: there is none by day alone.
    accounts = select(users.c.id).where(users.c.deleted_at.is_(None))
    within = (
        usage.c.user_id.in_(accounts),
        usage.c.day >= first.isoformat(),
        usage.c.day <= last.isoformat(),
    )
    by_day = _sums(connection, within, [usage.c.day], [usage.c.day], None)
    by_user = _sums(connection, within, [usage.c.user_id], [SUMS[3].desc(), SUMS[0].desc()], MAX_GROUPS)
    by_model = _sums(connection, within, [usage.c.model], [SUMS[3].desc(), SUMS[0].desc()], MAX_GROUPS)
    ids = [row["user_id"] for row in by_user]
    emails = dict(connection.execute(select(users.c.id, users.c.email).where(users.c.id.in_(ids))).tuples().all())
    [total] = _sums(connection, within, [], [], None)
    count = select(func.count(usage.c.user_id.distinct()), func.count(usage.c.model.distinct())).where(*within)
    number_of_users, number_of_models = connection.execute(count).one()
    return ServerUsage(
        first_day=first,
        last_day=last,
        sum=UsageSum(**shown(total)),
        by_day=[UsageOfDay(**shown(row)) for row in by_day],
        by_user=[UsageOfUser(email=emails.get(row["user_id"]), **shown(row)) for row in by_user],
        by_model=[UsageOfModel(**shown(row)) for row in by_model],
        users=number_of_users,
        models=number_of_models,
    )


def _sums(
    connection: Connection,
    within: Sequence[ColumnElement[bool]],
    columns: Sequence[ColumnElement[Any]],
    order: Sequence[ColumnElement[Any]],
    limit: int | None,
) -> list[dict[str, Any]]:
    grouped = select(*columns, *SUMS).where(*within).group_by(*columns).order_by(*order).limit(limit)
    names = [*(column.key or "" for column in columns), *SUMMED]
    return [dict(zip(names, row, strict=True)) for row in connection.execute(grouped)]
