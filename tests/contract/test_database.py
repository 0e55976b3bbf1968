"""The contract of `Database`, on SQLite and PostgreSQL."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Connection, Integer, MetaData, Table, delete, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from artel.auth.principal import Principal
from artel.db import engine, schema, tables
from artel.db.engine import Database
from artel.db.tx import Tx
from artel.errors import ArtelError, DatabaseUnavailable

pytestmark = pytest.mark.anyio

numbers = Table(
    "numbers", MetaData(), Column("id", Integer, primary_key=True), Column("value", Integer, nullable=False)
)


@pytest.fixture(scope="module")
def url(new_database: Callable[..., str]) -> str:
    return new_database().replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url, connections=4)
    await database.run(numbers.metadata.drop_all)
    await database.run(numbers.metadata.create_all)
    yield database
    await database.close()


def add(connection: Connection, number: int, value: int = 0) -> None:
    connection.execute(insert(numbers).values(id=number, value=value))


def all_numbers(connection: Connection) -> dict[int, int]:
    return {row.id: row.value for row in connection.execute(select(numbers))}


async def test_transaction_that_returns_is_committed(database: Database) -> None:
    await database.run(add, 1, value=10)

    assert await database.read(all_numbers) == {1: 10}


async def test_transaction_that_raises_is_rolled_back(database: Database) -> None:
    def half(connection: Connection) -> None:
        add(connection, 1)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        await database.run(half)

    assert await database.read(all_numbers) == {}


async def test_read_refuses_to_write(database: Database) -> None:
    with pytest.raises((DBAPIError, ArtelError)):
        await database.read(add, 1)

    assert await database.read(all_numbers) == {}


async def test_all_statements_of_a_read_see_the_same_snapshot(database: Database) -> None:
    read_once, go_on = threading.Event(), threading.Event()

    def twice(connection: Connection) -> tuple[dict[int, int], dict[int, int]]:
        first = all_numbers(connection)
        read_once.set()
        assert go_on.wait(10)
        return first, all_numbers(connection)

    def change(connection: Connection) -> None:
        connection.execute(update(numbers).values(value=2))
        add(connection, 2)

    await database.run(add, 1, value=1)
    for read in (database.read(twice), database.read_within(10, twice)):
        reading = asyncio.create_task(read)
        assert await asyncio.to_thread(read_once.wait, 10)
        before = await database.read(all_numbers)
        await database.run(change)
        go_on.set()

        assert await reading == (before, before)
        assert await database.read(all_numbers) == {1: 2, 2: 0}
        await database.run(lambda connection: connection.execute(delete(numbers).where(numbers.c.id == 2)))
        read_once.clear()
        go_on.clear()


@pytest.mark.parametrize("backend", ["postgres"], indirect=True, scope="session")  # SQLite has one writer at a time
async def test_a_writer_sees_commits_of_others_after_its_connection_was_used_for_reading(url: str) -> None:
    database = Database(url, connections=1)
    await database.run(numbers.metadata.drop_all)
    await database.run(numbers.metadata.create_all)
    other = Database(url)
    await database.read(all_numbers)

    def twice(connection: Connection) -> list[int]:
        counts = [len(all_numbers(connection))]
        asyncio.run_coroutine_threadsafe(other.run(add, 1), loop).result(10)
        return [*counts, len(all_numbers(connection))]

    loop = asyncio.get_running_loop()
    assert await database.run(twice) == [0, 1]
    for each in (database, other):
        await each.close()


async def test_cancelling_the_caller_does_not_stop_the_transaction(database: Database) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        add(connection, 1)
        started.set()
        assert go_on.wait(10)
        add(connection, 2)

    caller = asyncio.create_task(database.run(slow))
    await asyncio.to_thread(started.wait, 10)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()

    await database.close()  # waits for running transactions
    again = Database(database.engine.url.render_as_string(hide_password=False))
    assert await again.read(all_numbers) == {1: 0, 2: 0}
    await again.close()


async def test_hints_are_sent_after_the_commit_and_before_the_caller_goes_on(database: Database) -> None:
    sent: list[object] = []

    def fail(_hint: str) -> None:
        raise ValueError("an error of one handler is not the others'")

    database.on_commit(int, sent.append)
    database.on_commit(str, fail)

    def write(tx: Tx, number: int) -> int:
        add(tx.connection, number)
        for hint in ("bad", number, number, 2.5):  # nobody wants the last one
            tx.after_commit(hint)
        return len(sent)

    assert await database.of(Principal(1)).run(write, 7) == 0
    assert sent == [7]


async def test_hints_of_a_transaction_that_fails_are_not_sent(database: Database) -> None:
    sent: list[int] = []
    database.on_commit(int, sent.append)
    await database.run(add, 2)

    def write(tx: Tx, number: int) -> None:
        tx.after_commit(number)
        add(tx.connection, number)
        if number == 3:
            raise RuntimeError("in the middle")

    # SQLite runs them together first, and again one by one after the database error of the second.
    outcomes = await asyncio.gather(
        *(database.of(Principal(1)).run(write, number) for number in (1, 2, 3, 4)), return_exceptions=True
    )

    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, True, False]
    assert sorted(sent) == [1, 4]


async def test_hints_are_sent_although_the_caller_was_cancelled(database: Database) -> None:
    started, go_on, sent = threading.Event(), threading.Event(), asyncio.Event()
    database.on_commit(int, lambda _: sent.set())

    def slow(tx: Tx) -> None:
        started.set()
        assert go_on.wait(10)
        tx.after_commit(1)

    caller = asyncio.create_task(database.of(Principal(1)).run(slow))
    await asyncio.to_thread(started.wait, 10)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not sent.is_set()
    go_on.set()

    await asyncio.wait_for(sent.wait(), 10)


async def test_concurrent_writers_all_succeed(database: Database) -> None:
    await database.run(add, 0)

    def increment(connection: Connection) -> None:
        connection.execute(update(numbers).where(numbers.c.id == 0).values(value=numbers.c.value + 1))

    await asyncio.gather(*(database.run(increment) for _ in range(300)))

    assert await database.read(all_numbers) == {0: 300}


Outcome = Literal["commits", "raises", "breaks a rule"]


@given(expected_outcomes=st.lists(st.sampled_from(get_args(Outcome)), min_size=1, max_size=40))
@settings(max_examples=25)
def test_queued_transactions_succeed_or_fail_independently(url: str, expected_outcomes: list[Outcome]) -> None:
    def write(connection: Connection, number: int, wanted: Outcome) -> int:
        add(connection, number)
        if wanted == "raises":
            raise RuntimeError(number)
        add(connection, number if wanted == "breaks a rule" else number + 1000)
        return number

    async def run_concurrently() -> None:
        database = Database(url, connections=4)
        try:
            await database.run(numbers.metadata.drop_all)
            await database.run(numbers.metadata.create_all)
            outcomes = await asyncio.gather(
                *(database.run(write, *each) for each in enumerate(expected_outcomes)), return_exceptions=True
            )
            good = [number for number, wanted in enumerate(expected_outcomes) if wanted == "commits"]
            assert [outcome for outcome in outcomes if isinstance(outcome, int)] == good
            for outcome, wanted in zip(outcomes, expected_outcomes, strict=True):
                expected = {"commits": int, "raises": RuntimeError, "breaks a rule": IntegrityError}[wanted]
                assert isinstance(outcome, expected)
            assert set(await database.read(all_numbers)) == {*good, *(number + 1000 for number in good)}
        finally:
            await database.close()

    asyncio.run(run_concurrently())


async def test_transaction_that_rolls_back_itself_does_not_affect_others(database: Database) -> None:
    def end(connection: Connection) -> None:
        add(connection, 100)
        connection.exec_driver_sql("ROLLBACK")
        raise RuntimeError("ended")

    ends = [database.run(end), *(database.run(add, number) for number in range(5)), database.run(end)]
    outcomes = await asyncio.gather(*ends, return_exceptions=True)

    assert [isinstance(outcome, Exception) for outcome in outcomes] == [True] + [False] * 5 + [True]
    await database.run(add, 7)
    assert set(await database.read(all_numbers)) == {0, 1, 2, 3, 4, 7}


async def test_locked_database_fails_all_queued_transactions(
    new_database: Callable[..., str], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LOCK_WAIT_SECONDS", 1)
    url = new_database().replace("postgresql:", "postgresql+psycopg:")
    database, other = Database(url, connections=4), Database(url)
    await other.run(numbers.metadata.create_all)
    started, go_on = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        if backend == "postgres":
            connection.exec_driver_sql("LOCK TABLE numbers")
        started.set()
        assert go_on.wait(30)

    holding = asyncio.create_task(other.run(hold))
    await asyncio.to_thread(started.wait, 10)
    outcomes = await asyncio.gather(*(database.run(add, number) for number in range(6)), return_exceptions=True)
    go_on.set()
    await holding

    assert [type(outcome) for outcome in outcomes] == [DatabaseUnavailable] * 6
    await asyncio.gather(*(database.run(add, number) for number in range(6)))
    assert len(await database.read(all_numbers)) == 6
    await database.close()
    await other.close()


async def test_close_finishes_running_and_drops_queued_transactions(
    database: Database,
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        started.set()
        assert go_on.wait(10)
        add(connection, 1)

    running = asyncio.create_task(database.run(slow))
    await asyncio.to_thread(started.wait, 10)
    if database.is_sqlite:  # on PostgreSQL it would run on another connection
        waiting = asyncio.create_task(database.run(add, 2))
        await asyncio.sleep(0)
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    go_on.set()
    await running
    await closing
    if database.is_sqlite:
        with pytest.raises(asyncio.CancelledError):
            await waiting
    again = Database(database.engine.url.render_as_string(hide_password=False))
    assert await again.read(all_numbers) == {1: 0}
    await again.close()


async def test_deadlock_is_retried_until_both_succeed(database: Database, backend: str) -> None:
    await database.run(add, 1)
    await database.run(add, 2)
    together = threading.Barrier(2, timeout=60)
    attempts = []

    def in_order(connection: Connection, first: int, second: int) -> None:
        connection.execute(update(numbers).where(numbers.c.id == first).values(value=numbers.c.value + 1))
        attempts.append(first)
        if len(attempts) <= 2 and backend == "postgres":  # SQLite has only one writer
            together.wait()
        connection.execute(update(numbers).where(numbers.c.id == second).values(value=numbers.c.value + 1))

    await asyncio.gather(database.run(in_order, 1, 2), database.run(in_order, 2, 1))

    assert await database.read(all_numbers) == {1: 2, 2: 2}
    assert len(attempts) >= 3 if backend == "postgres" else len(attempts) == 2  # another deadlock may follow


async def test_transactions_beyond_the_queue_limit_are_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_WAITING", 5)
    go_on = threading.Event()

    def wait(_connection: Connection) -> bool:
        return go_on.wait(10)

    accepted = [asyncio.create_task(database.run(wait)) for _ in range(5)]
    await asyncio.sleep(0)
    with pytest.raises(DatabaseUnavailable):
        await database.run(all_numbers)
    go_on.set()

    assert await asyncio.gather(*accepted) == [True] * 5
    assert await database.run(all_numbers) == {}


async def test_unreachable_database_is_a_clear_error(backend: str, tmp_path: object) -> None:
    url = (
        f"sqlite:///{tmp_path}/no/folder/artel.db" if backend == "sqlite" else "postgresql+psycopg://app@127.0.0.1:1/x"
    )
    database = Database(url)

    with pytest.raises((DatabaseUnavailable, DBAPIError)) as caught:
        await database.run(all_numbers)

    assert isinstance(caught.value, DatabaseUnavailable)
    assert caught.value.retry_after
    await database.close()


async def test_connections_closed_by_the_database_are_replaced(database: Database, backend: str) -> None:
    await database.run(add, 1)
    if backend == "postgres":
        await database.run(
            lambda connection: connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )

    answers = await asyncio.gather(*(database.read(all_numbers) for _ in range(8)))

    assert answers == [{1: 0}] * 8


@pytest.mark.parametrize("step_by_step", [True, False])
async def test_migrations_create_the_schema_of_the_tables(new_database: Callable[..., str], step_by_step: bool) -> None:
    database = Database(new_database().replace("postgresql:", "postgresql+psycopg:"))
    if step_by_step:
        await database.run(schema.run_migrations)
    else:
        assert schema.upgrade(database.engine) == (None, schema.HEAD)

    def differences(connection: Connection) -> list[object]:
        # The metadata does not describe the full-text index of SQLite and its tables, nor PostgreSQL's index of grams.
        is_described = {"include_object": lambda _item, name, *_: not str(name).startswith("message_grams")}
        context = MigrationContext.configure(connection, opts=is_described)
        return compare_metadata(context, tables.metadata)  # type: ignore[no-any-return]

    assert await database.run(differences) == []
    row = await database.read(lambda c: c.execute(select(tables.installation)).one())
    assert row[:3] == (1, None, "0001")
    assert len(await database.read(schema.installation_key)) == 36
    assert await database.read(schema.require_usable) == schema.HEAD
    await database.close()


@pytest.mark.parametrize("backend", ["postgres"], indirect=True, scope="session")
async def test_migration_of_large_tables_has_no_time_limit(
    upgraded_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=1)
    await database.run(lambda connection: connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'"))

    def time_limit(connection: Connection) -> str:
        return str(connection.exec_driver_sql("SHOW statement_timeout").scalar_one())

    limits: list[str] = []
    monkeypatch.setattr(schema, "run_migrations", lambda connection: limits.append(time_limit(connection)))

    assert schema.upgrade(database.engine) == ("0001", schema.HEAD)
    assert limits == ["0"]
    assert await database.read(time_limit) == "30s"
    await database.close()


async def test_first_start_waits_for_another_that_begins_to_write(tmp_path: Path) -> None:
    path = tmp_path / "artel.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    database = Database(f"sqlite:///{path}")

    upgrading = asyncio.create_task(asyncio.to_thread(schema.upgrade, database.engine))
    done, _ = await asyncio.wait([upgrading], timeout=0.2)
    other.rollback()

    assert not done
    assert await upgrading == (None, schema.HEAD)
    await database.close()
    other.close()


def test_start_waits_for_another_that_recovers_after_a_crash() -> None:
    recovers = sqlite3.OperationalError("database is locked")
    recovers.sqlite_errorcode = sqlite3.SQLITE_BUSY_RECOVERY
    answers = [recovers]

    class Recovering(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if answers:
                raise answers.pop()
            return super().execute(sql, *values)

    connection = sqlite3.connect(":memory:", factory=Recovering)
    engine._use_wal(connection)
    connection.close()

    assert not answers


async def test_concurrent_upgrades_create_one_schema(new_database: Callable[..., str]) -> None:
    database = Database(new_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    others = [Database(str(database.engine.url.render_as_string(hide_password=False))) for _ in range(4)]

    results = await asyncio.gather(*(asyncio.to_thread(schema.upgrade, other.engine) for other in others))

    assert sorted(results, key=str) == [(schema.HEAD, schema.HEAD)] * 3 + [(None, schema.HEAD)]
    for each in (database, *others):
        await each.close()


async def test_foreign_key_ties_an_agent_to_the_user_of_its_project(
    upgraded_database: Callable[[], str],
) -> None:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"))
    schema.upgrade(database.engine)
    from artel.auth.accounts import create_account
    from artel.contract.http import NewProject
    from artel.projects.transactions import ProjectRules, create_project

    ada = await database.run(create_account, "ada@example.org", None)
    bob = await database.run(create_account, "bob@example.org", None)
    rules = ProjectRules(max_projects=10, max_agents=10, planner_model="gpt-4o")
    project = await database.of(ada.principal).run(create_project, NewProject(name="Ada's"), rules)

    def change_owner(connection: Connection) -> None:
        connection.execute(
            update(tables.agents).where(tables.agents.c.project_id == project.id).values(user_id=bob.user_id)
        )

    with pytest.raises(DBAPIError, match=r"(?i)foreign key"):
        await database.run(change_owner)
    await database.run(lambda connection: connection.execute(delete(tables.projects)))
    await database.close()


async def test_concurrent_requests_create_one_default_project(upgraded_database: Callable[[], str]) -> None:
    from artel.auth.accounts import create_account
    from artel.projects.repository import ProjectRepository
    from artel.projects.transactions import ProjectRules, ensure_default_project

    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"))
    schema.upgrade(database.engine)
    ada = (await database.run(create_account, "ada@example.org", None)).principal
    rules = ProjectRules(max_projects=10, max_agents=10, planner_model="gpt-4o")

    made = await asyncio.gather(*(database.of(ada).run(ensure_default_project, rules) for _ in range(10)))

    assert len({project.id for project in made}) == 1
    assert made[0].is_default
    await database.of(ada).run(lambda tx: ProjectRepository(tx).remove(made[0].id))
    assert (await database.of(ada).run(ensure_default_project, rules)).id > made[0].id
    await database.close()


FOREVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n WHERE x < 0"


@pytest.mark.req("SEC-02.6")
async def test_search_is_stopped_after_its_timeout(database: Database) -> None:
    await database.run(add, 1)
    with pytest.raises(TimeoutError):
        await database.read_within(0.2, lambda connection: connection.exec_driver_sql(FOREVER).scalar_one())

    # The connection can still be used.
    assert await database.read_within(60, all_numbers) == {1: 0}


@pytest.mark.req("SEC-02.6")
async def test_search_of_many_short_statements_is_stopped_after_its_timeout(database: Database) -> None:
    def search(connection: Connection) -> None:
        for _ in range(20_000):
            connection.exec_driver_sql("SELECT 1").scalar_one()

    with pytest.raises(TimeoutError):
        await database.read_within(0.05, search)
    assert await database.read_within(60, all_numbers) == {}


@pytest.mark.req("SEC-02.6")
async def test_searches_do_not_block_other_reads(database: Database) -> None:
    started, over = threading.Semaphore(0), threading.Event()

    def search(_: Connection) -> bool:
        started.release()
        return over.wait(60)

    searches = [asyncio.ensure_future(database.read_within(60, search)) for _ in range(4 * engine.SEARCHERS)]
    try:
        for _ in range(engine.SEARCHERS):
            assert await asyncio.to_thread(started.acquire, timeout=60)
        async with asyncio.timeout(20):
            assert await database.read(all_numbers) == {}
    finally:
        over.set()
    assert await asyncio.gather(*searches) == [True] * 4 * engine.SEARCHERS
