"""The activity of a project over time, from what turns, tasks and usage store anyway."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Select, Table, case, func, literal

from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.budgets.money import dollars, micros_or_none
from artel.budgets.month import this_month
from artel.budgets.repository import BudgetRepository
from artel.budgets.usage import UsageRepository
from artel.contract.activity import (
    Activity,
    ActivityBucket,
    ActivityFigures,
    ActivityRange,
    AgentActivity,
    MonthSpending,
)
from artel.db.dialect import bucket_of, seconds_of
from artel.db.engine import SEARCHERS, Database
from artel.db.tables import tasks, turns
from artel.db.tenant import TenantRepository
from artel.errors import ActivityTooLong, ServerBusy
from artel.per_user_locks import PerUserLock
from artel.plans.plan import TaskStatus
from artel.projects.transactions import project_settings
from artel.turns.turn import PLAN_EXPIRED, TurnStatus

SECONDS = 5.0  # until a report is given up
MAX_REPORTS = 4  # per user, running and queued
MAX_AGENTS = 100
# Seconds of an interval, and their number. Intervals begin at full hours or days of UTC.
INTERVALS: dict[ActivityRange, tuple[int, int]] = {"24h": (3_600, 24), "7d": (21_600, 28), "30d": (86_400, 30)}

_ANSWERED = (TurnStatus.COMPLETED, TurnStatus.PARTIAL)
_HAS_FAILED = turns.c.status.in_((TurnStatus.FAILED, TurnStatus.TIMEOUT)) & turns.c.error_code.is_distinct_from(
    PLAN_EXPIRED
)
_TASK_HAS_FAILED = tasks.c.status.in_((TaskStatus.FAILED, TaskStatus.TIMEOUT))


class ActivityService:
    """Reports the activity of projects, a few reports at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reports = PerUserLock(SEARCHERS)

    async def report(self, user: Principal, project_id: int, wanted: ActivityRange) -> Activity:
        """Return the activity of a user's project."""
        if self._reports.count(user.user_id) >= MAX_REPORTS:
            raise ServerBusy("You already have several reports running. Try again in a moment.", retry_after=1)
        try:
            async with self._reports.lock(user.user_id):
                return await self._database.read_within(SECONDS, report, user, project_id, wanted)
        except TimeoutError:
            raise ActivityTooLong(
                f"The report timed out after {SECONDS:g} seconds. Ask for a shorter range, or try again later."
            ) from None


@dataclass(slots=True)
class _Agent:
    name: str = ""
    messages: int = 0
    failed: int = 0
    micros: int = 0
    last: datetime | None = None

    def add(self, messages: int, failed: int, last: datetime) -> None:
        self.messages += messages
        self.failed += failed
        self.last = max(self.last or last, last)


def report(connection: Connection, principal: Principal, project_id: int, wanted: ActivityRange) -> Activity:
    """Return the activity of a project, with intervals that begin at full hours or days."""
    settings = project_settings(connection, principal, project_id)
    seconds, count = INTERVALS[wanted]
    newest = int(datetime.now(UTC).timestamp()) // seconds * seconds
    since = datetime.fromtimestamp(newest - (count - 1) * seconds, UTC)
    ended = EndedTurnRepository(connection, principal)
    figures = ended.figures(project_id, since, seconds)
    spent = _spent(UsageRepository(connection, principal).by_minute(project_id, since), since, seconds, count)
    buckets = [
        ActivityBucket(at=since + timedelta(seconds=number * seconds), **_figures(figures.get(number), spent[number]))
        for number in range(count)
    ]
    total = ended.figures(project_id, since, seconds * (count + 1)).get(0)
    sums = sum(tokens for tokens, _ in spent), sum(cost for _, cost in spent)
    return Activity(
        range=wanted,
        bucket_seconds=seconds,
        buckets=buckets,
        totals=ActivityFigures(**_figures(total, sums)),
        month=_month(connection, principal, project_id, micros_or_none(settings.monthly_budget_usd)),
        by_agent=_by_agent(connection, principal, project_id, since),
    )


