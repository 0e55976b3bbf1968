"""Budgets on SQLite and PostgreSQL: concurrent calls never spend more than the limit."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from artel.auth.accounts import create_account
from artel.auth.principal import Principal
from artel.budgets.repository import (
    Budget,
    BudgetRepository,
    Reservation,
    UserBudgetRepository,
    UserMonth,
    reserve,
    settle,
    settle_turn,
)
from artel.budgets.usage import UsageRepository
from artel.contract.chat import UsageShown
from artel.contract.http import NewProject
from artel.contract.parked_run import UsageShare
from artel.db import schema
from artel.db.engine import Database
from artel.errors import BudgetExceeded
from artel.ids import uuid7
from artel.projects.deletion import delete_project
from artel.projects.transactions import create_project
from tests.actors.chat_user import RULES

pytestmark = pytest.mark.anyio

DOLLAR = 1_000_000


@dataclass
class Money:
    """Budgets of one project."""

    database: Database
    user: Principal
    project_id: int

    async def budget(self, limit: int, kind: str = "plan") -> str:
        budget = Budget(uuid7(), self.project_id, kind, uuid7()[:36], limit, 0, 0)
        await self.database.run(lambda c: BudgetRepository(c, self.user).add(budget))
        return budget.id

    async def reserve(self, amount: int, *budgets: str, turn_id: str = "turn") -> str:
        call_id = uuid7()
        await self.database.of(self.user).run(reserve, Reservation(call_id, budgets, self.project_id, turn_id, amount))
        return call_id

    async def settle(self, call_id: str, spent: int | None) -> None:
        await self.database.of(self.user).run(settle, call_id, spent)

    async def stands(self, budget_id: str) -> Budget:
        found = await self.database.read(lambda c: BudgetRepository(c, self.user).get(budget_id))
        assert found is not None
        return found


@pytest.fixture
async def money(upgraded_database: Callable[[], str]) -> AsyncIterator[Money]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Money"), RULES)
    yield Money(database, user, project.id)
    await database.close()


async def test_fifty_concurrent_calls_spend_at_most_the_limit(money: Money) -> None:
    plan, month = await money.budget(DOLLAR), await money.budget(100 * DOLLAR, "month")

    async def call() -> int:
        try:
            call_id = await money.reserve(90_000, plan, month)
        except BudgetExceeded:
            return 0
        await asyncio.sleep(0)
        await money.settle(call_id, 85_000)
        return 85_000

    spent = await asyncio.gather(*(call() for _ in range(50)))

    budget = await money.stands(plan)
    assert budget.spent_micros == sum(spent)
    assert DOLLAR - 90_000 < budget.spent_micros <= DOLLAR
    assert budget.reserved_micros == 0
    assert (await money.stands(month)).spent_micros == sum(spent)


@pytest.mark.req("SEC-05.2")
async def test_fifty_concurrent_calls_in_two_projects_stay_within_the_user_budget(money: Money) -> None:
    other = await money.database.of(money.user).run(create_project, NewProject(name="Other"), RULES)
    budgets = [
        await replace(money, project_id=project).budget(100 * DOLLAR, "month")
        for project in (money.project_id, other.id)
    ]
    month = UserMonth("2026-11", DOLLAR)

    async def call(number: int) -> int:
        call_id, project = uuid7(), (money.project_id, other.id)[number % 2]
        try:
            reservation = Reservation(call_id, [budgets[number % 2]], project, "turn", 90_000, month)
            await money.database.of(money.user).run(reserve, reservation)
        except BudgetExceeded:
            return 0
        await money.settle(call_id, 85_000)
        return 85_000

    spent = await asyncio.gather(*(call(number) for number in range(50)))

    assert DOLLAR - 90_000 < sum(spent) <= DOLLAR
    assert await money.database.run(lambda c: UserBudgetRepository(c, money.user).spent("2026-11")) == sum(spent)


@pytest.mark.req("SEC-05.2")
async def test_reservations_of_a_deleted_project_count_as_spent(money: Money) -> None:
    month = await money.budget(DOLLAR, "month")
    user_month = UserMonth("2026-11", DOLLAR)
    reservation = Reservation(uuid7(), [month], money.project_id, "turn", 90_000, user_month)
    await money.database.of(money.user).run(reserve, reservation)

    await money.database.of(money.user).run(delete_project, money.project_id)

    assert await money.database.run(lambda c: UserBudgetRepository(c, money.user).spent("2026-11")) == 90_000


async def test_refused_call_reserves_nothing_in_its_other_budgets(money: Money) -> None:
    plan, month = await money.budget(DOLLAR), await money.budget(10_000, "month")

    with pytest.raises(BudgetExceeded) as refused:
        await money.reserve(20_000, plan, month)

    assert refused.value.budget_id == month
    assert "$0.0200" in refused.value.detail
    assert (await money.stands(plan)).left_micros == DOLLAR
    assert (await money.stands(month)).left_micros == 10_000


async def test_call_is_settled_in_lock_order(money: Money, monkeypatch: pytest.MonkeyPatch) -> None:
    month, plan = await money.budget(DOLLAR, "month"), await money.budget(DOLLAR)  # a month is older than its plans
    changed: list[str] = []

    for name in ("reserve", "settle"):
        change = getattr(BudgetRepository, name)

        def noted(rows: BudgetRepository, budget_id: str, *amounts: int, change: Any = change) -> Any:
            changed.append(budget_id)
            return change(rows, budget_id, *amounts)

        monkeypatch.setattr(BudgetRepository, name, noted)

    await money.settle(await money.reserve(500, plan, month), 100)
    await money.reserve(500, plan, month, turn_id="dead")
    await money.database.of(money.user).run(settle_turn, "dead")

    assert changed == [plan, month] * 4
    assert (await money.stands(plan)).spent_micros == (await money.stands(month)).spent_micros == 600


async def test_settling_is_idempotent_and_lost_calls_count_their_reservation(money: Money) -> None:
    plan = await money.budget(DOLLAR)
    counted, died = await money.reserve(100_000, plan), await money.reserve(200_000, plan, turn_id="dead")

    await money.settle(counted, 1_000)
    await money.settle(counted, 1_000)
    await money.database.of(money.user).run(settle_turn, "dead")
    await money.database.of(money.user).run(settle_turn, "dead")
    await money.settle(died, 5)

    budget = await money.stands(plan)
    assert (budget.spent_micros, budget.reserved_micros) == (201_000, 0)


async def test_changing_the_limit_keeps_what_was_spent(money: Money) -> None:
    plan = await money.budget(100)
    await money.settle(await money.reserve(100, plan), 100)
    with pytest.raises(BudgetExceeded):
        await money.reserve(1, plan)

    await money.database.run(lambda c: BudgetRepository(c, money.user).set_limit(plan, 150))
    await money.settle(await money.reserve(50, plan), 50)
    await money.database.run(lambda c: BudgetRepository(c, money.user).set_limit(plan, 10))

    with pytest.raises(BudgetExceeded):
        await money.reserve(1, plan)
    assert (await money.stands(plan)).spent_micros == 150


@pytest.mark.parametrize("seed", range(5))
async def test_spent_and_reserved_never_exceed_the_limit(money: Money, seed: int) -> None:
    chance = random.Random(seed)
    plan = await money.budget(1_000)
    open_calls: dict[str, int] = {}
    spent = 0
    for _ in range(60):
        if open_calls and chance.random() < 0.5:
            call_id = chance.choice(sorted(open_calls))
            reserved = open_calls.pop(call_id)
            cost = chance.choice([None, 0, reserved // 2, reserved])
            await money.settle(call_id, cost)
            spent += reserved if cost is None else cost
        else:
            amount = chance.randrange(1, 400)
            fits = spent + sum(open_calls.values()) + amount <= 1_000
            try:
                open_calls[await money.reserve(amount, plan)] = amount
                assert fits
            except BudgetExceeded:
                assert not fits
        budget = await money.stands(plan)
        assert (budget.spent_micros, budget.reserved_micros) == (spent, sum(open_calls.values()))
        assert budget.left_micros >= 0


async def test_budget_of_another_user_cannot_be_spent(money: Money) -> None:
    plan = await money.budget(DOLLAR)
    stranger = (await money.database.run(create_account, "eve@example.org", None)).principal
    theirs = await money.database.of(stranger).run(create_project, NewProject(name="Theirs"), RULES)

    with pytest.raises(BudgetExceeded):
        await money.database.of(stranger).run(reserve, Reservation(uuid7(), [plan], theirs.id, "turn", 1))
    call_id = await money.reserve(100, plan)
    await money.database.of(stranger).run(settle, call_id, 0)

    assert (await money.stands(plan)).reserved_micros == 100


@pytest.mark.req("UWS-25.2")
async def test_cost_by_agent_counts_from_a_time_of_a_day(money: Money) -> None:
    day = datetime(2099, 1, 1, tzinfo=UTC)  # the row is of this day, and was made now
    share = UsageShare(agent_id=None, agent="agent_coder", usage=UsageShown(model="m", cost_usd=0.25))
    await money.database.run(
        lambda c: UsageRepository(c, money.user).add(money.project_id, "session", "turn", day, [share])
    )

    async def costs(since: datetime) -> list[tuple[int | None, str, int]]:
        return await money.database.read(lambda c: UsageRepository(c, money.user).by_agent(money.project_id, since, 10))

    assert await costs(datetime.now(UTC) - timedelta(hours=1)) == [(None, "agent_coder", 250_000)]
    assert await costs(day + timedelta(hours=12)) == []
