"""Monthly budgets: a project's own, and its user's over all projects."""

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
    """Return the monthly limit of a project's settings in micros; None if there is none."""
    limit = settings.get("monthly_budget_usd")
    if not isinstance(limit, int | float) or isinstance(limit, bool) or limit < 0:
        return None
    return micros(float(limit))


@dataclass(frozen=True, slots=True)
class Month:
    """The monthly budgets that a turn's calls draw on: the project's, and the user's limit if there is one."""

    budget_id: str
    user: UserMonth | None


def month_for(
    connection: Connection,
    principal: Principal,
    project_id: int,
    settings: Mapping[str, Any],
    user_micros: int | None,
) -> Month | None:
    """Return the monthly budgets for calls in a project; None if neither the project nor its user has a limit."""
    own = monthly_limit(settings)
    if own is None and user_micros is None:
        return None
    budget_id = ensure_month_budget(connection, principal, project_id, NO_LIMIT if own is None else own)
    return Month(budget_id, None if user_micros is None else UserMonth(this_month(), user_micros))


def ensure_month_budget(connection: Connection, principal: Principal, project_id: int, limit: int) -> str:
    """Return the id of the project's budget for this month; create it, or set its limit, if necessary."""
    rows = BudgetRepository(connection, principal)
    scope = this_month()
    budget = rows.find(project_id, "month", scope)
    if budget is None:  # another transaction may create it concurrently: `add` ignores a duplicate
        rows.add(Budget(uuid7(), project_id, "month", scope, limit, 0, 0))
        budget = rows.find(project_id, "month", scope)
    if budget is None:
        raise BudgetExceeded("The project's monthly budget could not be created. Try again.")
    if budget.limit_micros != limit:
        rows.set_limit(budget.id, limit)
    return budget.id
