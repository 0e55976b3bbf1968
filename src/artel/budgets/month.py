"""What a project may spend in a month, and its user over all projects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.money import micros
from artel.budgets.repository import Budget, BudgetRepository
from artel.budgets.user_month import NO_LIMIT, UserMonth, this_month
from artel.errors import BudgetExceeded
from artel.ids import uuid7


def monthly_limit(settings: Mapping[str, Any]) -> int | None:
    """Return what a project's settings allow in a month, in millionths; None if they say nothing of it."""
    said = settings.get("monthly_budget_usd")
    is_amount = isinstance(said, int | float) and not isinstance(said, bool)
    return micros(float(said)) if is_amount and said is not None and said >= 0 else None


@dataclass(frozen=True, slots=True)
class Month:
    """What the calls of a turn are paid out of: the project's budget, and the user's limit if there is one."""

    budget_id: str
    user: UserMonth | None


def month_for(
    connection: Connection,
    principal: Principal,
    project_id: int,
    settings: Mapping[str, Any],
    user_micros: int | None,
) -> Month | None:
    """Return what limits calls in a project; None if neither the project nor its user has a limit."""
    own = monthly_limit(settings)
    if own is None and user_micros is None:
        return None
    budget_id = month_of(connection, principal, project_id, NO_LIMIT if own is None else own)
    return Month(budget_id, None if user_micros is None else UserMonth(this_month(), user_micros))


def month_of(connection: Connection, principal: Principal, project_id: int, limit: int) -> str:
    """Return the budget of a project for this month, with the limit that the project has now."""
    rows = BudgetRepository(connection, principal)
    scope = this_month()
    known = rows.find(project_id, "month", scope)
    if known is None:  # others may open it in this moment too
        rows.add(Budget(uuid7(), project_id, "month", scope, limit, 0, 0))
        known = rows.find(project_id, "month", scope)
    if known is None:
        raise BudgetExceeded("The project's budget for the month can't be opened.")
    if known.limit_micros != limit:
        rows.set_limit(known.id, limit)
    return known.id
