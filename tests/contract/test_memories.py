"""The vector index stays in sync with the rows under races and failures; on SQLite and PostgreSQL."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artel import poller
from artel.agent_memory import agent_changes, index_queue, indexer, repository, service
from artel.agent_memory import transactions as memories
from artel.agent_memory.indexer import Indexer
from artel.agent_memory.repository import MemoryRepository, NewMemory
from artel.agent_memory.service import AgentContextStore, Memories
from artel.agents.transactions import get_agent
from artel.auth.accounts import create_account
from artel.auth.deletion import delete_account
from artel.auth.principal import Principal
from artel.contract.http import AgentChanges, NewProject
from artel.db import schema
from artel.db.engine import Database
from artel.errors import AgentNotFound, LimitReached, MemoryNotFound
from artel.ids import uuid7
from artel.projects.deletion import delete_project
from artel.projects.transactions import ProjectRules, create_project
from artel.retry import Backoff
from artel.vector_index.edge import EdgeStore
from artel.vector_index.embedder import NoEmbedder
from artel.vector_index.store import (
    EVERYTHING,
    EmbeddingsUnavailable,
    Filter,
    Hit,
    MemoryStore,
    MemoryUnavailable,
    Point,
    Vector,
    collection_name,
)
from tests.depth import by_depth

pytestmark = pytest.mark.anyio

RULES = ProjectRules(max_projects=100, max_agents=100, planner_model="gpt-4o")


class FlakyStore:
    """An in-memory index that can fail, records upserts, and has hooks around them."""

    def __init__(self) -> None:
        self.points: dict[str, dict[str, Point]] = {}
        self.down = False
        self.failures = 0  # number of calls that fail next
        self.upserts: list[str] = []
        self.needs_rebuild = False
        self.before_upsert: Callable[[], object] = lambda: None
        self.after_upsert: Callable[[], object] = lambda: None
        self.opened = False

    async def rebuilt(self) -> None:
        self.needs_rebuild = False

    async def ensure_collection(self, name: str) -> bool:
        self._fail_if_down()
        missing = name not in self.points
        self.points.setdefault(name, {})
        return missing

    async def upsert(self, points: Sequence[Point]) -> None:
        hook = self.before_upsert()
        if asyncio.iscoroutine(hook):
            await hook
        self._fail_if_down()
        for point in points:
            self.points.setdefault(point.collection, {})[point.id] = point
        self.upserts += [point.id for point in points]
        hook = self.after_upsert()
        if asyncio.iscoroutine(hook):
            await hook

    async def search(
        self,
        collection: str,
        text: str,
        vector: Vector | None,
        top_k: int,
        where: Filter = EVERYTHING,
        size: int | None = None,
    ) -> list[Hit]:
        self._fail_if_down()
        assert vector is None or where
        assert size, "search_memory has counted them"
        return [Hit(id_, 0.5) for id_, point in self.points.get(collection, {}).items() if text in point.text][:top_k]

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        self._fail_if_down()
        for memory_id in ids:
            self.points.get(collection, {}).pop(memory_id, None)

    async def clear(self, collection: str) -> None:
        self._fail_if_down()
        if collection in self.points:
            self.points[collection] = {}

    async def drop(self, collection: str) -> None:
        self._fail_if_down()
        self.points.pop(collection, None)

    async def rename(self, old: str, new: str) -> None:
        self._fail_if_down()
        self.points.setdefault(new, {}).update(self.points.pop(old, {}))

    async def count(self, collection: str) -> int:
        self._fail_if_down()
        return len(self.points.get(collection, {}))

    async def collections(self) -> list[str]:
        return sorted(self.points)

    async def healthy(self) -> bool:
        self.opened = True
        return not self.down

    async def close(self) -> None:
        self.points.clear()

    def _fail_if_down(self) -> None:
        self.opened = True
        if self.down or self.failures > 0:
            self.failures -= 1
            raise MemoryUnavailable("The test switched the index off.", retry_after=1)

    def ids(self, prefix: str = "") -> dict[str, set[str]]:
        return {name: set(texts) for name, texts in self.texts(prefix).items()}

    def texts(self, prefix: str = "") -> dict[str, dict[str, str]]:
        """Return the contents in the index, by collection and id."""
        return {
            name: {memory_id: point.text for memory_id, point in points.items()}
            for name, points in self.points.items()
            if points and name.startswith(prefix)
        }


@dataclass
class World:
    """A user with one project, the memories of its agents, and an index that may fail."""

    database: Database
    user: Principal
    project_id: int
    agents: list[int]
    store: FlakyStore = field(default_factory=FlakyStore)

    def __post_init__(self) -> None:
        self.memories = Memories(self.database, self.store, NoEmbedder())

    async def context(self, agent: int = 0) -> AgentContextStore:
        found = await self.database.read(get_agent, self.user, self.project_id, self.agents[agent])
        return self.memories.context_store(self.user, self.project_id, found.id, found.name)

    async def remember(self, *contents: str, agent: int = 0) -> list[str]:
        """Add rows without indexing them, as a turn does."""
        new = [NewMemory(content) for content in contents]
        rows = await self.database.of(self.user).run(memories.remember, self.project_id, self.agents[agent], new)
        return [row.id for row in rows]

    async def rename(self, name: str, agent: int = 0) -> None:
        name_change = AgentChanges(name=name)
        await self.database.of(self.user).run(
            agent_changes.update_agent, self.project_id, self.agents[agent], name_change
        )

    async def clear(self, agent: int = 0) -> int:
        return await self.database.of(self.user).run(memories.clear, self.project_id, self.agents[agent])

    async def work(self) -> None:
        """Run the indexer until nothing is pending."""
        for _ in range(500):
            try:
                if not await self.memories.indexer.step():
                    return
            except MemoryUnavailable:
                continue
        raise AssertionError("the indexer does not finish")

    async def rows(self) -> dict[str, dict[str, str]]:
        """Return the contents that the index should hold, by collection and id."""
        wanted = {}
        for number in self.agents:
            agent = await self.database.read(get_agent, self.user, self.project_id, number)
            context = self.memories.context_store(self.user, self.project_id, number, agent.name)
            found, _ = await context.page(EVERYTHING, 1000, 0)
            if found:
                wanted[context.collection] = {row.id: row.content for row in found}
        return wanted


@pytest.fixture
async def database(upgraded_database: Callable[[], str]) -> AsyncIterator[Database]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    yield database
    await database.close()


async def new_world(database: Database) -> World:
    user = (await database.run(create_account, f"{uuid7()}@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Memory"), RULES)
    return World(database, user, project.id, [agent.id for agent in project.agents])


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


def collection_of(world: World, agent: str) -> str:
    return collection_name(world.user.user_id, world.project_id, agent)


# Background indexing


async def test_index_is_not_opened_before_there_is_work(world: World) -> None:
    world.memories.start()
    for _ in range(3):
        world.memories.indexer.wake()
        await asyncio.sleep(0.02)
    assert not world.store.opened

    await world.remember("something")
    world.memories.indexer.wake()
    await until(lambda: bool(world.store.upserts))
    await world.memories.close()


async def test_recovered_index_gets_each_memory_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "BACKOFF", Backoff(0.01, 30.0))
    world.store.down = True
    ids = await world.remember(*(f"number {n}" for n in range(150)))
    world.memories.start()
    world.memories.indexer.wake()
    await until(lambda: not world.memories.indexer.state.ok)
    health = await world.memories.health(count_waiting=True)
    assert (health.index_ok, health.waiting, health.embeddings, health.words_only) == (False, 150, "none", True)
    assert health.detail

    world.store.down = False

    await until(lambda: len(world.store.upserts) == 150)
    await until(lambda: world.memories.indexer.state.ok)
    assert sorted(world.store.upserts) == sorted(ids)
    assert world.store.texts() == await world.rows()
    assert (await world.memories.health(count_waiting=True)).waiting == 0
    await world.memories.close()


async def test_background_indexing_yields_to_turns_for_a_limited_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "MAX_YIELD_SECONDS", 0.3)
    polls = 0

    def busy() -> bool:
        nonlocal polls
        polls += 1
        assert not world.store.upserts
        return True

    await world.remember("while a turn runs")
    started = time.monotonic()
    await world.memories.indexer.step(busy)

    assert time.monotonic() - started >= 0.25
    assert polls
    assert len(world.store.upserts) == 1


async def test_background_indexing_takes_a_fifth_of_the_time_while_turns_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "MAX_YIELD_SECONDS", 0)
    ended: list[float] = []

    async def slow() -> None:
        await asyncio.sleep(0.1)
        ended.append(time.monotonic())

    world.store.before_upsert = slow
    for content in ("one", "two"):
        await world.remember(content)
        await world.memories.indexer.step(lambda: True)
    assert ended[1] - ended[0] >= 0.5

    monkeypatch.setattr(indexer, "REST", 1_000_000)
    async with asyncio.timeout(60):
        for content in ("three", "four"):  # it does not rest while no turn runs
            await world.remember(content)
            await world.memories.indexer.step(lambda: False)
    assert len(ended) == 4


@pytest.mark.req("UWS-20.1")
async def test_memories_of_turns_in_a_row_are_indexed_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "MAX_YIELD_SECONDS", 60)
    [first] = await world.remember("the first turn")
    later: list[str] = []
    polls = 0

    def busy() -> bool:
        nonlocal polls
        polls += 1
        return polls >= 3 and not later  # a turn begins before it was quiet for long enough

    step = asyncio.create_task(world.memories.indexer.step(busy))
    await until(lambda: polls >= 3)
    later += await world.remember("the second turn")
    await step

    assert sorted(world.store.upserts) == sorted([first, *later])
    assert not await world.memories.indexer.step()


async def test_text_that_can_not_be_embedded_is_skipped(world: World) -> None:
    class FailingEmbedder(NoEmbedder):
        dimensions = 1

        async def embed(self, texts: Sequence[str]) -> Any:
            if "poison" in texts:
                raise EmbeddingsUnavailable("I don't like it.")
            return [[1.0] for _ in texts]

    [*before, poison] = await world.remember("one", "two", "poison")
    after = await world.remember("three", "four")
    background = Indexer(world.database, world.store, FailingEmbedder())

    for _ in range(30):
        try:
            await background.step()
        except EmbeddingsUnavailable:
            continue

    assert set(world.store.upserts) == {*before, *after}
    assert [row.id for row in await world.database.read(index_queue.waiting, "", 10)] == [poison]


# Following changes of the rows


@pytest.mark.req("UWS-21.1")
async def test_memory_added_during_a_clear_is_not_lost(world: World) -> None:
    await world.remember("old")
    await world.work()
    await world.clear()
    [added] = await world.remember("new")

    # It is indexed before the pending clear, which removes it from the index, and again after it.
    row = (await world.database.read(index_queue.waiting, "", 10))[0]
    await world.memories.indexer.index([row])
    await world.work()

    assert world.store.texts() == await world.rows()
    assert added in world.store.ids()[collection_of(world, "agent_coder")]


async def test_clear_between_upsert_and_marking_leaves_the_index_in_sync(world: World) -> None:
    async def clear_and_add() -> None:
        world.store.after_upsert = world.store.before_upsert = lambda: None
        await world.clear()
        await world.remember("meanwhile")
        await world.memories.indexer.run_chores()

    for moment in ("before_upsert", "after_upsert"):
        await world.remember("cleared in the middle")
        setattr(world.store, moment, clear_and_add)
        await world.work()
        assert world.store.texts() == await world.rows(), moment


async def test_row_upserted_just_before_a_clear_is_indexed_again(world: World) -> None:
    await world.clear()
    await world.remember("after the clear")
    # The clear empties the collection between upserting and marking.
    world.store.after_upsert = world.memories.indexer.run_chores
    row = (await world.database.read(index_queue.waiting, "", 10))[0]

    assert await world.memories.indexer.index([row]) == 0
    world.store.after_upsert = lambda: None
    await world.work()

    assert world.store.texts() == await world.rows()


async def test_renamed_agent_keeps_its_memory_when_another_takes_its_name(world: World) -> None:
    [old] = await world.remember("of the first")
    await world.work()
    await world.rename("agent_first")
    await world.rename("agent_coder", agent=1)
    [new] = await world.remember("of the second", agent=1)
    row = (await world.database.read(index_queue.waiting, "", 10))[0]
    await world.memories.indexer.index([row])  # under the first agent's old name, before the collection is renamed

    await world.work()

    assert world.store.ids() == {collection_of(world, "agent_first"): {old}, collection_of(world, "agent_coder"): {new}}


async def test_rename_between_upsert_and_marking_moves_the_memory(world: World) -> None:
    async def rename() -> None:
        world.store.after_upsert = lambda: None
        await world.rename("agent_other")
        await world.memories.indexer.run_chores()

    await world.remember("in the middle")
    world.store.after_upsert = rename
    await world.work()

    assert world.store.texts() == await world.rows()
    assert await world.store.collections() == [collection_of(world, "agent_other")]


@pytest.mark.req("AGT-03.4")
async def test_memory_replaced_while_it_is_indexed_is_indexed_again(world: World) -> None:
    [memory_id] = await world.remember("The old content")
    new = NewMemory("The new content", id=memory_id)

    async def replace() -> None:
        world.store.before_upsert = lambda: None
        await world.database.of(world.user).run(memories.replace_memory, world.project_id, world.agents[0], new)

    world.store.before_upsert = replace
    await world.work()

    [point] = world.store.points[collection_of(world, "agent_coder")].values()
    assert point.text == "The new content"
    assert await world.database.read(index_queue.count_waiting) == 0


async def test_memory_indexed_under_an_old_name_is_not_marked_as_indexed(world: World) -> None:
    [memory_id] = await world.remember("in the middle")
    ticket = await world.database.run(index_queue.take_ticket, [memory_id])
    await world.rename("agent_other")

    assert await world.database.run(index_queue.return_ticket, ticket, {}) == 0
    assert [row.id for row in await world.database.read(index_queue.waiting, "", 10)] == [memory_id]


@pytest.mark.req("UWS-21.2")
async def test_deleted_agent_and_project_leave_no_collection(world: World) -> None:
    for agent in range(4):
        await world.remember("something", agent=agent)
    await world.work()

    await world.database.of(world.user).run(agent_changes.delete_agent, world.project_id, world.agents[0], archive=True)
    await world.work()
    assert collection_of(world, "agent_coder") not in await world.store.collections()
    assert len(await world.store.collections()) == 3
    [archive], total = await world.database.read(memories.list_archives, world.user, world.project_id, 10, 0)
    assert (total, archive.agent, archive.memories) == (1, "agent_coder", 1)
    assert await world.database.read(index_queue.count_waiting) == 0

    await world.database.of(world.user).run(delete_project, world.project_id)
    await world.work()
    assert await world.store.collections() == []


async def test_deleted_account_leaves_no_collection(world: World) -> None:
    await world.remember("something")
    await world.work()

    await world.database.run(delete_account, str(world.user.user_id))
    await world.work()

    assert await world.store.collections() == []


async def test_agent_with_the_name_of_a_deleted_agent_keeps_its_own_memory(world: World) -> None:
    await world.remember("of the first")
    await world.work()
    await world.database.of(world.user).run(agent_changes.delete_agent, world.project_id, world.agents.pop(0))
    await world.rename("agent_coder")
    [new] = await world.remember("of the second")
    row = (await world.database.read(index_queue.waiting, "", 10))[0]
    await world.memories.indexer.index([row])

    await world.work()

    assert world.store.ids() == {collection_of(world, "agent_coder"): {new}}


# Context stores


@pytest.mark.req("UWS-17.1", "UWS-18.1", "UWS-20.1")
async def test_context_store_finds_a_new_memory_at_once(world: World) -> None:
    context = await world.context()
    assert context.collection == f"user{world.user.user_id}_project{world.project_id}_agent_coder_context"
    assert await context.ensure()
    assert not await context.ensure()

    stored = await context.add(NewMemory("the red door", "lesson", success=False, task_id="t1", metadata={"a": [1]}))

    [found] = await context.search("red")
    assert found.memory.id == stored.id
    assert (found.memory.type, found.memory.success, found.memory.task_id) == ("lesson", False, "t1")
    assert found.memory.metadata == {"a": [1]}
    assert found.memory.indexed_at is not None
    assert await (await world.context(1)).search("red") == []
    assert world.store.upserts == [stored.id]


@pytest.mark.req("UWS-20.1")
async def test_search_finds_indexed_and_unindexed_memories(world: World) -> None:
    context = await world.context()
    await context.ensure()
    [indexed] = await world.remember("the red door")
    await world.work()
    other, newest = await world.remember("a green wall", "a red wall, painted today")
    await world.remember("red too, of another agent", agent=1)

    found = await context.search("red")

    assert {hit.memory.id for hit in found} == {indexed, newest}
    assert [hit.memory.id for hit in await context.search("painted wall", top_k=1)] == [newest]
    assert {hit.memory.id for hit in await context.search("wall")} == {other, newest}
    assert await context.search("painted", where=Filter(type="lesson")) == []
    assert await context.search("painted", where=Filter(since=datetime.now(UTC) + timedelta(days=1))) == []
    await world.clear()
    assert await context.search("red") == []


@pytest.mark.req("UWS-20.1")
async def test_edited_memory_is_found_by_its_new_content_only(world: World) -> None:
    context = await world.context()
    [red, green] = await world.remember("the red door", "a green door")
    await world.work()
    world.store.down = True  # so that the index still has the old content

    edited = await context.edit(red, "the blue door", None)

    world.store.down = False
    assert (edited.content, edited.id) == ("the blue door", red)
    assert edited.edited_at
    assert [hit.memory.id for hit in await context.search("blue")] == [red]
    assert await context.search("red") == []
    await world.work()
    assert world.store.texts()[context.collection] == {red: "the blue door", green: "a green door"}
    assert [hit.memory.id for hit in await context.search("blue")] == [red]


@pytest.mark.req("UWS-20.1")
async def test_memory_edited_while_it_is_indexed_is_indexed_again(world: World) -> None:
    [memory_id] = await world.remember("The old content")
    ids = world.project_id, world.agents[0], memory_id

    async def edit() -> None:
        world.store.before_upsert = lambda: None
        await world.database.of(world.user).run(memories.edit, *ids, "The new content", None)

    world.store.before_upsert = edit
    await world.work()

    assert world.store.texts() == {collection_of(world, "agent_coder"): {memory_id: "The new content"}}
    assert await world.database.read(index_queue.count_waiting) == 0


@pytest.mark.req("UWS-21.1")
async def test_forgotten_memory_leaves_the_index_and_others_stay_indexed(world: World) -> None:
    context = await world.context()
    first, second, third = await world.remember("one", "two", "three")
    await world.work()
    upserts = len(world.store.upserts)

    await context.forget(first)
    assert set(world.store.texts()[context.collection]) == {second, third}
    world.store.down = True
    await context.forget(second)
    world.store.down = False
    assert await context.search("two") == []
    await world.work()

    assert set(world.store.texts()[context.collection]) == {third}
    assert len(world.store.upserts) == upserts  # nothing was indexed again
    for missing in (first, uuid7()):
        with pytest.raises(MemoryNotFound):
            await context.forget(missing)
    with pytest.raises(MemoryNotFound):
        await (await world.context(1)).forget(third)


@pytest.mark.req("UWS-20.1")
async def test_pinned_memories_are_listed_first_and_always_considered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await world.context()
    rule, *rest = await world.remember("Invoices are sent on paper", *(f"red number {n}" for n in range(9)))
    await world.work()
    assert rule not in {hit.memory.id for hit in await context.search("red", top_k=5)}

    pinned = await context.edit(rule, None, True)

    assert pinned.pinned
    assert pinned.edited_at is None
    found = [hit.memory.id for hit in await context.search("red", top_k=5)]
    assert rule in found
    assert len(found) == len(set(found)) == 5
    lessons = await context.search("red", where=Filter(type="lesson"))
    assert rule not in {hit.memory.id for hit in lessons}
    newest_first = [rule, *reversed(rest)]
    for limit, offset in ((3, 0), (3, 1), (10, 0), (4, 8), (5, 10)):
        page, total = await context.page(EVERYTHING, limit, offset)
        assert [memory.id for memory in page] == newest_first[offset : offset + limit]
        assert total == 10
    assert (await context.page(Filter(success=False), 10, 0)) == ([], 0)

    monkeypatch.setattr(memories, "MAX_PINNED", 1)
    with pytest.raises(LimitReached):
        await context.edit(rest[0], "not stored", True)
    assert (await context.get(rest[0])).content == "red number 0"
    assert not (await context.edit(rule, None, False)).pinned
    assert rule not in {hit.memory.id for hit in await context.search("red", top_k=5)}


@pytest.mark.req("UWS-20.1")
async def test_memory_indexed_during_a_search_is_found_once(world: World) -> None:
    context = await world.context()
    await context.ensure()
    await world.remember("the red door")
    await world.work()
    [newest] = await world.remember("a red wall")
    searched = world.store.search

    async def search_while_indexing(*arguments: Any) -> list[Hit]:
        await world.work()
        return await searched(*arguments)

    world.store.search = search_while_indexing  # type: ignore[method-assign, assignment]

    found = [hit.memory.id for hit in await context.search("red")]

    assert found.count(newest) == 1
    assert len(found) == 2


@pytest.mark.req("UWS-20.1")
async def test_oldest_of_a_thousand_unindexed_memories_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MATCH_SECONDS", 60)
    monkeypatch.setattr(service, "MATCH_REST", 0)
    context = await world.context()
    await context.ensure()
    [oldest] = await world.remember("The oldest is 100%_red. Самая старая ЗАПИСЬ 我的红门")
    await world.remember(*(f"the number {number} is stored" for number in range(1_000)))

    for query in ("the red", "RED", "что за запись", "红门"):
        assert (await context.search(query))[0].memory.id == oldest
    assert await context.search("r_d", where=Filter(type="lesson")) == []
    assert len(await context.search("number", top_k=10)) == 10


@pytest.mark.req("UWS-20.1")
async def test_end_of_a_long_unindexed_memory_is_searched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MATCH_SECONDS", 60)
    monkeypatch.setattr(service, "MATCH_REST", 0)
    context = await world.context()
    await context.ensure()
    [long] = await world.remember(f"{'padding ' * 6_000} the door is red")

    assert [found.memory.id for found in await context.search("red")] == [long]


@pytest.mark.req("UWS-20.1")
async def test_searches_of_very_many_unindexed_memories_leave_time_for_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MATCH_SECONDS", 60)
    monkeypatch.setattr(service, "MATCH_REST", 1_000_000)
    context = await world.context()
    await context.ensure()
    [oldest, *_] = await world.remember("the red door", *(f"the wall {number} is white" for number in range(300)))

    results = await asyncio.gather(*(context.search("door", top_k=1) for _ in range(8)))

    [found] = [result for result in results if result]
    assert found[0].memory.id == oldest


@pytest.mark.req("UWS-20.1")
async def test_search_of_very_many_unindexed_memories_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MATCH_SECONDS", 0)
    context = await world.context()
    await context.ensure()
    await world.remember("the red door")
    [newest, *_] = reversed(await world.remember(*(f"the wall {number} is red" for number in range(300))))

    assert [found.memory.id for found in await context.search("red", top_k=1)] == [newest]


@pytest.mark.req("UWS-20.1")
async def test_search_of_unindexed_memories_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "MAX_MATCHED_ROWS", 2)
    project, agent = world.project_id, world.agents[0]
    await world.remember("red rare")
    end, long = await world.remember(f"{'wall ' * 12_000} red", f"{'wall ' * 6_000} red rare")
    short_words = [f"w{number}" for number in range(11)]

    def matching(words: list[str]) -> dict[str, str]:
        with world.database.engine.connect() as connection:
            memories = MemoryRepository(connection, world.user)
            return {
                memory.id: memory.content for memory in memories.matching_unindexed(project, agent, words, EVERYTHING)
            }

    found = matching(["red", "rare", "absent"])
    assert list(found) == [long]  # neither the third one nor the end of the other
    assert found[long].split()[-2:] == ["rare", "red"]
    assert len(found[long]) < 5_000
    assert set(matching(["wall"])) == {end, long}
    assert set(matching([*short_words, "red", "wall"])) == {end, long}
    assert matching([*(f"word{number}" for number in range(12)), "red"]) == {}  # only the longest 12 words


@pytest.mark.req("UWS-20.1")
async def test_unindexed_memory_is_found_while_the_index_does_not_answer(world: World) -> None:
    context = await world.context()
    await context.ensure()
    [indexed] = await world.remember("a green wall")
    await world.work()
    [stored] = await world.remember("the red door")
    world.store.down = True

    assert [found.memory.id for found in await context.search("red")] == [stored]
    assert not (await world.memories.health()).index_ok
    with pytest.raises(MemoryUnavailable):
        await context.search("green")
    await context.edit(indexed, None, True)
    assert [found.memory.id for found in await context.search("green")] == [indexed]


@pytest.mark.req("AGT-03.3")
async def test_get_returns_only_the_agents_own_memory(world: World) -> None:
    [mine], [others] = await world.remember("the red door"), await world.remember("a green wall", agent=1)
    context = await world.context()

    assert (await context.get(mine)).content == "the red door"
    for unknown in (others, uuid7()):
        with pytest.raises(MemoryNotFound):
            await context.get(unknown)


@pytest.mark.req("UWS-21.1")
async def test_clear_empties_the_collection_but_keeps_it(world: World) -> None:
    context, other = await world.context(), await world.context(1)
    for content in ("one red", "two red"):
        await context.add(NewMemory(content))
    unaffected = await other.add(NewMemory("three red"))

    assert await context.clear() == 2

    assert await context.search("red") == []
    assert await world.store.count(context.collection) == 0
    assert context.collection in await world.store.collections()
    assert [found.memory.id for found in await other.search("red")] == [unaffected.id]


async def test_with_the_index_down_add_and_clear_work_and_search_without_match_raises(world: World) -> None:
    context = await world.context()
    world.store.down = True

    stored = await context.add(NewMemory("kept all the same"))
    assert [found.memory.id for found in await context.search("kept")] == [stored.id]
    with pytest.raises(MemoryUnavailable):
        await context.search("elsewhere")
    assert not (await world.memories.health()).index_ok

    world.store.down = False
    await world.work()
    assert [found.memory.id for found in await context.search("kept")] == [stored.id]
    world.store.down = True
    assert await context.clear() == 1
    world.store.down = False
    await world.work()
    assert world.store.ids() == {}


async def test_hits_without_own_row_are_dropped(world: World) -> None:
    context = await world.context()
    own = await context.add(NewMemory("red"))
    foreign = await (await world.context(1)).add(NewMemory("red"))
    points = world.store.points
    for ghost in (uuid7(), foreign.id):
        points[context.collection][ghost] = points[context.collection][own.id]

    assert [found.memory.id for found in await context.search("red")] == [own.id]


async def test_removed_collection_is_filled_again(world: World) -> None:
    context = await world.context()
    stored = await context.add(NewMemory("red"))
    world.store.points.clear()

    assert await context.ensure()
    await world.work()

    assert [found.memory.id for found in await context.search("red")] == [stored.id]


async def test_hanging_index_does_not_block_add(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "INDEX_SECONDS", 0.05)
    never = asyncio.Event()
    world.store.before_upsert = never.wait

    async with asyncio.timeout(5):
        await (await world.context()).add(NewMemory("red"))

    world.store.before_upsert = lambda: None
    await world.work()
    assert world.store.texts() == await world.rows()
    await world.memories.close()


async def test_memory_whose_ticket_was_revoked_is_indexed_again(world: World) -> None:
    async def interfere() -> None:
        world.store.after_upsert = lambda: None
        await world.database.run(index_queue.revoke_tickets)
        world.memories.indexer.wake()

    world.memories.start()
    world.store.after_upsert = interfere
    context = await world.context()

    stored = await context.add(NewMemory("red"))

    await until(lambda: world.store.upserts == [stored.id, stored.id], seconds=10)
    await world.memories.close()


async def test_full_memory_and_missing_agent_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    context = await world.context()
    monkeypatch.setattr(memories, "MAX_MEMORIES", 1)
    await context.add(NewMemory("one"))
    with pytest.raises(LimitReached):
        await context.add(NewMemory("two"))

    monkeypatch.setattr(memories, "MAX_MEMORIES", 10)
    await world.database.of(world.user).run(agent_changes.delete_agent, world.project_id, world.agents[0])
    with pytest.raises(AgentNotFound):
        await context.add(NewMemory("three"))
    assert await world.remember("four") == []


async def test_content_is_cleaned_and_truncated(world: World) -> None:
    await world.remember("a\x00b\ud800c", "x" * 200_000)

    rows = await world.database.read(index_queue.waiting, "", 10)
    assert {row.content for row in rows} == {"ab?c", "x" * 100_000}


# Loss of the index


def edge(folder: Path) -> MemoryStore:
    return EdgeStore(folder, model="none", dimensions=0)


async def test_deleted_index_folder_is_rebuilt_from_the_rows(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    first = Memories(world.database, edge(folder), NoEmbedder())
    ids = await world.remember(*(f"number {n}" for n in range(100)))
    while await first.indexer.step():
        pass
    collection = collection_of(world, "agent_coder")
    assert await world.database.read(index_queue.count_waiting) == 0
    await first.close()
    shutil.rmtree(folder)

    again = Memories(world.database, store := edge(folder), NoEmbedder())
    again.start()
    context = again.context_store(world.user, world.project_id, world.agents[0], "agent_coder")
    await context.search("number")  # opens the index, which detects the loss
    deadline = time.monotonic() + 30
    while await store.count(collection) < 100:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)

    assert {found.memory.id for found in await context.search("number", 100)} == set(ids)
    assert not store.needs_rebuild
    await again.close()


async def test_memory_removed_by_a_late_clear_is_indexed_under_the_agents_new_name(world: World) -> None:
    await world.remember("old")
    await world.work()
    await world.clear()  # the index is not cleared yet
    await _add_at_once(world, 0)
    await world.rename("agent_renamed")

    await world.work()

    assert world.store.texts(f"user{world.user.user_id}_") == await world.rows()
    assert len(world.store.ids(f"user{world.user.user_id}_")[collection_of(world, "agent_renamed")]) == 1


# Random sequences of actions


ACTIONS = st.sampled_from(
    [
        *("add", "add at once", "clear", "clear at once", "rename", "swap", "index", "chores", "fail", "wipe"),
        *("edit", "edit at once", "forget", "forget at once"),
    ]
)


@settings(max_examples=by_depth(15, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(st.tuples(ACTIONS, st.integers(0, 1), ACTIONS), min_size=1, max_size=12))
def test_index_finally_holds_exactly_the_rows(
    upgraded_database: Callable[[], str], actions: list[tuple[str, int, str]], shared: "SharedDatabase"
) -> None:
    async def run() -> None:
        database = await shared.open(upgraded_database)
        world = await new_world(database)
        try:
            for action, agent, interruption in actions:

                async def interrupt(action: str = interruption, agent: int = agent) -> None:
                    world.store.after_upsert = world.store.before_upsert = lambda: None
                    await act(world, action, agent)

                setattr(world.store, "after_upsert" if agent else "before_upsert", interrupt)
                await act(world, action, agent)
            world.store.after_upsert = world.store.before_upsert = lambda: None
            world.store.failures = 0
            await world.work()
            assert world.store.texts(f"user{world.user.user_id}_") == await world.rows()
            await database.of(world.user).run(delete_project, world.project_id)
            await world.work()
            assert await world.store.collections() == []
        finally:
            await database.close()

    asyncio.run(run())


async def act(world: World, action: str, agent: int) -> None:
    actions: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "add": lambda: world.remember("x", "y", agent=agent),
        "add at once": lambda: _add_at_once(world, agent),
        "clear": lambda: world.clear(agent),
        "clear at once": lambda: _clear_at_once(world, agent),
        "rename": lambda: world.rename(f"agent_{uuid7()}", agent),
        "swap": lambda: _swap(world, agent),
        "index": world.memories.indexer.step,
        "chores": Indexer(world.database, world.store, NoEmbedder()).run_chores,  # as another process would
        "edit": lambda: _edit(world, agent),
        "edit at once": lambda: _edit(world, agent, at_once=True),
        "forget": lambda: _forget(world, agent),
        "forget at once": lambda: _forget(world, agent, at_once=True),
        "fail": lambda: _fail(world),
        "wipe": lambda: _wipe(world),
    }
    with suppress(MemoryUnavailable):
        async with asyncio.timeout(10):
            await actions[action]()


async def _add_at_once(world: World, agent: int) -> None:
    await (await world.context(agent)).add(NewMemory("z"))


async def _clear_at_once(world: World, agent: int) -> None:
    await (await world.context(agent)).clear()


async def _edit(world: World, agent: int, *, at_once: bool = False) -> None:
    """Change the oldest memory, which is the one that an interrupted indexer works on."""
    context = await world.context(agent)
    for memory in (await context.after(""))[:1]:
        ids = world.project_id, world.agents[agent], memory.id
        if at_once:
            await context.edit(memory.id, f"edited {uuid7()}", None)
        else:
            await world.database.of(world.user).run(memories.edit, *ids, f"edited {uuid7()}", None)


async def _forget(world: World, agent: int, *, at_once: bool = False) -> None:
    context = await world.context(agent)
    for memory in (await context.after(""))[:1]:
        ids = world.project_id, world.agents[agent], memory.id
        await (context.forget(memory.id) if at_once else world.database.of(world.user).run(memories.forget, *ids))


async def _swap(world: World, agent: int) -> None:
    """Give the agent's name to the other agent."""
    name = (await world.database.read(get_agent, world.user, world.project_id, world.agents[agent])).name
    await world.rename(f"agent_{uuid7()}", agent)
    await world.rename(name, 1 - agent)


async def _fail(world: World) -> None:
    world.store.failures = 2


async def _wipe(world: World) -> None:
    world.store.points.clear()
    world.store.needs_rebuild = True


class SharedDatabase:
    """One database for all examples of a property, because creating one takes longer than an example."""

    def __init__(self) -> None:
        self._url: str | None = None

    async def open(self, make: Callable[[], str]) -> Database:
        fresh = self._url is None
        self._url = self._url or make().replace("postgresql:", "postgresql+psycopg:")
        database = Database(self._url, connections=4)
        if fresh:
            await asyncio.to_thread(schema.upgrade, database.engine)
        return database


@pytest.fixture
def shared() -> SharedDatabase:
    return SharedDatabase()
