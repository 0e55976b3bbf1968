"""Copies of small collections find what the index finds, and follow the changes of every process."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artel.agent_memory import agent_changes, small_collections
from artel.agent_memory import transactions as memories
from artel.agent_memory.repository import MemoryRepository, NewMemory
from artel.agent_memory.service import AgentContextStore, Memories, Recalled
from artel.auth.accounts import create_account
from artel.auth.principal import Principal
from artel.contract.http import NewProject
from artel.db import schema
from artel.db.engine import Database
from artel.errors import LimitReached
from artel.ids import uuid7
from artel.projects.transactions import create_project
from artel.vector_index.edge import EdgeStore
from artel.vector_index.store import EVERYTHING, EmbeddingsUnavailable, Filter, MemoryUnavailable, Vector
from tests.actors.chat_user import RULES
from tests.depth import by_depth

pytestmark = pytest.mark.anyio

WORDS = [
    *("red", "green", "blue", "door", "wall", "roof", "car", "bike", "tree", "leaf", "river", "moon", "sun", "star"),
    *("code", "test", "bug", "fix", "红门", "стена"),
]
DIMENSIONS = 16


class WordEmbedder:
    """Adds a random vector of each word, so that texts with the same words are similar."""

    name, dimensions = "words", DIMENSIONS

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.is_down = False

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        self.embedded += texts
        if self.is_down:
            raise EmbeddingsUnavailable("The test switched the embedder off.")
        return [_vector(text) for text in texts]

    async def close(self) -> None:
        """Do nothing."""


def _vector(text: str) -> Any:
    seeds = (int.from_bytes(word.encode()[:8], "little") for word in text.split())
    total = sum((np.random.default_rng(seed).standard_normal(DIMENSIONS) for seed in seeds), np.full(DIMENSIONS, 1e-6))
    return (total / np.linalg.norm(total)).astype(np.float32)


@dataclass
class World:
    """A user with agents, a process with copies of their memories, and a second process."""

    database: Database
    other: Database  # of the second process
    user: Principal
    project_id: int
    agents: list[tuple[int, str]]
    store: EdgeStore

    def __post_init__(self) -> None:
        self.embedder = WordEmbedder()
        self.memories = Memories(self.database, self.store, self.embedder)
        self.by_index = Memories(self.other, self.store, WordEmbedder())
        self.by_index.copies = None
        assert self.memories.copies is not None

    def context(self, agent: int = 0, *, by_index: bool = False) -> AgentContextStore:
        shared = self.by_index if by_index else self.memories
        return shared.context_store(self.user, self.project_id, *self.agents[agent])

    async def run(self, transaction: Callable[..., Any], *arguments: Any, here: bool = True, agent: int = 0) -> Any:
        """Run a transaction on an agent's memory in the first process, or in the second one."""
        database = self.database if here else self.other
        return await database.of(self.user).run(transaction, self.project_id, self.agents[agent][0], *arguments)

    async def remember(self, *contents: str, here: bool = True, agent: int = 0) -> list[str]:
        new = [NewMemory(content) for content in contents]
        return [memory.id for memory in await self.run(memories.remember, new, here=here, agent=agent)]

    async def index(self) -> None:
        while await self.memories.indexer.step():
            pass

    async def found(self, query: str, agent: int = 0, **more: Any) -> list[str]:
        return [hit.memory.id for hit in await self.context(agent).search(query, **more)]


