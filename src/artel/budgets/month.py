"""What a project may spend in a month."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.budget_repository import Budget, BudgetRepository
from artel.budgets.money import micros
from artel.errors import BudgetExceeded
from artel.ids import uuid7


def monthly_limit(settings: Mapping[str, Any]) -> int | None:
    """Answer what a project's settings allow in a month, in millionths; None if they say nothing of it."""
    said = settings.get("monthly_budget_usd")
    is_amount = isinstance(said, int | float) and not isinstance(said, bool)
    return micros(float(said)) if is_amount and said is not None and said >= 0 else None


def month_of(connection: Connection, principal: Principal, project_id: int, limit: int) -> str:
    """Answer the budget of a project for this month, with the limit that the project has now."""
    rows = BudgetRepository(connection, principal)
    scope = f"{datetime.now(UTC):%Y-%m}"
    known = rows.find(project_id, "month", scope)
    if known is None:  # others may open it in this moment too
        rows.add(Budget(uuid7(), project_id, "month", scope, limit, 0, 0))
        known = rows.find(project_id, "month", scope)
    if known is None:
        raise BudgetExceeded("The project's budget for the month can't be opened.")
    if known.limit_micros != limit:
        rows.set_limit(known.id, limit)
    return known.id
