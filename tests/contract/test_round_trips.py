"""Prepared statements on PostgreSQL share round trips, and their errors, locks and checks are as without that."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    bindparam,
    insert,
    select,
    type_coerce,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from artel.db import pipeline
from artel.db.engine import Database
from artel.db.prepared import Statement, check_after_send
from tests.actors.chat_user import ChatUser

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("OPS-01.2"),
    pytest.mark.parametrize("backend", ["postgres"], indirect=True, scope="session"),
]

words = Table(
    "words", MetaData(), Column("id", Integer, primary_key=True, autoincrement=False), Column("word", String(100_000))
)
ADD = Statement(insert(words), ("id", "word"))
FIND = Statement(select(words).where(words.c.id == bindparam("word_id")))
CHANGE = Statement(update(words).where(words.c.id == bindparam("word_id")).values(word=bindparam("new")))


class Unreadable(TypeDecorator[str]):
    """Texts that can't be converted."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: object, dialect: object) -> str:  # noqa: ARG002 - SQLAlchemy's
        raise ValueError("unreadable")


FIND_UNREADABLE = Statement(
    select(type_coerce(words.c.word, Unreadable()).label("word")).where(words.c.id == bindparam("word_id"))
)


@pytest.fixture(scope="module")
def url(new_database: Callable[..., str]) -> str:
    return new_database().replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url, connections=4)
    await database.run(words.metadata.drop_all)
    await database.run(words.metadata.create_all)
    yield database
    await database.close()


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The round trips from here on, each as the first words of its statements."""
    sent: list[str] = []
    exchange = pipeline.Pipeline._send

    def count(self: pipeline.Pipeline, queue: Sequence[pipeline.QueuedRows], *, commits: bool) -> Any:
        names = [statement.sql.split()[0].decode() for statement in queue]
        sent.append(" ".join([*names, *(["COMMIT"] if commits else [])]))
        return exchange(self, queue, commits=commits)

    monkeypatch.setattr(pipeline.Pipeline, "_send", count)
    return sent


def row(number: int, word: str = "a") -> dict[str, Any]:
    return {"id": number, "word": word}


def word_of(connection: Connection, number: int) -> str | None:
    word: str | None = FIND.run(connection, {"word_id": number}).one().word
    return word


async def test_statements_are_sent_when_a_result_is_read_and_with_the_commit(
    database: Database, trips: list[str]
) -> None:
    def change(connection: Connection) -> str | None:
        ADD.run_many(connection, [row(1), row(2)])
        found = FIND.run(connection, {"word_id": 2})
        CHANGE.run(connection, {"word_id": 1, "new": "b"})
        assert trips == []
        word: str | None = found.one().word
        CHANGE.run(connection, {"word_id": 2, "new": "c"})
        return word

    assert await database.run(change) == "a"
    assert trips == ["INSERT INSERT SELECT UPDATE", "UPDATE COMMIT"]
    assert [await database.read(word_of, number) for number in (1, 2)] == ["b", "c"]


async def test_statement_of_sqlalchemy_sees_what_is_queued(database: Database, trips: list[str]) -> None:
    def add_and_count(connection: Connection) -> int:
        ADD.run_many(connection, [row(1)])
        found = len(connection.execute(select(words)).all())
        CHANGE.run(connection, {"word_id": 1, "new": "b"})
        return found

    assert await database.run(add_and_count) == 1
    assert trips == ["INSERT", "UPDATE COMMIT"]
    assert await database.read(word_of, 1) == "b"


async def test_query_of_one_statement_takes_one_round_trip(database: Database, trips: list[str]) -> None:
    await database.run(ADD.run_many, [row(1)])
    trips.clear()

    assert await database.read_once(word_of, 1) == "a"
    assert trips == ["SELECT"]
    with pytest.raises(IntegrityError):  # the connection goes back as it was
        await database.run(ADD.run_many, [row(2), row(1)])
    assert await database.read(lambda c: FIND.run(c, {"word_id": 2}).all()) == []


async def test_error_of_a_queued_statement_rolls_everything_back(database: Database) -> None:
    await database.run(ADD.run_many, [row(1)])
    reached = []

    def add_twice(connection: Connection) -> None:
        ADD.run_many(connection, [row(2), row(1), row(3)])
        reached.append("queued")
        word_of(connection, 2)
        reached.append("read")

    def add_twice_unread(connection: Connection) -> None:
        word_of(connection, 1)
        ADD.run_many(connection, [row(2), row(1), row(3)])

    for add in (add_twice, add_twice_unread):
        with pytest.raises(IntegrityError):
            await database.run(add)

    assert reached == ["queued"]
    assert await database.read(lambda c: [FIND.run(c, {"word_id": n}).all() for n in (2, 3)]) == [[], []]
    await database.run(ADD.run_many, [row(2)])


async def test_value_that_can_not_be_stored_is_an_error_of_its_statement(database: Database) -> None:
    def add(connection: Connection) -> None:
        with pytest.raises(DBAPIError):
            ADD.run_many(connection, [row(1, "zero \0 byte")])
        ADD.run_many(connection, [row(2)])

    await database.run(add)
    assert await database.read(word_of, 2) == "a"


async def test_error_that_is_caught_does_not_commit_the_rest(database: Database) -> None:
    await database.run(ADD.run_many, [row(1)])

    def go_on(connection: Connection) -> None:
        CHANGE.run(connection, {"word_id": 1, "new": "b"})
        ADD.run_many(connection, [row(1)])
        with pytest.raises(IntegrityError):
            word_of(connection, 1)
        ADD.run_many(connection, [row(2)])

    with pytest.raises(DBAPIError):
        await database.run(go_on)
    assert await database.read(word_of, 1) == "a"
    assert await database.read(lambda c: FIND.run(c, {"word_id": 2}).all()) == []


async def test_results_that_were_dropped_with_a_failed_statement_are_errors(database: Database) -> None:
    await database.run(ADD.run_many, [row(1)])

    def read_dropped(connection: Connection) -> None:
        ADD.run_many(connection, [row(1)])
        changed = CHANGE.run(connection, {"word_id": 1, "new": "b"})
        found = FIND.run(connection, {"word_id": 1})
        with pytest.raises(IntegrityError):
            found.all()
        with pytest.raises(DBAPIError, match="not executed"):
            found.all()
        with pytest.raises(DBAPIError, match="not executed"):
            _ = changed.rowcount

    with pytest.raises(DBAPIError, match="not executed"):  # there is nothing to commit, and that is no success
        await database.run(read_dropped)
    await database.run(ADD.run_many, [row(2)])
    assert await database.read(word_of, 1) == "a"


async def test_row_that_can_not_be_converted_is_an_error_only_of_those_who_read_it(database: Database) -> None:
    await database.run(ADD.run_many, [row(1)])

    def change(connection: Connection, reads: bool) -> None:
        CHANGE.run(connection, {"word_id": 1, "new": "b"})
        found = FIND_UNREADABLE.run(connection, {"word_id": 1})
        if reads:
            found.all()

    with pytest.raises(ValueError, match="unreadable"):
        await database.run(change, True)
    assert await database.read(word_of, 1) == "a"
    await database.run(change, False)  # it is committed, so it must not fail
    assert await database.read(word_of, 1) == "b"


async def test_deadlock_of_queued_statements_runs_again(database: Database) -> None:
    await database.run(ADD.run_many, [row(1), row(2)])
    both = asyncio.Barrier(2)
    loop = asyncio.get_running_loop()
    attempts: list[int] = []

    async def lock_in_order(first: int, second: int) -> None:
        def change(connection: Connection) -> None:
            attempts.append(first)
            CHANGE.run(connection, {"word_id": first, "new": "x"})
            word_of(connection, first)
            if attempts.count(first) == 1:
                asyncio.run_coroutine_threadsafe(both.wait(), loop).result(30)
            CHANGE.run(connection, {"word_id": second, "new": "y"})

        await database.run(change)

    await asyncio.gather(lock_in_order(1, 2), lock_in_order(2, 1))

    assert len(attempts) > 2


async def test_statements_that_the_server_has_dropped_are_prepared_again(url: str) -> None:
    database = Database(url, connections=1)
    await database.run(words.metadata.drop_all)
    await database.run(words.metadata.create_all)
    await database.run(ADD.run_many, [row(1)])
    await database.run(lambda connection: connection.exec_driver_sql("DEALLOCATE ALL"))

    await database.run(ADD.run_many, [row(2)])
    assert await database.read(word_of, 2) == "a"
    await database.run(lambda connection: connection.exec_driver_sql("ALTER TABLE words ALTER word TYPE text"))
    assert await database.read(word_of, 2) == "a"
    await database.close()


async def test_statement_is_prepared_once_for_all_rows_that_are_sent_together(url: str) -> None:
    database = Database(url, connections=1)
    await database.run(words.metadata.drop_all)
    await database.run(words.metadata.create_all)
    await database.run(ADD.run_many, [row(number) for number in range(pipeline.MAX_PREPARED + 1)])

    def prepared(connection: Connection) -> list[str]:
        found = connection.exec_driver_sql("SELECT statement FROM pg_prepared_statements").scalars()
        return sorted(statement.split()[0] for statement in found)

    assert await database.read(prepared) == ["BEGIN", "COMMIT", "INSERT"]
    await database.close()


async def test_many_large_values_are_sent_and_received(database: Database) -> None:
    large = [row(number, "ü" * 50_000) for number in range(100)]
    await database.run(ADD.run_many, large)

    def all_words(connection: Connection) -> list[int]:
        found = [FIND.run(connection, {"word_id": number}) for number in range(100)]
        return [len(rows.one().word) for rows in found]

    assert await database.read(all_words) == [50_000] * 100


async def test_check_comes_before_the_first_result(database: Database) -> None:
    def fail() -> None:
        raise LookupError("the lease is lost")

    def checked(connection: Connection, reads: bool) -> None:
        ADD.run_many(connection, [row(1)])
        check_after_send(connection, fail)
        if reads:
            word_of(connection, 1)
            raise AssertionError("a result was read")

    for reads in (True, False):
        with pytest.raises(LookupError):
            await database.run(checked, reads)
    assert await database.read(lambda c: FIND.run(c, {"word_id": 1}).all()) == []


async def test_steps_of_a_turn_take_two_round_trips_each(chat: ChatUser, trips: list[str]) -> None:
    session = await chat.session()
    assert len(trips) == 2

    trips.clear()
    turn = await chat.accept(session)
    assert len(trips) == 2, trips

    for step in (chat.start, chat.finish):
        trips.clear()
        assert await step(session, turn.id)
        assert trips.pop(0) == "SELECT", "reads the turn"
        assert trips.pop(0) == "COMMIT"
        assert len(trips) == 2, trips


async def test_statements_stay_prepared_after_others_were_run_often_and_a_table_was_dropped(database: Database) -> None:
    with database.engine.connect() as connection, connection.begin():
        ADD.run_many(connection, [row(1, "first")])
        for _ in range(10):
            connection.execute(select(words.c.word))
        connection.exec_driver_sql("CREATE TEMPORARY TABLE passing (id int)")
        connection.exec_driver_sql("DROP TABLE passing")
        ADD.run_many(connection, [row(2, "second")])
        assert FIND.run(connection, {"word_id": 2}).one().word == "second"
