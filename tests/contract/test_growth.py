"""The statements of calls and lists use indexes on SQLite and PostgreSQL, so that they do not grow with the tables."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event, text
from sqlalchemy.pool import Pool

from artel.agent_memory.repository import MemoryRepository
from artel.auth.accounts import create_account
from artel.contract.http import NewProject, PageRequest
from artel.projects.transactions import create_project, list_projects
from artel.sessions import message_indexer
from artel.sessions.search import search
from artel.sessions.transactions import get_session, list_messages, list_sessions
from bench import growth
from bench.grown import Growing, Owner, Sizes
from tests.actors.chat_user import RULES, ChatUser

pytestmark = pytest.mark.anyio

PAGE = PageRequest(50)
PER_SESSION = ("messages", "events", "turns")  # rows of a session or agent are read, never all of a user or project
PARTIAL = "ix_messages_not_searchable"  # an index of few rows
GROWING = (*PER_SESSION, "message_search", "memories", "projects", "sessions")
COUNTED = (*PER_SESSION, "message_search", "memories")  # PostgreSQL scans small tables to count a user's rows
SIZES = Sizes(
    sessions=1_500,
    messages=6_000,
    projects=1_500,
    events=6_000,
    memories=1_500,
    messages_of_others=6_000,
    memories_of_others=1_500,
)


async def grow(chat: ChatUser) -> None:
    """Fill the database of a user, and of another one."""
    database = chat.database
    other = (await database.run(create_account, "other@example.org", None)).principal
    project = await database.of(other).run(create_project, NewProject(name="Other"), RULES)
    owners = (
        Owner("own", chat.user.user_id, chat.project_id, chat.agent_id),
        Owner("other", other.user_id, project.id, project.agents[0].id),
    )
    Growing(database.engine.url.render_as_string(hide_password=False)).grow(*owners, SIZES)


async def work(chat: ChatUser) -> None:
    """Run a turn in a new session and in an old one, and read every list."""
    database, user = chat.database, chat.user
    for session in (await chat.session(), "own-s-1"):
        turn = await chat.accept(session)
        assert await chat.start(session, turn.id)
        assert await chat.finish(session, turn.id)
        assert await chat.events(session)
        await database.read(get_session, user, session)
        await database.read(list_messages, user, session, None, PAGE, None)
    await database.read(list_sessions, user, None, False, PAGE)
    await database.read(list_sessions, user, chat.project_id, False, PAGE)
    await database.read(list_projects, user, PAGE)
    await database.read(
        lambda connection: MemoryRepository(connection, user).candidates(chat.project_id, chat.agent_id)
    )
    for words in ("number77", "no"):
        assert (await database.read(search, user, words, None, PAGE)).total
    await database.run(message_indexer.index_some)


@contextmanager
def sqlite_statements() -> Iterator[set[str]]:
    """Collect what connections of SQLite execute, with the values in it."""
    statements: set[str] = set()

    def trace(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_trace_callback(statements.add)

    event.listen(Pool, "checkout", trace)
    try:
        yield statements
    finally:
        event.remove(Pool, "checkout", trace)


@pytest.mark.req("SEC-02.6")
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")
async def test_sqlite_scans_no_table_that_grows(chat: ChatUser) -> None:
    await grow(chat)
    with sqlite_statements() as statements:
        await work(chat)
    planned = [each for each in statements if each.lstrip().startswith(("SELECT", "UPDATE", "DELETE"))]
    scans = re.compile(rf"^SCAN ({'|'.join(GROWING)})\b(?!.*{PARTIAL})")
    by_user = re.compile(rf"^SEARCH ({'|'.join(PER_SESSION)})\b(?!.*{PARTIAL}).*\(user_id=\?( AND project_id=\?)?\)$")

    def plans(statement: str) -> list[str]:
        with chat.database.engine.connect() as connection:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}").all()
        return [f"{row.detail}: {statement}" for row in rows if scans.match(row.detail) or by_user.match(row.detail)]

    assert len(planned) > 20
    assert [found for statement in planned for found in plans(statement)] == []


@pytest.mark.req("SEC-02.6")
@pytest.mark.parametrize("backend", ["postgres"], indirect=True, scope="session")
async def test_postgres_scans_no_table_that_grows(chat: ChatUser) -> None:
    await grow(chat)

    def scanned() -> dict[str, int]:
        with chat.database.engine.connect() as connection:
            rows = connection.execute(text("SELECT relname, seq_tup_read FROM pg_stat_user_tables")).all()
        return {row.relname: row.seq_tup_read for row in rows if row.relname in COUNTED}

    def flush(connection: object) -> None:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))  # type: ignore[attr-defined]

    @event.listens_for(chat.database.engine, "commit")
    def flush_at_commit(connection: object) -> None:
        flush(connection)

    before = scanned()
    await work(chat)

    assert {name: rows - before[name] for name, rows in scanned().items() if rows != before[name]} == {}


@pytest.mark.req("SEC-02.6")
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")
def test_benchmark_of_growth_measures_each_operation(backend: str) -> None:
    small = Sizes(
        sessions=4, messages=40, projects=4, events=40, memories=4, messages_of_others=40, memories_of_others=4
    )

    figures = list(growth.measure(small, small, share=0.02, rounds=1))

    unmeasured = [figure.name for figure in figures if figure.measured is None]
    assert [name for name in unmeasured if "CPU" not in name] == []  # so few requests may take no measurable CPU time
    assert len(figures) == 2 * len(growth.OPERATIONS) + 2 * len(growth.SEARCHES)
    assert backend == "sqlite"
