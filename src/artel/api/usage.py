"""Endpoint for the usage of your model calls."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BeforeValidator

from artel.api.dependencies import CurrentUser, Paging, Services
from artel.api.problems import documented
from artel.budgets.usage import report_usage
from artel.contract.http import MAX_ID
from artel.contract.spaces import UsageReport
from artel.errors import RangeInvalid

MAX_DAYS = 366
DEFAULT_DAYS = 30
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _iso_day(text: object) -> object:
    if isinstance(text, str) and not _DAY.fullmatch(text):
        raise ValueError("must be a day such as 2026-11-16")
    return text


# Only ISO dates: pydantic would take a number for seconds since 1970.
Day = Annotated[date | None, BeforeValidator(_iso_day)]
From = Annotated[Day, Query(alias="from", description="First day (UTC); default: 30 days in total.")]
To = Annotated[Day, Query(description="Last day (UTC); default: today.")]
Group = Annotated[
    str,
    Query(
        pattern=r"^(day|project|agent|model)(,(day|project|agent|model)){0,3}$",
        description="Group by day, project, agent, model, or several of them separated by commas.",
        examples=["day,model"],
    ),
]
InProject = Annotated[int | None, Query(ge=0, le=MAX_ID, description="Only usage of this project.", examples=[1])]

router = APIRouter(prefix="/my/usage", tags=["usage"], responses=documented(401, 404, 422, 503))


@router.get("")
async def show_usage(
    user: CurrentUser,
    services: Services,
    paging: Paging,
    first: From = None,
    to: To = None,
    group: Group = "day",
    project_id: InProject = None,
) -> UsageReport:
    """Show tokens and cost of your model calls by day, project, agent and model, including deleted sessions."""
    last = to or datetime.now(UTC).date()
    first = first or date.fromordinal(max(1, last.toordinal() - DEFAULT_DAYS + 1))
    if not timedelta(0) <= last - first < timedelta(days=MAX_DAYS):
        raise RangeInvalid(f"Ask for 1 to {MAX_DAYS} days: `from` must not be after `to`.")
    groups = list(dict.fromkeys(group.split(",")))
    return await services.database.read(report_usage, user, first, last, groups, project_id, paging)
