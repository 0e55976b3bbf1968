"""Contract of the budget guard on SQLite and PostgreSQL: every reservation is settled."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from artel.auth.accounts import create_account
from artel.budgets.guard import TurnBudgetGuard, _reserve
from artel.budgets.month import Month
from artel.budgets.repository import BudgetRepository, Reservation
from artel.contract.http import NewProject
from artel.db import schema
from artel.db.engine import Database
from artel.db.tx import Tx
from artel.errors import BudgetExceeded
from artel.ids import uuid7
from artel.projects.transactions import create_project
from artel.sessions.deletion import delete_session
from artel.turns.end import end_turn
from artel.turns.transactions import TurnOver
from tests.actors.chat_user import RULES, answer
from tests.actors.payer import DOLLAR, Payer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def payer(upgraded_database: Callable[[], str]) -> AsyncIterator[Payer]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Money"), RULES)
    yield Payer(database, user, project.id, project.agents[0].id)
    await database.close()


async def test_nothing_is_reserved_for_ending_turn(payer: Payer) -> None:
    budget_guard = await payer.begin()

    turn = await payer.turn(payer.session_id, payer.turn_id)

    def end(connection: Connection) -> None:
        end_turn(Tx(connection, payer.user), turn, answer("Hi"))

    async with payer.held(end) as commit:
        reserving = asyncio.get_running_loop().create_task(budget_guard.reserve(0.1))
        await payer.has_done_or_waits(reserving)
        commit()
        with pytest.raises(TurnOver):
            await reserving

    assert await payer.stands() == (0, 0)


async def test_nothing_is_reserved_for_session_being_deleted(payer: Payer) -> None:
    budget_guard = await payer.begin()

    async with payer.held(lambda c: delete_session(Tx(c, payer.user), payer.session_id)) as commit:
        reserving = asyncio.get_running_loop().create_task(budget_guard.reserve(0.1))
        await payer.has_done_or_waits(reserving)
        commit()
        with pytest.raises(TurnOver):
            await reserving

    assert await payer.stands() == (0, 0)


@pytest.mark.parametrize("end", ["finished", "deleted"])
async def test_open_reservation_counts_as_spent_when_turn_ends(payer: Payer, end: str) -> None:
    await payer.begin()
    request = Reservation(uuid7(), [payer.month], payer.project_id, payer.turn_id, 100_000, None)

    async with payer.held(lambda c: _reserve(Tx(c, payer.user), request, True)) as commit:
        ending: asyncio.Future[Any]
        if end == "finished":
            ending = asyncio.ensure_future(payer.finish(payer.session_id, payer.turn_id))
        else:
            ending = asyncio.ensure_future(payer.database.of(payer.user).run(delete_session, payer.session_id))
        await payer.has_done_or_waits(ending)
        commit()
        await ending

    assert await payer.stands() == (100_000, 0)


async def test_call_cancelled_while_reserving_leaves_no_reservation(payer: Payer) -> None:
    budget_guard = await payer.begin()

    async with payer.held(lambda c: BudgetRepository(c, payer.user).lock(payer.month)) as commit:
        reserving = asyncio.get_running_loop().create_task(budget_guard.reserve(0.1))
        await payer.has_done_or_waits(reserving)
        reserving.cancel()
        commit()
        with pytest.raises(asyncio.CancelledError):
            await reserving

    assert await payer.stands() == (0, 0)
    assert await payer.finish(payer.session_id, payer.turn_id)
    assert await payer.stands() == (0, 0)


async def test_reserves_what_is_left_and_keeps_the_reservation_of_a_crashed_host(payer: Payer) -> None:
    budget_guard = await payer.begin()
    call_id = uuid7()
    await budget_guard.reserve(0.7)

    assert await budget_guard.reserve_at_most(call_id, 0.5, 0.1) == pytest.approx(0.3)

    turn = await payer.turn(payer.session_id, payer.turn_id)
    successor = TurnBudgetGuard(payer.database.of(payer.user), turn, Month(payer.month, None))
    assert await successor.reserve_at_most(call_id, 0.5, 0.1) == pytest.approx(0.3)
    assert await payer.stands() == (0, DOLLAR)
    await successor.settle(call_id, 0.05)
    await successor.settle(call_id, 0.05)  # the answer came twice
    assert await payer.stands() == (50_000, 700_000)


async def test_nothing_is_reserved_if_less_is_left_than_one_call_may_cost(payer: Payer) -> None:
    budget_guard = await payer.begin()
    await budget_guard.reserve(0.95)

    with pytest.raises(BudgetExceeded, match=r"\$0\.0500 of \$1\.00"):
        await budget_guard.reserve_at_most(uuid7(), 0.5, 0.1)

    assert await payer.stands() == (0, 950_000)


@pytest.mark.req("AGT-01.3")
async def test_call_that_nothing_is_reserved_for_is_charged_once(payer: Payer) -> None:
    budget_guard = await payer.begin()
    call_id, unknown = uuid7(), uuid7()
    await budget_guard.settle(await budget_guard.reserve(1), 1.5)  # nothing is left

    assert await budget_guard.expect(call_id, 0.5) == 0
    assert await budget_guard.expect(call_id, 0.5) == 0  # a host crashed
    assert await budget_guard.expect(unknown, 0.5) == 0
    assert await payer.stands() == (1_500_000, 0)
    for _ in range(2):  # the answer came twice
        await budget_guard.settle(call_id, 0.05)
    await budget_guard.settle(unknown, None)
    assert await payer.stands() == (1_550_000, 0)

    await payer.finish(payer.session_id, payer.turn_id)
    with pytest.raises(TurnOver):
        await budget_guard.expect(uuid7(), 0.5)
