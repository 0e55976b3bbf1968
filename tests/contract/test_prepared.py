"""Prepared statements have the same effect as running them with SQLAlchemy."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from artel.db.columns import Id, Moment
from artel.db.engine import Database
from artel.db.prepared import Statement

things = Table(
    "things",
    MetaData(),
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("name", String(50), nullable=False),
    Column("size", Float),
    Column("is_good", Boolean),
    Column("at", Moment),
    Column("data", JSON(none_as_null=True)),
    Column("kind", String(10), nullable=False, server_default="plain"),
)
COLUMNS = ("id", "name", "size", "is_good", "at", "data", "kind")
ADD = Statement(insert(things), COLUMNS)
BY_NAME = Statement(
    select(things)
    .where(things.c.name == bindparam("wanted"), things.c.kind != "odd")
    .order_by(things.c.id)
    .limit(bindparam("most"))
)
RENAME = Statement(update(things).where(things.c.id == bindparam("thing")).values(name=bindparam("new_name")))
TAKE = Statement(
    update(things)
    .where(things.c.id == bindparam("thing"))
    .values(size=things.c.size + bindparam("more"))
    .returning(things.c.size, things.c.at)
)


class Kind(StrEnum):
    PLAIN = "plain"
    FANCY = "fancy"


@pytest.fixture(scope="module")
def url(new_database: Callable[..., str]) -> str:
    return new_database().replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url, connections=2)
    await database.run(things.metadata.drop_all)
    await database.run(things.metadata.create_all)
    yield database
    await database.close()


def thing(number: int, **values: Any) -> dict[str, Any]:
    plain = {"name": "a", "size": 1.5, "is_good": True, "at": datetime.now(UTC), "data": {"x": [1]}, "kind": Kind.FANCY}
    return {"id": number, **plain, **values}


ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=50)
ANY_THING = st.fixed_dictionaries(
    {
        "name": ANY_TEXT,
        "size": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "is_good": st.none() | st.booleans(),
        "at": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2900, 1, 1), timezones=st.timezones()),  # noqa: DTZ001
        "data": st.none() | st.dictionaries(ANY_TEXT, ANY_TEXT | st.integers(-9, 9) | st.none(), max_size=3),
        "kind": st.sampled_from(Kind),
    }
)


@given(rows=st.lists(ANY_THING, min_size=1, max_size=5))
@settings(max_examples=30)
def test_prepared_statements_write_and_read_the_same_as_sqlalchemy(url: str, rows: list[dict[str, Any]]) -> None:
    numbered = [{"id": number, **row} for number, row in enumerate(rows)]

    def compare(connection: Connection) -> None:
        things.metadata.drop_all(connection)
        things.metadata.create_all(connection)
        connection.execute(insert(things), numbered)
        usual = connection.execute(select(things).order_by(things.c.id)).all()
        connection.execute(things.delete())
        ADD.run_many(connection, numbered)
        assert connection.execute(select(things).order_by(things.c.id)).all() == usual
        for row in usual:
            same_name = [other for other in usual if other.name == row.name]
            found = BY_NAME.run(connection, {"wanted": row.name, "most": 10}).all()
            assert found == [tuple(other) for other in same_name]
            assert [other.at for other in found] == [other.at for other in same_name]

    async def run_in_database() -> None:
        database = Database(url)
        try:
            await database.run(compare)
        finally:
            await database.close()

    asyncio.run(run_in_database())


@pytest.mark.anyio
@pytest.mark.parametrize(
    "parameters",
    [{"wanted": "a"}, {"wanted": "a", "mots": 10}, {"wanted": "a", "most": 10, "more": 1}, {}],
)
async def test_missing_or_unknown_parameter_is_an_error(database: Database, parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="missing or unknown parameters"):
        await database.read(BY_NAME.run, parameters)
    incomplete = {name: value for name, value in thing(1).items() if name != "at"}
    with pytest.raises(ValueError, match="missing or unknown parameters: at"):
        await database.run(ADD.run_many, [thing(2), incomplete])
    assert (await database.read(BY_NAME.run, {"wanted": "a", "most": 10})).all() == []


@pytest.mark.anyio
async def test_update_returns_rows_and_rowcount(database: Database) -> None:
    def change(connection: Connection) -> tuple[Any, ...]:
        ADD.run_many(connection, [thing(1), thing(2, size=2.0)])
        taken = TAKE.run(connection, {"thing": 2, "more": 0.5}).one()
        nothing = TAKE.run(connection, {"thing": 3, "more": 0.5}).one_or_none()
        renamed = [RENAME.run(connection, {"thing": number, "new_name": "b"}).rowcount for number in (1, 3)]
        return taken.size, taken.at.tzinfo, nothing, renamed

    assert await database.run(change) == (2.5, UTC, None, [1, 0])
    names = await database.read(lambda c: [row.name for row in BY_NAME.run(c, {"wanted": "b", "most": 1})])
    assert names == ["b"]


@pytest.mark.anyio
async def test_selected_constants_have_their_types(database: Database) -> None:
    constants = Statement(select(things.c.id, literal(value=False), literal(value=True), literal(7), literal("a")))
    await database.run(ADD.run_many, [thing(1)])

    [row] = (await database.read(constants.run, {})).all()

    assert (row[0], bool(row[1]), bool(row[2]), *row[3:]) == (1, False, True, 7, "a")


@pytest.mark.anyio
async def test_database_errors_are_those_of_sqlalchemy(database: Database) -> None:
    await database.run(ADD.run_many, [thing(1)])

    with pytest.raises(IntegrityError):
        await database.run(ADD.run_many, [thing(2), thing(1)])

    assert await database.read(lambda c: len(BY_NAME.run(c, {"wanted": "a", "most": 9}).all())) == 1


@pytest.mark.anyio
async def test_closed_connection_is_replaced(database: Database, backend: str) -> None:
    await database.run(ADD.run_many, [thing(1)])
    if backend == "postgres":
        end_others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        other = Database(database.engine.url.render_as_string(hide_password=False))
        await other.run(lambda connection: connection.exec_driver_sql(end_others))
        await other.close()

    await database.run(ADD.run_many, [thing(2)])

    assert await database.read(lambda c: len(BY_NAME.run(c, {"wanted": "a", "most": 9}).all())) == 2


@pytest.mark.anyio
async def test_statements_whose_sql_depends_on_values_are_refused(database: Database) -> None:
    any_of = Statement(select(things).where(things.c.id.in_(bindparam("ids", expanding=True))))
    with pytest.raises(ValueError, match="depends on the values"):
        await database.read(any_of.run, {"ids": [1, 2]})

    counted = Table("counted", MetaData(), Column("id", Integer, primary_key=True, default=lambda: 7))
    with pytest.raises(ValueError, match="depends on the values"):
        await database.run(Statement(insert(counted), ()).run_many, [{}])
