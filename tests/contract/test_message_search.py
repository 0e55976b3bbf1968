"""The index of messages finds what a scan of all messages finds, on SQLite and PostgreSQL."""

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, text, update

from artel.auth.accounts import create_account
from artel.auth.deletion import delete_account
from artel.auth.principal import Principal
from artel.contract.http import NewProject, NewSession, PageRequest
from artel.db import schema
from artel.db.engine import Database
from artel.db.search_tables import message_grams, message_search
from artel.db.tables import messages
from artel.db.tx import Tx
from artel.ids import uuid7
from artel.projects.deletion import delete_project
from artel.projects.transactions import create_project
from artel.sessions import message_index, message_indexer, search
from artel.sessions.deletion import delete_session
from artel.sessions.grams import used_grams
from artel.sessions.message_index import MessageIndexRepository
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.transactions import create_session
from tests.actors.chat_user import RULES

START = datetime(2026, 1, 1, tzinfo=UTC)
ENGLISH = "The database of Straße 7 is slow: SELECT it again, says O'Neill_2 (100%) in a microservice"
RUSSIAN = "Ёжик перенёс базу данных на сервер и ждёт ответа, а Объект не найден"
CHINESE = "数据库的性能测试报告显示服务器响应缓慢,请检查 Python 代码和缓存。日本語カタカナ 한국어 단어"
LANGUAGES = (ENGLISH, RUSSIAN, CHINESE)

_numbers = itertools.count(1)


class Searcher:
    """A user with messages, in a database that tests share."""

    def __init__(self, database: Database) -> None:
        self.engine = database.engine
        self.is_sqlite = database.is_sqlite
        with self.engine.begin() as connection:
            self.user: Principal = create_account(connection, f"user{next(_numbers)}@example.org", None).principal
            self.project = create_project(Tx(connection, self.user), NewProject(name="Search"), RULES).id
        self.added = itertools.count(1)

    def session(self, title: str = "-") -> str:
        with self.engine.begin() as connection:
            new = NewSession(project_id=self.project, title=title)
            return create_session(Tx(connection, self.user), uuid7(), new, RULES).session_id

    def say(self, session_id: str, *contents: str, wait: bool = True) -> list[str]:
        """Add messages, one second after another, and to the index if it should `wait` for that; return their ids."""
        made = []
        for content in contents:
            at = next(self.added)
            made.append(StoredMessage(uuid7(), at, at, None, "user", content, 1, START + timedelta(seconds=at)))
        with self.engine.begin() as connection:
            for message in made:
                MessageRepository(connection, self.user).add(self.project, session_id, message)
        if wait:
            self.run_indexer()
        return [message.id for message in made]

    def find(self, words: str, session_id: str | None = None) -> list[str | None]:
        """Return the ids of the found messages."""
        with self.engine.connect() as connection:
            page = search.search(connection, self.user, words, session_id, PageRequest(1_000))
        assert page.total == len(page.items)
        return [item.message_id for item in page.items if item.kind == "message"]

    def candidates(self, words: str) -> list[str]:
        with self.engine.connect() as connection:
            index = MessageIndexRepository(connection, self.user)
            return [message_id for ids in index.candidates(words) for message_id in ids]

    def indexed(self) -> int:
        """Return the number of the user's rows in the index, also of those without a message."""
        with self.engine.connect() as connection:
            if self.is_sqlite:
                first = message_index.first_key(self.user.user_id)
                row = message_grams.c.rowid
                in_range = row >= first, row < first + 2**message_index.KEY_BITS
                counted = select(func.count()).select_from(message_grams)
                matching = message_grams.c.message_grams.op("MATCH")('"dat"')
                return int(connection.execute(counted.where(matching, *in_range)).scalar_one())
            mine = message_search.c.user_id == self.user.user_id
            return int(connection.execute(select(func.count()).where(mine)).scalar_one())

    def forget_index(self) -> None:
        """Let the user's messages be as they were stored before there was an index."""
        with self.engine.begin() as connection:
            connection.execute(message_search.delete().where(message_search.c.user_id == self.user.user_id))
            of_user = messages.c.user_id == self.user.user_id
            connection.execute(update(messages).where(of_user).values(searchable=False))

    def run_indexer(self) -> list[int]:
        """Index what waits; return how many messages each transaction indexed."""
        counts: list[int] = []
        while True:
            with self.engine.begin() as connection:
                count, _ = message_indexer.index_some(connection)
            if not count:
                return counts
            counts.append(count)


