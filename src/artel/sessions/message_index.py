"""The index of messages, which finds those that may contain a text; `message_indexer.py` adds new ones.

SQLite and PostgreSQL have different indexes, see `artel/db/search_tables.py`. Both are asked for one user's messages:
what others have written does not count, and costs next to nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Select, Update, bindparam, func

from artel.db.search_tables import BUCKET_BITS, GRAMS, GRAMS_AND_BUCKET, message_grams, message_search
from artel.db.tenant import TenantRepository, prepared
from artel.sessions.grams import bucket_number, grams_of, number_of, split_text, used_grams, user_number

BATCH = 1_000  # messages that the index returns at once
DENSE = 100  # candidates in a bucket, from which on PostgreSQL reads bucket by bucket: all at once would be too many
KEY_BITS = 32  # of SQLite's keys, for the messages of one user
MIDDLE = 2 ** (KEY_BITS - 1)
_LAST_KEY = 2**62
_key = message_search.c.key


class MessageIndexRepository(TenantRepository):
    """The indexed messages of one user."""

    table = message_search

    @prepared
    def _replace(cls) -> Update:  # noqa: N805
        return cls._prepare_update(grams=bindparam("new_grams")).where(
            message_search.c.message_id == bindparam("message")
        )

    @prepared
    def _find_in_sqlite(cls) -> Select[Any]:  # noqa: N805
        """Select candidates, newest first; the range of the index's row numbers is the user's."""
        row = message_grams.c.rowid
        is_candidate = message_grams.c.message_grams.op("MATCH")(bindparam("grams"))
        in_range = row >= bindparam("first"), row < bindparam("before")
        found = cls._prepare_select(_key, message_search.c.message_id).join(message_grams, row == _key)
        has_text = func.instr(message_search.c.grams, bindparam("split")) > 0
        return found.where(is_candidate, *in_range, has_text).order_by(row.desc()).limit(bindparam("most"))

    @prepared
    def _find_in_postgres(cls) -> Select[Any]:  # noqa: N805
        """Select candidates, newest first; the sum keeps PostgreSQL from reading all messages in this order."""
        found = cls._prepare_select(_key, message_search.c.message_id).where(_key < bindparam("before"))
        is_candidate = GRAMS_AND_BUCKET.op("@>")(bindparam("numbers", type_=GRAMS))
        return found.where(is_candidate).order_by((_key + 0).desc()).limit(bindparam("most"))

    @prepared
    def _newest(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(_key, message_search.c.message_id).order_by(_key.desc()).limit(bindparam("most"))

    def replace(self, message_id: str, content: str) -> None:
        """Change the content of a message, if it is indexed."""
        grams = indexed(content, self.tenant.user_id, is_sqlite=self._is_sqlite)
        self._run(self._replace, message=message_id, new_grams=grams)

    def newest(self, limit: int) -> list[str]:
        """Return the ids of the newest messages."""
        return [row.message_id for row in self._run(self._newest, most=limit)]

    def candidates(self, text: str) -> Iterator[list[str]]:
        """Yield the ids of the messages that may contain a text, newest first; the text must have grams."""
        grams = used_grams(text)
        yield from self._sqlite_candidates(text, grams) if self._is_sqlite else self._postgres_candidates(grams)

    def _sqlite_candidates(self, text: str, grams: Sequence[str]) -> Iterator[list[str]]:
        wanted = {"grams": " AND ".join(f'"{gram}"' for gram in grams), "split": split_text(text), "most": BATCH}
        first = self._first_key
        before = first + 2**KEY_BITS
        while rows := self._run(self._find_in_sqlite, first=first, before=before, **wanted).all():
            yield [row.message_id for row in rows]
            before = rows[-1].key

    def _postgres_candidates(self, grams: Sequence[str]) -> Iterator[list[str]]:
        numbers = [user_number(self.tenant.user_id), *map(number_of, grams)]
        newest = self._run(self._newest, most=1).one_or_none()
        if newest is None:
            return
        bucket, rows = newest.key >> BUCKET_BITS, [newest] * DENSE
        while len(rows) >= DENSE:
            of_bucket = [*numbers, bucket_number(bucket)]
            most = 2**BUCKET_BITS
            rows = self._run(self._find_in_postgres, numbers=of_bucket, before=_LAST_KEY, most=most).all()
            yield [row.message_id for row in rows]
            bucket -= 1
        before = (bucket + 1) << BUCKET_BITS
        while rows := self._run(self._find_in_postgres, numbers=numbers, before=before, most=BATCH).all():
            yield [row.message_id for row in rows]
            before = rows[-1].key

    @property
    def _is_sqlite(self) -> bool:
        return self.connection.dialect.name == "sqlite"

    @property
    def _first_key(self) -> int:
        return first_key(self.tenant.user_id)


def first_key(user_id: int) -> int:
    """Return the first of a user's keys in SQLite."""
    return user_id << KEY_BITS


def indexed(content: str, user_id: int, *, is_sqlite: bool) -> str | list[int]:
    """Return what is stored of a content: the text that SQLite splits, or the numbers that PostgreSQL finds."""
    split = split_text(content)
    return split if is_sqlite else [user_number(user_id), *{number_of(gram) for gram in grams_of(split)}]
