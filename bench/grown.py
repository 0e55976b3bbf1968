"""Rows of a server that was used for years, inserted by SQL: the same on SQLite and PostgreSQL.

Memories of others are rows only: filling the vector index with a million vectors takes longer than all benchmarks, and
its speed is measured by `memory`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine, create_engine, insert, select, text

from artel.db.search_tables import message_search
from artel.db.tables import messages
from artel.sessions.message_index import MIDDLE, first_key, indexed
from bench.memory_search import Corpus

TEXTS, WORDS = 2_000, 45
AT_ONCE = 20_000  # rows of a transaction: the server is running
STORED_AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Sizes:
    """How many rows a user has, and another one who stands for all others."""

    sessions: int = 1_000
    messages: int = 100_000
    projects: int = 10_000
    events: int = 1_000_000
    memories: int = 200
    messages_of_others: int = 900_000
    memories_of_others: int = 1_000_000


@dataclass(frozen=True)
class Owner:
    """Whose rows they are; `prefix` begins their ids."""

    prefix: str
    user_id: int
    project_id: int
    agent_id: int


class Growing:
    """Inserts the rows of a large server into its database."""

    def __init__(self, url: str) -> None:
        self._engine: Engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        self._is_sqlite = self._engine.dialect.name == "sqlite"

    def grow(self, owner: Owner, other: Owner, sizes: Sizes) -> None:
        """Insert sessions, messages, events and projects of the owner, and messages and memories of both."""
        self._add_texts()
        self._add_projects(owner, sizes.projects)
        self._add_sessions(owner, sizes.sessions, sizes.messages, sizes.events)
        self._add_sessions(other, sizes.sessions, sizes.messages_of_others, 0)
        self._add_memories(owner, sizes.memories, "NULL")  # the server indexes them
        self._add_memories(other, sizes.memories_of_others, ":at")
        with self._engine.begin() as connection:
            connection.execute(text("DROP TABLE bench_texts"))
        if not self._is_sqlite:  # as the server does by itself after a while
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM ANALYZE"))
        self._engine.dispose()

    def _add_texts(self) -> None:
        """Store the texts that rows repeat, each with a number that differs."""
        rows = [{"number": number, "content": each} for number, each in enumerate(Corpus().texts(TEXTS, WORDS))]
        with self._engine.begin() as connection:
            connection.execute(text("CREATE TABLE bench_texts (number INTEGER PRIMARY KEY, content TEXT NOT NULL)"))
            connection.execute(text("INSERT INTO bench_texts VALUES (:number, lower(:content))"), rows)

    def _insert(self, count: int, table: str, **values: object) -> None:
        """Insert `count` rows; values are SQL that may use the number `i` from 0, and `content`."""
        selected = ", ".join(str(value) for value in values.values())
        at = STORED_AT.strftime("%Y-%m-%d %H:%M:%S.%f") if self._is_sqlite else STORED_AT
        for start in range(0, count, AT_ONCE):
            statement = f"""
                INSERT INTO {table} ({", ".join(values)})
                WITH RECURSIVE numbers(i) AS (
                    SELECT {start} UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < {min(count, start + AT_ONCE)}
                )
                SELECT {selected} FROM numbers JOIN bench_texts ON bench_texts.number = i % {TEXTS}
            """  # noqa: S608 - of this module
            with self._engine.begin() as connection:
                connection.execute(text(statement), {"at": at} if ":at" in statement else {})

    def _json(self) -> str:
        return "'{}'" if self._is_sqlite else r"'{}'\:\:json"

    def _add_projects(self, owner: Owner, count: int) -> None:
        times = {"created_at": ":at", "updated_at": ":at"}
        name = "'Project ' || i"
        self._insert(
            count, "projects", user_id=owner.user_id, name=name, settings=self._json(), is_default="false", **times
        )

    def _add_sessions(self, owner: Owner, sessions: int, messages_: int, events: int) -> None:
        scope = {"user_id": owner.user_id, "project_id": owner.project_id}
        last = max(messages_, events) // sessions + 1
        self._insert(
            sessions,
            "sessions",
            id=f"'{owner.prefix}-s-' || i",
            **scope,
            title="'Session ' || i",
            last_event=last,
            created_at=":at",
            updated_at=":at",
        )
        in_session = scope | {"session_id": f"'{owner.prefix}-s-' || (i % {sessions})", "number": f"i / {sessions} + 1"}
        self._insert(
            messages_,
            "messages",
            id=f"'{owner.prefix}-m-' || i",
            **in_session,
            turn_number=f"i / {sessions} + 1",
            role=f"CASE (i / {sessions}) % 2 WHEN 0 THEN 'user' ELSE 'assistant' END",
            content="content || ' number' || i",
            status="'ok'",
            tokens=60,
            searchable="true",
            created_at=":at",
        )
        self._index_messages(owner, messages_)
        turn = {"id": f"'{owner.prefix}-t-' || i", "mode": "'direct'", "agent_id": owner.agent_id}
        ended = {"status": "'completed'", "request_hash": "'-'", "created_at": ":at", "finished_at": ":at"}
        self._insert(messages_ // 2, "turns", **in_session, **turn, **ended)
        event = {"type": "'message_completed'", "data": self._json(), "created_at": ":at"}
        self._insert(events, "events", **in_session, **event)

    def _index_messages(self, owner: Owner, count: int) -> None:
        """Add messages to the index; SQLite's text is theirs, which has no upper case and punctuation."""
        message_id = f"'{owner.prefix}-m-' || i"
        if self._is_sqlite:
            key = f"{first_key(owner.user_id) + MIDDLE} + i"
            grams = "content || ' number' || i"
            self._insert(count, "message_search", key=key, user_id=owner.user_id, message_id=message_id, grams=grams)
            return
        with self._engine.begin() as connection:
            of_owner = select(messages.c.id, messages.c.content).where(messages.c.id.startswith(f"{owner.prefix}-m-"))
            found = connection.execute(of_owner.execution_options(yield_per=AT_ONCE // 10)).partitions()
            for rows in found:
                grams_of_rows = [(row.id, indexed(row.content, owner.user_id, is_sqlite=False)) for row in rows]
                added = [{"user_id": owner.user_id, "message_id": key, "grams": grams} for key, grams in grams_of_rows]
                connection.execute(insert(message_search), added)

    def _add_memories(self, owner: Owner, count: int, indexed_at: str) -> None:
        self._insert(
            count,
            "memories",
            id=f"'{owner.prefix}-' || i",
            user_id=owner.user_id,
            project_id=owner.project_id,
            agent_id=owner.agent_id,
            type="'chat'",
            content="content || ' number' || i",
            success="true",
            metadata=self._json(),
            created_at=":at",
            indexed_at=indexed_at,
        )