@pytest.fixture(scope="module")
def database(upgraded_database: Callable[[], str]) -> Iterator[Database]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=4)
    schema.upgrade(database.engine)
    yield database
    database.engine.dispose()


@pytest.fixture
def searcher(database: Database) -> Searcher:
    return Searcher(database)


parts = st.sampled_from(LANGUAGES).flatmap(
    lambda whole: st.tuples(st.integers(0, len(whole) - 1), st.integers(1, 25)).map(
        lambda cut: whole[cut[0] : cut[0] + cut[1]]
    )
)
pieces = st.one_of(
    parts, parts.map(str.swapcase), st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=4)
)
contents = st.lists(pieces, min_size=1, max_size=6).map("".join)
queries = st.one_of(parts, parts.map(str.upper), pieces).filter(str.strip)


@pytest.mark.req("UWS-09.3")
@given(texts=st.lists(contents, min_size=1, max_size=8), words=st.lists(queries, min_size=1, max_size=8))
def test_index_finds_what_a_scan_finds(database: Database, texts: list[str], words: list[str]) -> None:
    searcher = Searcher(database)
    ids = searcher.say(searcher.session(), *texts)
    for query in [*words, *(each[:7] for each in texts if each.strip())]:
        containing = [
            message_id for message_id, content in zip(ids, texts, strict=True) if query.casefold() in content.casefold()
        ]

        assert searcher.find(query) == containing[::-1]
        if used_grams(query):
            assert set(containing) <= set(searcher.candidates(query))


@pytest.mark.req("UWS-09.3")
@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("ДАННЫХ", "базу данных"),
        ("strasse", "Die Straße"),
        ("数据", "新数据库"),
        ("库", "数据库"),
        ("字abc", "汉字ABC"),
        ("7%", "about 7% of it"),
        ("o w", "hello world"),
        ("é", "CAFÉ"),
    ],
)
def test_text_is_found_in_each_language(searcher: Searcher, query: str, content: str) -> None:
    session = searcher.session()
    [wanted, _] = searcher.say(session, content, "something else")

    assert searcher.find(query) == [wanted]
    assert searcher.find(query, session) == [wanted]


@pytest.mark.req("UWS-09.3")
@pytest.mark.parametrize("query", ["据", "数据", "数据库", "カタ", "단어"])
def test_index_has_words_of_one_and_two_characters(searcher: Searcher, query: str) -> None:
    [wanted, _] = searcher.say(searcher.session(), CHINESE, ENGLISH)

    assert searcher.candidates(query) == [wanted]


@pytest.mark.req("UWS-09.3")
def test_index_has_no_candidates_of_other_users(database: Database) -> None:
    ada, bob = Searcher(database), Searcher(database)
    theirs = ada.say(ada.session(), *(f"the data of number {number}" for number in range(30)))
    own = bob.say(bob.session(), "the data of mine")

    assert bob.candidates("data") == own
    assert bob.find("data") == own
    assert set(ada.candidates("data")) == set(theirs)
    assert Searcher(database).candidates("data") == []


@pytest.mark.req("UWS-09.3")
@pytest.mark.parametrize("deleted", ["session", "project", "account"])
def test_deleted_messages_are_removed_from_the_index(searcher: Searcher, deleted: str) -> None:
    session, kept = searcher.session(), searcher.session()
    searcher.say(session, "data one", "data two")
    [last] = searcher.say(kept, "data three")
    assert searcher.indexed() == 3

    with searcher.engine.begin() as connection:
        tx = Tx(connection, searcher.user)
        if deleted == "session":
            delete_session(tx, session)
        elif deleted == "project":
            delete_project(tx, searcher.project)
        else:
            delete_account(connection, str(searcher.user.user_id))

    assert searcher.indexed() == (1 if deleted == "session" else 0)
    assert searcher.find("data") == ([last] if deleted == "session" else [])


@pytest.mark.req("UWS-09.3")
def test_changed_message_is_found_by_its_new_text_only(searcher: Searcher) -> None:
    session = searcher.session()
    [changed] = searcher.say(session, "about elephants and data")

    with searcher.engine.begin() as connection:
        MessageRepository(connection, searcher.user).rewrite(session, changed, "about giraffes and data", 1)

    assert searcher.find("giraffes") == [changed]
    assert searcher.candidates("elephants") == []
    assert searcher.indexed() == 1


