"""The answers of a node in their file: bounded, private to a tenant, and never in the way of a start."""

import asyncio
from pathlib import Path

import pytest

from artel.nodes.idempotency import AnswerStore


def filled(store: AnswerStore, count: int, size: int = 10) -> list[str]:
    """Store answers and return the keys of those that are still there."""

    async def fill() -> list[str]:
        for number in range(count):
            await store.keep("tenant", str(number), bytes(size))
        return [key for key in map(str, range(count)) if await store.get("tenant", key) is not None]

    return asyncio.run(fill())


@pytest.mark.req("AGT-10.1")
def test_oldest_answers_are_dropped_when_there_are_too_many_or_they_take_too_much(tmp_path: Path) -> None:
    many = AnswerStore(tmp_path / "many.db", max_answers=20)
    large = AnswerStore(tmp_path / "large.db", max_bytes=10_000)

    left_of_many, left_of_large = filled(many, 50), filled(large, 50, size=1_000)

    assert left_of_many[-1] == left_of_large[-1] == "49"
    assert 15 <= len(left_of_many) <= 20
    assert 5 <= len(left_of_large) <= 10
    many.close()
    large.close()


@pytest.mark.req("AGT-10.1")
def test_limits_count_what_was_stored_before_a_restart(tmp_path: Path) -> None:
    first = AnswerStore(tmp_path / "answers.db")
    filled(first, 50)
    first.close()

    second = AnswerStore(tmp_path / "answers.db", max_answers=20)

    assert asyncio.run(second.keep("tenant", "new", b"new")) == b"new"
    assert asyncio.run(second.get("tenant", "1")) is None
    assert asyncio.run(second.get("other", "0")) is None
    second.close()


@pytest.mark.req("AGT-10.1")
def test_old_answers_are_deleted_from_the_file_at_the_start(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path / "answers.db")
    filled(store, 3)
    store.close()

    AnswerStore(tmp_path / "answers.db", hold_seconds=0).close()

    store = AnswerStore(tmp_path / "answers.db")
    assert filled(store, 0) == []
    assert asyncio.run(store.get("tenant", "1")) is None
    store.close()


@pytest.mark.req("AGT-10.1")
def test_damaged_file_is_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "answers.db"
    file.write_bytes(b"this is no database" * 100)

    store = AnswerStore(file)

    assert filled(store, 1) == ["0"]
    assert (tmp_path / "answers.db.damaged").read_bytes().startswith(b"this is no database")
    store.close()


@pytest.mark.req("AGT-10.1")
def test_command_keeps_its_first_answer(tmp_path: Path) -> None:
    store, other = (AnswerStore(tmp_path / "answers.db") for _ in range(2))

    first = asyncio.run(store.keep("tenant", "key", b"first"))
    second = asyncio.run(other.keep("tenant", "key", b"second"))

    assert (first, second, asyncio.run(store.get("tenant", "key"))) == (b"first", b"first", b"first")
    store.close()
    other.close()