@pytest.fixture
async def world(upgraded_database: Callable[[], str], tmp_path: Path) -> AsyncIterator[World]:
    url = upgraded_database().replace("postgresql:", "postgresql+psycopg:")
    database, other = Database(url, connections=4), Database(url, connections=4)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, f"{uuid7()}@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Memory"), RULES)
    store = EdgeStore(tmp_path / "memory", model="words", dimensions=DIMENSIONS, deadline_seconds=60)
    world = World(database, other, user, project.id, [(agent.id, agent.name) for agent in project.agents], store)
    yield world
    await world.memories.close()
    await database.close()
    await other.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of rows of each reading of a collection."""
    sizes: list[int] = []
    read = MemoryRepository.stamps

    def counted(*arguments: Any) -> Any:
        stamps = read(*arguments)
        sizes.append(len(stamps))
        return stamps

    monkeypatch.setattr(MemoryRepository, "stamps", counted)
    return sizes


def scores(found: Sequence[Recalled]) -> list[float]:
    return [round(hit.score, 4) for hit in found]


def some_text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 12)))


async def change(world: World, chance: random.Random) -> None:
    """Change the memories in one of the processes; afterwards the index has no outdated ones."""
    here, action = chance.random() < 0.5, chance.choice(["add", "add", "add", "index", "edit", "pin", "forget"])
    rows, _ = await world.context().page(EVERYTHING, 1_000, 0)
    if action == "add":
        number = chance.randint(1, 15)
        new = [NewMemory(some_text(chance), chance.choice(["note", "lesson"])) for _ in range(number)]
        await world.run(memories.remember, new, here=here)
    elif action == "index":
        await world.index()
    elif rows:
        await change_one(world, chance, action, chance.choice(rows).id, here=here)
    await world.memories.indexer.run_chores()


async def change_one(world: World, chance: random.Random, action: str, memory_id: str, *, here: bool) -> None:
    if action == "edit":
        await world.run(memories.edit, memory_id, some_text(chance), None, here=here)
        await world.index()  # until then the index has its old content too
    elif action == "pin":
        with suppress(LimitReached):
            await world.run(memories.edit, memory_id, None, chance.random() < 0.7, here=here)
    elif chance.random() < 0.1:
        await world.run(memories.clear, here=here)
    else:
        await world.run(memories.forget, memory_id, here=here)


@pytest.mark.req("UWS-20.1")
@pytest.mark.parametrize("seed", range(by_depth(3, 20)))
async def test_copy_finds_what_the_index_finds(world: World, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(by_depth(25, 60)):
        await change(world, chance)
        query, top_k = some_text(chance), chance.choice([1, 5, 30])
        where = chance.choice([EVERYTHING, EVERYTHING, Filter(type="lesson"), Filter(until=datetime.now(UTC))])

        found = await world.context().search(query, top_k, where)

        expected = await world.context(by_index=True).search(query, top_k, where)
        assert scores(found) == scores(expected)
        are_distinct = len(set(scores(expected))) == len(expected)
        assert not are_distinct or [hit.memory.id for hit in found] == [hit.memory.id for hit in expected]
        rows, _ = await world.context().page(EVERYTHING, 1_000, 0)
        stored = {row.id: (row.content, row.pinned_at) for row in rows}
        assert all(stored[hit.memory.id] == (hit.memory.content, hit.memory.pinned_at) for hit in found)


@pytest.mark.req("UWS-20.1")
async def test_what_another_process_changes_is_seen_at_once(world: World) -> None:
    first, second = await world.remember("red door", "red wall")
    await world.index()
    assert set(await world.found("red")) == {first, second}

    await world.run(memories.forget, first, here=False)
    assert await world.found("red") == [second]
    await world.run(memories.edit, second, "green wall", None, here=False)
    assert await world.found("red") == []
    assert await world.found("green") == [second]
    [third] = await world.remember("red roof", here=False)
    assert await world.found("red") == [third]
    await world.run(memories.replace_memory, NewMemory("blue roof", id=third), here=False)
    assert await world.found("red") == []
    assert await world.found("blue", top_k=1) == [third]
    await world.run(memories.clear, here=False)
    assert await world.found("green roof") == []


@pytest.mark.req("UWS-20.1", "UWS-21.2")
async def test_memory_of_a_deleted_agent_is_not_found(world: World) -> None:
    await world.remember("red door")
    assert len(await world.found("red")) == 1

    await world.run(agent_changes.delete_agent, here=False)

    assert await world.found("red") == []


@pytest.mark.req("UWS-09.3")
async def test_copy_has_the_memories_of_one_agent_and_user_only(world: World) -> None:
    [mine] = await world.remember("red door")
    [others] = await world.remember("red wall", agent=1)
    await world.index()

    assert (await world.found("red"), await world.found("red", agent=1)) == ([mine], [others])
    stranger = (await world.database.run(create_account, f"{uuid7()}@example.org", None)).principal
    foreign = world.memories.context_store(stranger, world.project_id, *world.agents[0])
    assert await foreign.search("red") == []


async def test_added_memories_are_not_read_again(world: World, reads: list[int]) -> None:
    await world.remember("red door")
    await world.found("red")
    assert reads == [1]

    added = [(await world.remember(f"green wall {number}"))[0] for number in range(20)]
    assert set(await world.found("green", top_k=30)) == set(added)
    await world.index()
    assert set(await world.found("green wall", top_k=21)) > set(added)
    assert reads == [1]

    await world.remember("green roof", here=False)
    assert len(await world.found("green", top_k=30)) == 22  # the red door too, by meaning
    assert reads == [1, 22]


async def test_additions_that_are_announced_out_of_order_are_added_in_order(world: World, reads: list[int]) -> None:
    assert await world.found("red") == []
    copies = world.memories.copies
    assert copies is not None
    hints: list[memories.MemoriesAdded] = []
    world.other.on_commit(memories.MemoriesAdded, hints.append)
    [first], [second] = await world.remember("red door", here=False), await world.remember("red wall", here=False)

    for hint in (hints[1], hints[0], hints[1]):
        copies.added(hint)

    assert set(await world.found("red")) == {first, second}
    assert reads == [0]


@pytest.mark.req("UWS-20.1")
async def test_additions_that_wait_are_counted_and_limited(world: World, reads: list[int]) -> None:
    assert await world.found("red") == []
    copies = world.memories.copies
    assert copies is not None
    hints: list[memories.MemoriesAdded] = []
    world.other.on_commit(memories.MemoriesAdded, hints.append)
    ids = [
        *await world.remember("red door", here=False),
        *await world.remember("red wall", "red " * 500, here=False),
        *await world.remember("red " * 1_000, here=False),
    ]
    [copy] = copies._copies.values()
    empty = copies._bytes

    copies.added(hints[1])
    assert copies._bytes == copy.bytes > empty + 2_000
    copies.added(hints[2])  # too long to wait
    assert not copy.waiting
    assert copies._bytes == empty
    for version in range(hints[2].version + 1, hints[2].version + 200):  # some are of the future, all lack the first
        copies.added(memories.MemoriesAdded(hints[0].agent, version, hints[0].memories))
        assert len(copy.waiting) <= small_collections.MAX_WAITING
    copy.waiting.clear()

    assert set(await world.found("red")) == set(ids)
    assert reads == [0, 4]


async def test_searches_at_the_same_time_read_a_collection_once(world: World, reads: list[int]) -> None:
    ids = await world.remember("red door", "red wall")

    found = await asyncio.gather(*(world.found("red") for _ in range(8)))

    assert [set(each) for each in found] == [set(ids)] * 8
    assert reads == [2]


async def test_query_of_a_collection_without_vectors_is_not_embedded(world: World) -> None:
    assert await world.found("red") == []
    await world.remember("red door")
    assert len(await world.found("red")) == 1
    assert world.embedder.embedded == []

    await world.index()
    world.embedder.embedded.clear()
    assert len(await world.found("red")) == 1
    assert world.embedder.embedded == ["red"]


async def test_without_the_embedder_a_copy_is_searched_by_words(world: World) -> None:
    ids = await world.remember("red door", "green wall")
    await world.index()
    world.embedder.is_down = True

    assert await world.found("red") == ids[:1]


async def test_large_collections_are_searched_in_the_index(
    world: World, monkeypatch: pytest.MonkeyPatch, reads: list[int]
) -> None:
    monkeypatch.setattr(small_collections, "MAX_MEMORIES", 3)
    copies = world.memories.copies
    assert copies is not None
    ids = await world.remember("red door", "red wall", "red roof")
    assert set(await world.found("red")) == set(ids)
    key = world.user.user_id, world.project_id, world.agents[0][0]
    assert copies.peek(key) is not None

    ids += await world.remember("red car")
    assert set(await world.found("red")) == set(ids)
    assert copies.peek(key) is None
    await world.index()
    assert set(await world.found("red")) == set(ids)
    assert reads == [3]  # it is not tried again soon

    long = await world.remember("blue " * 1_000, "blue " * 1_000, agent=1)
    monkeypatch.setattr(small_collections, "MAX_COLLECTION_BYTES", 5_000)
    assert set(await world.found("blue", agent=1)) == set(long)
    assert copies.peek((*key[:2], world.agents[1][0])) is None


async def test_least_recently_used_copy_makes_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = world.memories.copies
    assert copies is not None
    keys = [(world.user.user_id, world.project_id, agent_id) for agent_id, _ in world.agents[:4]]
    for agent in (0, 1):
        await world.remember("red door", agent=agent)
        await world.found("red", agent=agent)
    one = copies.peek(keys[0])
    assert one is not None
    monkeypatch.setattr(small_collections, "MAX_BYTES", int(2.5 * one.bytes))
    await world.found("red")
    await world.remember("red door", agent=2)
    await world.remember("red door", agent=3)

    assert len(await world.found("red", agent=2)) == 1  # in the index: the others were just used
    assert [copies.peek(key) is not None for key in keys] == [True, True, False, False]

    monkeypatch.setattr(small_collections, "KEEP_SECONDS", 0.0)
    assert len(await world.found("red", agent=3)) == 1
    assert [copies.peek(key) is not None for key in keys] == [True, False, False, True]


async def test_collection_is_searched_in_the_index_while_it_can_not_be_copied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = await world.remember("red door")
    await world.index()

    async def fail(*_: Any) -> dict[str, Vector]:
        raise MemoryUnavailable("The test switched it off.")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "vectors", fail)
        assert await world.found("red") == [memory_id]
    assert await world.found("red") == [memory_id]


async def test_vectors_that_the_index_did_not_have_are_looked_up_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = await world.remember("red door")
    await world.index()
    monkeypatch.setattr(small_collections, "RETRY_SECONDS", 0.0)

    async def nothing(*_: Any) -> dict[str, Vector]:
        return {}

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "vectors", nothing)
        assert await world.found("green") == []
        assert await world.found("red") == [memory_id]
    assert await world.found("green") == [memory_id]  # by meaning, of which everything has a little


@pytest.mark.req("UWS-20.1")
@pytest.mark.parametrize("is_copied", [False, True])
async def test_memory_that_is_indexed_while_a_copy_is_read_is_found_by_meaning(
    world: World, monkeypatch: pytest.MonkeyPatch, is_copied: bool
) -> None:
    [memory_id] = await world.remember("red door")
    if is_copied:
        await world.found("red")
        await world.run(memories.edit, memory_id, "blue door", None, here=False)
    read = world.database.read

    async def read_before_indexing(function: Any, *arguments: Any) -> Any:
        rows = await read(function, *arguments)
        if function is small_collections._changes:
            await world.index()
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(world.database, "read", read_before_indexing)
        await world.found("door")

    assert await world.found("green") == [memory_id]  # by meaning, of which everything has a little


@pytest.mark.req("UWS-20.1")
async def test_after_the_index_failed_vectors_are_looked_up_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = await world.remember("red door")
    assert await world.found("red") == [memory_id]
    await world.run(memories.edit, memory_id, "blue door", None, here=False)
    await Memories(world.other, world.store, world.embedder).indexer.step()

    async def fail(*_: Any) -> dict[str, Vector]:
        raise MemoryUnavailable("The test switched it off.")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "vectors", fail)
        assert await world.found("blue") == [memory_id]
    assert await world.found("green") == [memory_id]  # by meaning, of which everything has a little


async def test_pinning_more_than_allowed_leaves_the_copy_as_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await world.remember("red door", "green wall")
    monkeypatch.setattr(memories, "MAX_PINNED", 1)
    await world.run(memories.edit, first, None, True)
    assert await world.found("blue") == [first]

    with pytest.raises(LimitReached):
        await world.run(memories.edit, second, None, True)

    assert await world.found("blue") == [first]