@pytest.mark.req("UWS-09.3")
def test_messages_from_before_the_index_are_found_and_indexed_in_batches(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_indexer, "BATCH", 4)
    session = searcher.session()
    older = searcher.say(session, *(f"data {number}" for number in range(10)))
    searcher.forget_index()
    newest_first = older[::-1]
    assert searcher.find("data") == newest_first
    assert searcher.candidates("data") == []

    with searcher.engine.begin() as connection:
        assert message_indexer.index_some(connection)[0] == 4
    assert searcher.candidates("data") == newest_first[:4]
    newer = searcher.say(session, "data of today", "data of tonight", wait=False)
    batches = searcher.run_indexer()

    assert (max(batches), sum(batches)) == (4, 8)
    newest_first = newer[::-1] + newest_first
    assert searcher.candidates("data") == newest_first
    assert searcher.find("data") == newest_first
    latest = searcher.say(session, "data of tomorrow")
    assert searcher.candidates("data") == latest + newest_first


@pytest.mark.req("UWS-09.3")
def test_messages_are_found_before_they_are_indexed(searcher: Searcher) -> None:
    session = searcher.session()
    indexed = searcher.say(session, "data of yesterday")
    waiting = searcher.say(session, "data of today", wait=False)

    assert searcher.candidates("data") == indexed
    assert searcher.find("data") == waiting + indexed
    with searcher.engine.begin() as connection:
        MessageRepository(connection, searcher.user).rewrite(session, waiting[0], "dates of today", 1)
    searcher.run_indexer()
    assert searcher.find("dates") == waiting
    assert searcher.candidates("data") == indexed


@pytest.mark.req("UWS-09.3")
def test_long_messages_are_indexed_in_small_batches(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_indexer, "BATCH_CHARACTERS", 100)
    searcher.say(searcher.session(), "x" * 300, "y" * 60, "z" * 30)
    searcher.forget_index()

    assert searcher.run_indexer() == [2, 1]


@pytest.mark.req("UWS-09.3")
def test_search_finds_the_newest_messages_up_to_a_limit(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_FOUND", 5)
    monkeypatch.setattr(search, "READ_AT_ONCE", 2)
    monkeypatch.setattr(message_index, "BATCH", 3)
    ids = searcher.say(searcher.session(), *(f"data {number}" for number in range(12)))

    assert searcher.find("data") == ids[:-6:-1]


@pytest.mark.req("UWS-09.3")
def test_old_messages_that_wait_for_the_index_do_not_hide_newer_ones(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_FOUND", 5)
    monkeypatch.setattr(message_indexer, "BATCH", 3)
    ids = searcher.say(searcher.session(), *(f"data {number}" for number in range(12)))
    searcher.forget_index()
    with searcher.engine.begin() as connection:
        assert message_indexer.index_some(connection)[0] == 3

    assert searcher.find("data") == ids[:-6:-1]


@pytest.mark.req("UWS-09.3")
def test_long_session_is_searched_in_the_index(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SHORT_SESSION", 2)
    session, other = searcher.session(), searcher.session()
    ids = searcher.say(session, "data", "more data", "words", "data again")
    searcher.say(other, "other data")

    assert searcher.find("data", session) == [ids[3], ids[1], ids[0]]


@pytest.mark.req("UWS-09.3")
@pytest.mark.parametrize("backend", ["postgres"], indirect=True, scope="session")
def test_frequent_text_is_found_bucket_by_bucket(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_index, "DENSE", 2)
    monkeypatch.setattr(message_index, "BATCH", 3)
    with searcher.engine.begin() as connection:
        connection.execute(text("ALTER SEQUENCE message_search_key_seq INCREMENT BY 4000"))
    ids = searcher.say(searcher.session(), *("data" if number % 10 or number > 30 else "-" for number in range(60)))
    wanted = [message_id for number, message_id in enumerate(ids) if number % 10 or number > 30][::-1]

    assert searcher.candidates("data") == wanted
    assert searcher.find("data") == wanted


@pytest.mark.req("UWS-09.3")
def test_titles_are_found_without_regard_to_case(searcher: Searcher) -> None:
    session = searcher.session(title="Отчёт о ПРОДАЖАХ")
    with searcher.engine.connect() as connection:
        found = search.search(connection, searcher.user, "продажах", None, PageRequest(10))

    assert [(item.kind, item.session_id) for item in found.items] == [("session", session)]