def _spent(
    usage: Sequence[tuple[datetime, int, int]], since: datetime, seconds: int, count: int
) -> list[tuple[int, int]]:
    """Return tokens and micros of each interval."""
    sums = [(0, 0)] * count
    for at, tokens, cost in usage:
        number = min(max(int((at - since).total_seconds() // seconds), 0), count - 1)
        sums[number] = sums[number][0] + tokens, sums[number][1] + cost
    return sums


def _figures(row: Any | None, spent: tuple[int, int]) -> dict[str, Any]:
    tokens, cost = spent
    return {
        "messages": int(row.messages) if row else 0,
        "failed": int(row.failed) if row else 0,
        "p50_ms": _whole(row.p50) if row else None,
        "p95_ms": _whole(row.p95) if row else None,
        "cost_usd": dollars(cost),
        "tokens": tokens,
    }


def _whole(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else max(0, round(milliseconds))


def _month(connection: Connection, principal: Principal, project_id: int, limit: int | None) -> MonthSpending:
    """Return what counts against the project's monthly budget; without one, what the calls of the month cost."""
    if limit is None:
        cost = UsageRepository(connection, principal).cost_of_month(this_month(), project_id)
        return MonthSpending(spent_usd=dollars(cost), limit_usd=None)
    budget = BudgetRepository(connection, principal).find(project_id, "month", this_month())
    return MonthSpending(spent_usd=dollars(budget.spent_micros if budget else 0), limit_usd=dollars(limit))


def _by_agent(connection: Connection, principal: Principal, project_id: int, since: datetime) -> list[AgentActivity]:
    agents: defaultdict[int | None, _Agent] = defaultdict(_Agent)
    for agent_id, name, cost in UsageRepository(connection, principal).by_agent(project_id, since, MAX_AGENTS):
        agents[agent_id].name, agents[agent_id].micros = name, cost
    answered = EndedTurnRepository(connection, principal).by_agent(project_id, since, MAX_AGENTS)
    worked = EndedTaskRepository(connection, principal).by_agent(project_id, since, MAX_AGENTS)
    for row in (*answered, *worked):
        agents[row.agent_id].add(int(row.messages), int(row.failed), row.last)
    names = AgentRepository(connection, principal).by_id(project_id)
    items = [
        AgentActivity(
            agent_id=agent_id,
            agent=names.get(agent_id, found.name) if agent_id is not None else "",
            messages=found.messages,
            failed=found.failed,
            cost_usd=dollars(found.micros),
            last_used_at=found.last,
        )
        for agent_id, found in agents.items()
    ]
    items.sort(key=lambda item: (-item.cost_usd, -item.messages, item.agent_id or 0))
    return items[:MAX_AGENTS]


class EndedTaskRepository(TenantRepository):
    """Ended tasks of one user's plans."""

    table = tasks

    def by_agent(self, project_id: int, since: datetime, most: int) -> Sequence[Any]:
        """Return number, failures and last end of the tasks of each agent, the most used first."""
        started = *_ended(tasks, project_id, since), tasks.c.started_at.is_not(None)
        counted = _counted(self._select(tasks.c.agent_id).where(*started), tasks, _TASK_HAS_FAILED)
        return self.connection.execute(counted.limit(most)).all()


class EndedTurnRepository(TenantRepository):
    """Ended turns of one user."""

    table = turns

    def by_agent(self, project_id: int, since: datetime, most: int) -> Sequence[Any]:
        """Return number, failures and last end of the turns of each agent, the most used first."""
        ended = self._select(turns.c.agent_id).where(*_ended(turns, project_id, since))
        return self.connection.execute(_counted(ended, turns, _HAS_FAILED).limit(most)).all()

    def figures(self, project_id: int, since: datetime, seconds: int) -> dict[int, Any]:
        """Return number, failures and percentiles of the time to answer, by number of the interval."""
        bucket = bucket_of(self.connection, turns.c.finished_at, since, seconds)
        start, end = (seconds_of(self.connection, column) for column in (turns.c.started_at, turns.c.finished_at))
        took = (end - start) * 1000
        is_answer = turns.c.status.in_(_ANSWERED) & turns.c.started_at.is_not(None)
        kind = case((is_answer, 1), else_=0)
        same_kind = [bucket, kind]
        ranked = (
            self._select(turns.c.id)
            .add_columns(
                bucket.label("bucket"),
                case((_HAS_FAILED, 1), else_=0).label("is_failed"),
                kind.label("is_answer"),
                took.label("took"),
                func.row_number().over(partition_by=same_kind, order_by=took).label("position"),
                func.count().over(partition_by=same_kind).label("number"),
            )
            .where(*_ended(turns, project_id, since))
            .subquery()
            .c
        )
        grouped = ranked.bucket.table.select().with_only_columns(
            ranked.bucket,
            func.count().label("messages"),
            func.sum(ranked.is_failed).label("failed"),
            _percentile(ranked, 50).label("p50"),
            _percentile(ranked, 95).label("p95"),
        )
        return {row.bucket: row for row in self.connection.execute(grouped.group_by(ranked.bucket))}


def _ended(table: Table, project_id: int, since: datetime) -> tuple[ColumnElement[bool], ...]:
    return table.c.project_id == project_id, table.c.finished_at >= since


def _counted(of_agents: Select[Any], table: Table, has_failed: ColumnElement[bool]) -> Select[Any]:
    """Return number, failures and last end for each agent of a selection of rows."""
    messages = func.count().label("messages")
    failures = func.count().filter(has_failed).label("failed")
    counted = of_agents.add_columns(messages, failures, func.max(table.c.finished_at).label("last"))
    return counted.group_by(table.c.agent_id).order_by(messages.desc())


def _percentile(ranked: Any, percent: int) -> ColumnElement[Any]:
    """Return the smallest time that so many percent of the answers do not exceed."""
    position = (ranked.number * percent + literal(99, Integer)) // 100
    is_wanted = (ranked.is_answer == 1) & (ranked.position == position)
    return func.max(case((is_wanted, ranked.took)))
