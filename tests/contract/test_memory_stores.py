"""The contract of memory indexes: qdrant-edge, Qdrant (both layouts) and Chroma.

Chroma is tested if `chromadb` is installed (an extra of 350 MB: `make test-chroma` installs it for the maintainers'
CI), a real Qdrant server if ARTEL_TEST_QDRANT_URL is set.
"""

import ast
import asyncio
import importlib.util
import itertools
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from artel.errors import ConfigurationInvalid, Kind
from artel.ids import uuid7
from artel.settings import Settings
from artel.vector_index import bm25, engine_threads
from artel.vector_index.edge import EdgeStore
from artel.vector_index.embedder import LocalEmbedder, NoEmbedder, artel_embedder
from artel.vector_index.providers import make_store
from artel.vector_index.search import search_memory
from artel.vector_index.store import (
    EVERYTHING,
    Filter,
    Hit,
    MemoryStore,
    MemoryUnavailable,
    Point,
    Vector,
    collection_name,
)
from tests.depth import by_depth

if TYPE_CHECKING:
    from artel.vector_index.qdrant import QdrantStore

pytestmark = pytest.mark.anyio


def qdrant_store(url: str, **options: Any) -> "QdrantStore":
    from artel.vector_index.qdrant import QdrantStore  # takes a second

    return QdrantStore(url, **options)


QDRANT_URL = os.environ.get("ARTEL_TEST_QDRANT_URL")
HAS_CHROMA = importlib.util.find_spec("chromadb") is not None
STORES = [
    "edge",
    "qdrant-shared",
    "qdrant-per_agent",
    *(["server-shared", "server-per_agent"] if QDRANT_URL else []),
    *(["chroma"] if HAS_CHROMA else []),
]
ON_DISK = ["edge", *(["chroma"] if HAS_CHROMA else [])]

MINE = collection_name(1, 1, "agent_coder")
THEIRS = collection_name(2, 7, "agent_coder")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FLAT = [0.5, 0.5, 0.5, 0.5]
_runs = itertools.count()


def new_store(kind: str, folder: Path, *, model: str = "test", dimensions: int = 4) -> MemoryStore:
    if kind == "edge":
        return EdgeStore(folder / "memory", model=model, dimensions=dimensions)
    if kind == "chroma":
        from artel.vector_index.chroma import ChromaStore

        return ChromaStore(folder / "chroma", model=model, dimensions=dimensions)
    where, _, layout = kind.partition("-")
    url = ":memory:" if where == "qdrant" else str(QDRANT_URL)
    assert layout in ("shared", "per_agent")
    return qdrant_store(url, model=model, dimensions=dimensions, layout=layout)


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def store(kind: str, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    store = new_store(kind, tmp_path)
    for left_over in await store.collections():  # from an earlier run on a real server
        await store.drop(left_over)
    yield store
    await store.close()


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[EdgeStore]:
    store = EdgeStore(tmp_path / "memory", model="test", dimensions=4)
    yield store
    await store.close()


@pytest.fixture(scope="session")
def embedder() -> Iterator[LocalEmbedder]:
    embedder = artel_embedder()
    yield embedder
    asyncio.run(embedder.close())


def memory(
    text: str,
    *,
    collection: str = MINE,
    id: str | None = None,  # noqa: A002
    vector: Vector | None = FLAT,
    type: str = "task",  # noqa: A002
    success: bool = True,
    at: datetime = NOON,
) -> Point:
    return Point(id or uuid7(), collection, text, vector, type, success, at)


def at_angle(angle: float) -> list[float]:
    return [math.cos(angle), math.sin(angle), 0, 0]


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


# Adding and finding


@pytest.mark.req("UWS-17.1", "UWS-20.1", "AGT-03.3")
async def test_memory_is_found_as_soon_as_it_is_stored(store: MemoryStore) -> None:
    point = memory("the deployment needs a migration", vector=[1.0, 0, 0, 0], type="lesson", success=False)
    await store.upsert([point])

    exactly = Filter(type="lesson", success=False, since=NOON, until=NOON)
    assert ids(await store.search(MINE, "migration", None, 5)) == [point.id]
    assert ids(await store.search(MINE, "unknown words", [1.0, 0, 0, 0], 5, exactly)) == [point.id]
    assert await store.collections() == ["user1_project1_agent_coder_context"]
    assert await store.count(MINE) == 1


async def test_upsert_replaces_an_existing_memory(store: MemoryStore) -> None:
    first = memory("the old apple", type="old")
    await store.upsert([first, memory("something else")])
    await store.upsert([memory("a plum", id=first.id), memory("a new pear", id=first.id, type="new")])

    assert await store.count(MINE) == 2
    assert await store.search(MINE, "apple plum", None, 5) == []
    assert ids(await store.search(MINE, "pear", FLAT, 5, Filter(type="new"))) == [first.id]
    assert await store.search(MINE, "pear", FLAT, 5, Filter(type="old")) == []


async def test_memory_without_words_or_vector_is_stored(store: MemoryStore) -> None:
    silent, bare = memory("?!…", vector=[0, 0, 0, 1.0]), memory("plain words", vector=None)
    await store.upsert([silent, bare, memory("", vector=None)])

    assert await store.count(MINE) == 3
    assert ids(await store.search(MINE, "?!", [0, 0, 0, 1.0], 5)) == [silent.id]
    assert set(ids(await store.search(MINE, "plain", [0, 0, 0, 1.0], 5))) == {silent.id, bare.id}
    assert await store.search(MINE, "?!", None, 5) == []


async def test_scores_are_between_0_and_1_and_ties_are_ordered_by_id(store: MemoryStore) -> None:
    twins = [memory("red fish", vector=[1.0, 0, 0, 0]) for _ in range(6)]
    other = memory("one red fish and a blue boat", vector=[0.9, 0.1, 0, 0])
    await store.upsert([*reversed(twins), other])

    for vector in (None, [1.0, 0, 0, 0]):
        hits = await store.search(MINE, "red fish", vector, 10)
        assert ids(hits) == [*sorted(twin.id for twin in twins), other.id]
        assert all(0 < hit.score <= 1 for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert await store.search(MINE, "red fish", vector, 3) == hits[:3]


async def test_top_k_is_limited(store: MemoryStore) -> None:
    await store.upsert([memory(f"number {n}") for n in range(130)])

    for vector in (None, FLAT):
        assert await store.search(MINE, "number", vector, 0) == []
        assert await store.search(MINE, "number", vector, -1) == []
        assert len(await store.search(MINE, "number", vector, 1)) == 1
        assert len(await store.search(MINE, "number", vector, 10_000)) == 100


async def test_search_by_words_in_many_languages(store: MemoryStore) -> None:
    texts = {
        "кошка": "Моя КОШКА любит молоко",
        "数据库": "我们的数据库在夜间备份",
        "naïve": "A NAÏVE approach to caching",
        "straße": "Die STRASSE ist gesperrt",
        "हिन्दी": "मुझे हिन्दी पसंद है",
        "4711": "error E_CONN_4711 while connecting",
    }
    points = {word: memory(text, vector=None) for word, text in texts.items()}
    await store.upsert(list(points.values()))

    for word, point in points.items():
        assert ids(await store.search(MINE, word, None, 3)) == [point.id], word
    assert await store.search(MINE, "собака", None, 3) == []


async def test_every_store_ranks_like_the_embedded_one(store: MemoryStore, tmp_path: Path) -> None:
    edge = EdgeStore(tmp_path / "reference", model="test", dimensions=4)
    words = ["cache", "queue", "retry", "index", "token", "lease"]
    points = [
        memory(
            " ".join(words[(n * step) % 6] for step in range(1, 2 + n % 5)),
            vector=[float(n % 5), float(n % 7), float(n % 3), 1.0],
        )
        for n in range(40)
    ]
    await store.upsert(points)
    await edge.upsert(points)

    for query, vector in itertools.product(["cache retry", "lease", "token index queue"], (None, [1.0, 3, 2, 1])):
        ours = await store.search(MINE, query, vector, 10)
        assert ids(ours) == ids(await edge.search(MINE, query, vector, 10)), query
    await edge.close()


# Hybrid search


@pytest.mark.req("UWS-19.2", "UWS-20.1")
async def test_common_words_do_not_outweigh_the_meaning(store: MemoryStore) -> None:
    near = memory("The port authority settles the bill", vector=[1.0, 0, 0, 0])
    others = [memory(f"Who pays for item {n} is noted in the list", vector=[0, 1.0, 0, 0]) for n in range(20)]
    rare = memory("Ticket ZX-4471 is about the quay", vector=[0, 1.0, 0, 0])
    await store.upsert([near, *others, rare])

    assert ids(await store.search(MINE, "who pays for it in the end", [1.0, 0, 0, 0], 3))[0] == near.id
    assert ids(await store.search(MINE, "ZX 4471", [0, 0.9, 0, 0.1], 3))[0] == rare.id


@pytest.mark.req("UWS-19.2", "UWS-20.1")
async def test_hybrid_search_finds_the_rare_word_and_the_paraphrase(
    kind: str, tmp_path: Path, embedder: LocalEmbedder
) -> None:
    texts = [
        "The nightly job failed with code ZX-4471 in the billing module",
        "Users who cannot remember their credentials can request a new passphrase by e-mail",
        "The office plants are watered on Mondays and Thursdays",
        "We deploy the web server to production every Friday afternoon",
        "The database is backed up to the second data centre at night",
        "Our logo uses two shades of green",
        "Lunch is served between noon and two o'clock",
        "The new intern starts in September",
    ]
    store = new_store(kind, tmp_path, model=embedder.name, dimensions=embedder.dimensions)
    vectors = await embedder.embed(texts)
    points = [memory(text, vector=vector) for text, vector in zip(texts, vectors, strict=True)]
    await store.upsert(points)

    rare = await search_memory(store, embedder, MINE, "what was ZX-4471 about?", 3)
    paraphrase = await search_memory(store, embedder, MINE, "How do I reset my password?", 3)
    await store.drop(MINE)
    await store.close()

    assert rare[0].id == points[0].id
    assert paraphrase[0].id == points[1].id


async def test_search_of_an_empty_collection_does_not_embed(store: MemoryStore) -> None:
    class UnexpectedCall(NoEmbedder):
        dimensions = 4

        async def embed(self, texts: Any) -> Any:
            raise AssertionError(texts)

    await store.ensure_collection(MINE)

    assert await search_memory(store, UnexpectedCall(), MINE, "anything", 5) == []
    assert await search_memory(store, UnexpectedCall(), collection_name(9, 9, "nobody"), "anything", 5) == []


async def test_failing_embedder_falls_back_to_words(store: MemoryStore) -> None:
    class Broken(NoEmbedder):
        dimensions = 4

    point = memory("find me by name")
    await store.upsert([point])

    assert ids(await search_memory(store, Broken(), MINE, "name", 5)) == [point.id]
    assert ids(await search_memory(store, NoEmbedder(), MINE, "name", 5)) == [point.id]
    assert await search_memory(store, NoEmbedder(), MINE, "  ", 5) == []


# Filters


@pytest.mark.req("UWS-19.2")
async def test_filters_by_type_success_and_date(store: MemoryStore) -> None:
    tick = timedelta(microseconds=1)
    points = {
        "early": memory("note", type="chat", success=True, at=NOON - tick),
        "noon": memory("note", type="task", success=False, at=NOON),
        "late": memory("note", type="task", success=True, at=NOON + tick),
        "naive": memory("note", type="chat", success=False, at=datetime(2026, 3, 2)),  # noqa: DTZ001 - interpreted as UTC
    }
    await store.upsert(list(points.values()))
    berlin = NOON.astimezone(timezone(timedelta(hours=1)))

    expected = {
        Filter(): {"early", "noon", "late", "naive"},
        Filter(type="task"): {"noon", "late"},
        Filter(type="tas"): set(),
        Filter(success=True): {"early", "late"},
        Filter(success=False): {"noon", "naive"},
        Filter(since=NOON): {"noon", "late", "naive"},
        Filter(until=NOON): {"early", "noon"},
        Filter(since=berlin, until=berlin): {"noon"},
        Filter(since=NOON + tick, until=NOON): set(),
        Filter(type="task", success=True, since=NOON, until=NOON + tick): {"late"},
        Filter(type="chat", success=False, since=NOON): {"naive"},
    }
    for where, names in expected.items():
        for vector in (None, FLAT):
            hits = await store.search(MINE, "note", vector, 10, where)
            assert set(ids(hits)) == {points[name].id for name in names}, where


# Isolation

HOSTILE = [
    "' OR 1=1 --",
    '"}, {"key": "collection", "match": {"any": ["*"]}}',
    '{"must_not": [{"has_id": []}]}',
    "collection:*",
    THEIRS,
    "%",
    "\x00",
    "../../shard",
    "task\u202e",
]
texts = st.one_of(st.text(max_size=30), st.sampled_from(HOSTILE), st.sampled_from(["red fish", "blue fish", "fish"]))
# Names that a wrong comparison of prefixes, patterns or paths would mix up.
neighbours = st.sampled_from(
    [
        ("user1_project1_a_context", "user1_project11_a_context"),
        ("user1_project1_a_context", "user11_project1_a_context"),
        ("user1_project1_a_context", "user1_project1_a_context_context"),
        ("user1_project1_x_project1_x_context", "user1_project1_x_context"),
        ("user1_project2_a-b_context", "user1_project2_a_b_context"),
        ("collection", "registered"),
    ]
)
tenants = st.integers(0, 1)
few_ids = [uuid7() for _ in range(4)]
operations = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), tenants, st.sampled_from(few_ids), texts, texts, st.booleans()),
        st.tuples(st.just("delete"), tenants, st.lists(st.sampled_from(few_ids), max_size=3)),
        st.tuples(st.just("clear"), tenants),
        st.tuples(st.just("drop"), tenants),
    ),
    max_size=12,
)


@pytest.fixture
def running(kind: str, tmp_path: Path) -> Iterator[tuple[MemoryStore, Callable[..., Any]]]:
    """A store for all examples of one test, and what runs its coroutines."""
    with asyncio.Runner() as runner:
        store = new_store(kind, tmp_path)
        yield store, runner.run
        runner.run(store.close())


@pytest.mark.req("UWS-17.2")
@settings(max_examples=by_depth(40, 100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=neighbours, done=operations, query=texts)
def test_collections_are_isolated(
    running: tuple[MemoryStore, Callable[..., Any]], pair: tuple[str, str], done: list[tuple[Any, ...]], query: str
) -> None:
    store, run = running
    number = next(_runs)
    run(check_isolation(store, (f"{pair[0]}{number}x", f"{pair[1]}{number}x"), done, query))


async def check_isolation(store: MemoryStore, names: tuple[str, str], done: list[tuple[Any, ...]], query: str) -> None:
    """Apply the operations to the store and to two dictionaries, then compare."""
    model: list[dict[str, Point]] = [{}, {}]
    for operation, tenant, *details in done:
        await apply(store, model[tenant], operation, names[tenant], details)
    for name, expected in zip(names, model, strict=True):
        await compare(store, expected, name, query)
    for name in names:
        await store.drop(name)


async def apply(store: MemoryStore, model: dict[str, Point], operation: str, name: str, details: list[Any]) -> None:
    if operation == "upsert":
        memory_id, text, kind, success = details
        model[memory_id] = Point(memory_id, name, text, FLAT, kind, success, NOON)
        await store.upsert([model[memory_id]])
    elif operation == "delete":
        await store.delete(name, details[0])
        for memory_id in details[0]:
            model.pop(memory_id, None)
    else:
        await (store.clear if operation == "clear" else store.drop)(name)
        model.clear()


async def compare(store: MemoryStore, expected: dict[str, Point], name: str, query: str) -> None:
    words = set(bm25.tokens(query))
    by_words = {point.id for point in expected.values() if words & set(bm25.tokens(point.text))}
    assert await store.count(name) == len(expected)
    assert set(ids(await store.search(name, query, FLAT, 100))) == set(expected)
    assert set(ids(await store.search(name, query, None, 100))) == by_words
    for point in expected.values():
        same_type = {other.id for other in expected.values() if other.type == point.type}
        assert set(ids(await store.search(name, query, FLAT, 100, Filter(type=point.type)))) == same_type


@pytest.mark.req("UWS-17.2")
async def test_same_id_in_two_collections_is_two_memories(store: MemoryStore) -> None:
    mine, theirs = memory("my secret"), memory("their secret", collection=THEIRS)
    theirs = Point(mine.id, THEIRS, theirs.text, theirs.vector, theirs.type, theirs.success, theirs.created_at)
    await store.upsert([mine, theirs])
    await store.delete(MINE, [mine.id])

    assert await store.count(MINE) == 0
    assert ids(await store.search(THEIRS, "secret", FLAT, 5)) == [theirs.id]


@pytest.mark.req("UWS-17.2")
async def test_scores_do_not_depend_on_other_tenants(store: MemoryStore) -> None:
    await store.upsert([memory("rare orchid"), memory("common grass"), memory("common moss")])
    before = await store.search(MINE, "rare common", None, 5)
    await store.upsert([memory("rare rare", collection=THEIRS) for _ in range(50)])

    assert await store.search(MINE, "rare common", None, 5) == before


@pytest.mark.parametrize(
    "name", ["", "ab", "a/b", "../x", "a b c", 'x"y"z', "user1_project1_a_context\n", "кот", "_ab", "ab_", "a" * 201]
)
async def test_invalid_collection_name_is_refused_by_all_stores(store: MemoryStore, name: str) -> None:
    await store.upsert([memory("hello")])

    attempts: list[Callable[[], Any]] = [
        lambda: store.ensure_collection(name),
        lambda: store.upsert([memory("x", collection=name)]),
        lambda: store.search(name, "hello", None, 5),
        lambda: store.delete(name, ["x"]),
        lambda: store.clear(name),
        lambda: store.drop(name),
        lambda: store.rename(MINE, name),
        lambda: store.rename(name, MINE),
        lambda: store.count(name),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigurationInvalid):
            await attempt()
    assert await store.collections() == [MINE]
    assert await store.count(MINE) == 1


agent_names = st.from_regex(r"[a-z][a-z0-9_-]{0,62}", fullmatch=True) | st.sampled_from(
    ["a", "a_context", "x_project1_y", "project2_a", "context", "user1_project1_a_context"]
)
triples = st.tuples(st.integers(0, 10**18), st.integers(0, 10**18), agent_names) | st.tuples(
    st.integers(0, 12), st.integers(0, 12), agent_names
)


@pytest.mark.req("UWS-17.1")
@given(first=triples, second=triples)
def test_two_agents_never_share_a_collection(first: tuple[int, int, str], second: tuple[int, int, str]) -> None:
    assert (collection_name(*first) == collection_name(*second)) == (first == second)
    assert collection_name(*first) == f"user{first[0]}_project{first[1]}_{first[2]}_context"


@pytest.mark.parametrize("triple", [(1, 1, ""), (1, 1, "A"), (1, 1, "a\n"), (1, 1, "1_a"), (-1, 1, "a"), (1, -1, "a")])
def test_collection_name_refuses_invalid_agents(triple: tuple[int, int, str]) -> None:
    with pytest.raises(ConfigurationInvalid):
        collection_name(*triple)


# Collections


@pytest.mark.req("UWS-18.1")
async def test_ensure_collection_creates_it_once(store: MemoryStore) -> None:
    assert await store.ensure_collection(MINE)
    assert not await store.ensure_collection(MINE)
    await store.upsert([memory("hello", collection=THEIRS)])
    assert not await store.ensure_collection(THEIRS)

    assert await store.collections() == [MINE, THEIRS]
    assert await store.count(MINE) == 0


@pytest.mark.req("UWS-18.1")
async def test_embedded_index_has_payload_indexes(edge: EdgeStore) -> None:
    await edge.ensure_collection(MINE)

    shard = edge._shard
    assert shard
    assert {"collection", "type", "success", "created_at"} <= set(shard.info().payload_schema)


@pytest.mark.req("UWS-18.1")
@pytest.mark.parametrize("layout", ["shared", "per_agent"])
async def test_server_collection_gets_payload_indexes(layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = qdrant_store(":memory:", model="test", dimensions=4, layout=layout)
    indexes: dict[str, Any] = {}

    async def record(_collection: str, field: str, schema: Any, **_: Any) -> None:
        indexes[field] = schema

    monkeypatch.setattr(store, "_is_server", True)
    monkeypatch.setattr(store._client, "create_payload_index", record)
    await store.ensure_collection(MINE)
    await store.close()

    assert {"collection", "type", "success", "created_at"} <= set(indexes)
    assert indexes["collection"].is_tenant is (layout == "shared")


@pytest.mark.req("UWS-21.1")
async def test_clear_deletes_memories_but_keeps_the_collection(store: MemoryStore) -> None:
    await store.upsert([memory(f"text {n}") for n in range(20)])
    await store.upsert([memory("theirs", collection=THEIRS)])
    await store.clear(MINE)

    assert await store.count(MINE) == 0
    assert await store.search(MINE, "text", FLAT, 5) == []
    assert await store.collections() == [MINE, THEIRS]
    assert await store.count(THEIRS) == 1
    again = memory("text again")
    await store.upsert([again])
    assert ids(await store.search(MINE, "text", FLAT, 5)) == [again.id]


async def test_missing_collection_is_empty_and_can_be_deleted(store: MemoryStore) -> None:
    assert await store.count(MINE) == 0
    assert await store.search(MINE, "text", FLAT, 5) == []
    await store.delete(MINE, [uuid7()])
    await store.delete(MINE, [])
    await store.clear(MINE)
    await store.drop(MINE)
    await store.upsert([])

    assert await store.collections() == []


async def test_dropped_collection_can_be_created_again(store: MemoryStore) -> None:
    await store.upsert([memory("old"), memory("theirs", collection=THEIRS)])
    await store.drop(MINE)
    assert await store.collections() == [THEIRS]

    assert await store.ensure_collection(MINE)
    assert await store.count(MINE) == 0
    await store.upsert([memory("new")])
    assert await store.count(MINE) == 1


async def test_rename_moves_every_memory(store: MemoryStore) -> None:
    points = [memory(f"word{n}", vector=at_angle(n / 400), type=f"t{n % 3}") for n in range(600)]
    await store.upsert([*points, memory("bystander", collection=THEIRS)])
    new = collection_name(1, 1, "agent_reviewer")
    await store.rename(MINE, new)

    assert await store.collections() == [new, THEIRS]
    assert (await store.count(MINE), await store.count(new), await store.count(THEIRS)) == (0, 600, 1)
    assert ids(await store.search(new, "word7", None, 5, Filter(type="t1"))) == [points[7].id]
    assert ids(await store.search(new, "word599", at_angle(599 / 400), 1)) == [points[599].id]
    await store.delete(new, [points[7].id])
    assert await store.count(new) == 599


async def test_interrupted_rename_can_be_repeated(store: MemoryStore) -> None:
    new = collection_name(1, 1, "agent_reviewer")
    moved, left = memory("moved already", collection=new), memory("left behind")
    await store.upsert([moved, left])
    await store.rename(MINE, new)
    await store.rename(MINE, new)
    await store.rename(new, new)

    assert await store.collections() == [new]
    assert set(ids(await store.search(new, "x", FLAT, 5))) == {moved.id, left.id}


async def test_vector_of_wrong_length_is_an_error(store: MemoryStore) -> None:
    with pytest.raises(ValueError, match="3 dimensions"):
        await store.upsert([memory("x", vector=[1.0, 2.0, 3.0])])


async def test_without_an_embedder_only_words_count(kind: str, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path, dimensions=0)
    point = memory("only words count", vector=None)
    await store.upsert([point])

    assert ids(await store.search(MINE, "words", None, 5)) == [point.id]
    assert await store.search(MINE, "other", None, 5) == []
    assert await store.healthy()
    await store.drop(MINE)
    await store.close()


async def test_closed_store_is_unavailable(kind: str, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path)
    assert await store.healthy()
    await store.close()
    await store.close()

    assert not await store.healthy()
    with pytest.raises(MemoryUnavailable):
        await store.ensure_collection(MINE)


async def test_new_collection_does_not_require_a_rebuild(store: MemoryStore) -> None:
    await store.upsert([memory("hello")])
    await store.rebuilt()

    assert await store.ensure_collection(THEIRS)
    assert not store.needs_rebuild


# On disk


@pytest.mark.req("AGT-03.3")
@pytest.mark.parametrize("kind", ON_DISK)
async def test_memories_are_persistent(kind: str, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path)
    points = [memory(f"kept {n}") for n in range(300)]
    await store.upsert(points)
    await store.ensure_collection(THEIRS)
    await store.rebuilt()
    await store.close()

    again = new_store(kind, tmp_path)
    assert await again.count(MINE) == 300
    assert ids(await again.search(MINE, "299", None, 5)) == [points[299].id]
    assert await again.collections() == [MINE, THEIRS]
    assert not again.needs_rebuild
    await again.close()


@pytest.mark.parametrize("kind", ON_DISK)
async def test_another_model_recreates_the_index(kind: str, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path)
    await store.upsert([memory("seen by the old model")])
    await store.close()

    again = new_store(kind, tmp_path, model="other", dimensions=2)
    assert await again.ensure_collection(MINE)
    assert again.needs_rebuild
    assert await again.count(MINE) == 0
    await again.upsert([memory("seen by the new model", vector=[1.0, 0])])
    assert len(await again.search(MINE, "model", [1.0, 0], 5)) == 1
    await again.close()


async def test_server_collection_of_another_model_is_recreated(monkeypatch: pytest.MonkeyPatch) -> None:
    store = qdrant_store(":memory:", model="old", dimensions=4, layout="per_agent")
    await store.upsert([memory("seen by the old model")])
    again = qdrant_store(":memory:", model="new", dimensions=2, layout="per_agent")
    monkeypatch.setattr(again, "_client", store._client)

    assert await again.search(MINE, "model", [1.0, 0], 5) == []
    assert await again.ensure_collection(MINE)
    assert again.needs_rebuild
    await again.rebuilt()
    assert not again.needs_rebuild
    await again.close()


async def test_foreign_server_collection_is_not_touched() -> None:
    store = qdrant_store(":memory:", model="test", dimensions=4, layout="per_agent")
    await store._client.create_collection(MINE, vectors_config={})

    with pytest.raises(ConfigurationInvalid, match="didn't create"):
        await store.ensure_collection(MINE)
    assert await store._client.collection_exists(MINE)
    await store.close()


WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from artel.ids import uuid7
from artel.vector_index.edge import EdgeStore
from artel.vector_index.store import Point

async def main():
    store = EdgeStore(Path(sys.argv[1]), model="test", dimensions=4)
    for n in range(1_000_000):
        points = [Point(uuid7(), sys.argv[2], f"row {n}", [1.0, n, 0, 0], "t", True, datetime.now(UTC)) for _ in "123"]
        await store.upsert(points)
        print(*(point.id for point in points), flush=True)

asyncio.run(main())
"""


def killed_writer(folder: Path) -> list[str]:
    """Return the ids that a process reported as stored before it was killed."""
    command = [sys.executable, "-c", WRITER, str(folder), MINE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        stored = [writer.stdout.readline() for _ in range(150)]
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().rpartition("\n")[0]
    return " ".join([*stored, rest]).split()


@pytest.mark.req("AGT-03.3")
async def test_memories_survive_a_killed_process(tmp_path: Path) -> None:
    stored = killed_writer(tmp_path / "memory")
    store = EdgeStore(tmp_path / "memory", model="test", dimensions=4)
    assert await store.count(MINE) >= len(stored) >= 450
    await store.delete(MINE, stored)
    assert await store.count(MINE) <= 3  # stored but not reported yet
    await store.upsert([memory("life goes on")])
    assert await store.search(MINE, "life", None, 5)
    await store.close()


@pytest.mark.parametrize("damage", ["edge_config.json", "wal/first-index", "segments/*/vector_storage-bm25/deleted/*"])
async def test_broken_shard_is_moved_aside_and_recreated(tmp_path: Path, damage: str) -> None:
    store = EdgeStore(tmp_path / "memory", model="test", dimensions=4)
    await store.upsert([memory("soon lost")])
    await store.rebuilt()
    await store.close()
    for file in (tmp_path / "memory" / "shard").glob(damage):
        file.write_bytes(b"")

    again = EdgeStore(tmp_path / "memory", model="test", dimensions=4)
    assert await again.healthy()
    assert again.needs_rebuild
    assert await again.ensure_collection(MINE)
    assert len(list((tmp_path / "memory").glob("broken-*"))) == 1
    await again.upsert([memory("indexed again")])
    await again.close()

    still = EdgeStore(tmp_path / "memory", model="test", dimensions=4)
    assert await still.count(MINE) == 1
    assert still.needs_rebuild  # until rebuilt() is called
    await still.rebuilt()
    assert not still.needs_rebuild
    await still.close()


async def test_locked_shard_is_not_touched(edge: EdgeStore, tmp_path: Path) -> None:
    await edge.upsert([memory("in use")])
    second = EdgeStore(tmp_path / "memory", model="test", dimensions=4)

    with pytest.raises(MemoryUnavailable, match="Another process"):
        await second.count(MINE)
    assert not await second.healthy()
    await second.close()
    assert await edge.count(MINE) == 1
    assert not list((tmp_path / "memory").glob("broken-*"))


async def test_shard_is_compacted_when_it_is_opened(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path / "memory", model="test", dimensions=4)
    living = memory("kept", collection=THEIRS)
    await store.upsert([living, *(memory(f"dead {n}") for n in range(3_000))])
    await store.clear(MINE)
    await store.close()
    segments = set((tmp_path / "memory" / "shard" / "segments").iterdir())

    again = EdgeStore(tmp_path / "memory", model="test", dimensions=4)
    assert ids(await again.search(THEIRS, "kept", FLAT, 5)) == [living.id]
    await again.upsert([memory("new life")])
    assert await again.count(MINE) == 1
    await again.close()
    assert set((tmp_path / "memory" / "shard" / "segments").iterdir()).isdisjoint(segments)


# Concurrency and deadlines


async def test_searches_do_not_wait_for_a_writer(edge: EdgeStore) -> None:
    await edge.upsert([memory("hello")])
    started, go_on = threading.Event(), threading.Event()

    def write() -> None:
        started.set()
        assert go_on.wait(10)

    writing = asyncio.create_task(edge._writer.run(write))
    await asyncio.to_thread(started.wait, 10)
    assert await edge.search(MINE, "hello", FLAT, 5)
    go_on.set()
    await writing


async def test_call_fails_after_its_deadline(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path / "memory", model="test", dimensions=4, deadline_seconds=0.05)
    await store.ensure_collection(MINE)
    go_on = threading.Event()
    with pytest.raises(MemoryUnavailable, match="in time"):
        await store._readers.run(go_on.wait, 10)
    go_on.set()

    assert await store.count(MINE) == 0
    await store.close()


async def test_calls_beyond_the_queue_limit_are_refused(edge: EdgeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_threads, "MAX_WAITING", 3)
    go_on = threading.Event()
    accepted = [asyncio.create_task(edge._writer.run(go_on.wait, 10)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(MemoryUnavailable, match="overloaded"):
        await edge.upsert([memory("hello")])
    go_on.set()

    assert await asyncio.gather(*accepted) == [True] * 3
    await edge.upsert([memory("hello")])


async def test_panic_of_the_engine_is_memory_unavailable(edge: EdgeStore) -> None:
    class Panic(BaseException):
        """As PyO3 raises it."""

    def panic() -> None:
        raise Panic("index out of bounds")

    with pytest.raises(MemoryUnavailable) as caught:
        await edge._readers.run(panic)
    assert caught.value.kind is Kind.UNAVAILABLE
    with pytest.raises(ZeroDivisionError):  # our own bugs are not hidden
        await edge._readers.run(lambda: 1 // 0)


async def test_unreachable_server_is_memory_unavailable() -> None:
    store = qdrant_store("http://127.0.0.1:1", model="test", dimensions=4, deadline_seconds=2)

    attempts: list[Callable[[], Any]] = [
        lambda: store.ensure_collection(MINE),
        lambda: store.upsert([memory("x")]),
        lambda: store.search(MINE, "x", FLAT, 5),
        lambda: store.count(MINE),
        store.collections,
    ]
    for attempt in attempts:
        with pytest.raises(MemoryUnavailable) as caught:
            await attempt()
        assert caught.value.kind is Kind.UNAVAILABLE
        assert caught.value.retry_after
    assert not await store.healthy()
    await store.close()


async def test_silent_server_is_memory_unavailable_after_the_deadline() -> None:
    connected = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = qdrant_store(f"http://127.0.0.1:{port}", model="test", dimensions=4, deadline_seconds=0.2)
    started = asyncio.get_running_loop().time()
    with pytest.raises(MemoryUnavailable):
        await store.search(MINE, "x", FLAT, 5)

    assert asyncio.get_running_loop().time() - started < 2
    assert connected.is_set()
    await store.close()
    server.close()


async def test_too_old_server_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store = qdrant_store(":memory:", model="test", dimensions=4)
    info = await store._client.info()

    async def old() -> Any:
        return info.model_copy(update={"version": "1.18.3-dev"})

    monkeypatch.setattr(store._client, "info", old)
    with pytest.raises(ConfigurationInvalid, match=r"1\.18\.3.*1\.19"):
        await store.ensure_collection(MINE)
    assert not await store.healthy()
    await store.close()


# Providers


@pytest.mark.req("AGT-03.3")
def test_unknown_provider_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"'pinecone'.*qdrant or chroma"):
        Settings(data_dir=tmp_path, memory_provider="pinecone")


@pytest.mark.req("AGT-03.3")
async def test_qdrant_is_the_default_embedded_or_remote(tmp_path: Path) -> None:
    embedded = make_store(Settings(data_dir=tmp_path), NoEmbedder())
    remote = make_store(
        Settings(data_dir=tmp_path, qdrant_url=SecretStr("http://127.0.0.1:1"), qdrant_layout="per_agent"), NoEmbedder()
    )

    assert isinstance(embedded, EdgeStore)
    assert await embedded.healthy()
    assert (tmp_path / "memory" / "shard").is_dir()
    assert type(remote).__name__ == "QdrantStore"
    for store in (embedded, remote):
        await store.close()


@pytest.mark.req("AGT-03.3")
def test_missing_chroma_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "chromadb" else find_spec(name))

    with pytest.raises(ConfigurationInvalid, match=r"pip install 'artel-ai\[chroma\]'"):
        make_store(Settings(data_dir=tmp_path, memory_provider="chroma"), NoEmbedder())


@pytest.mark.parametrize(("module", "url"), [("edge", None), ("qdrant", SecretStr("http://127.0.0.1:1"))])
def test_index_that_cannot_be_loaded_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, url: SecretStr | None
) -> None:
    monkeypatch.setitem(sys.modules, f"artel.vector_index.{module}", None)

    with pytest.raises(ConfigurationInvalid, match="Install Artel again"):
        make_store(Settings(data_dir=tmp_path, qdrant_url=url), NoEmbedder())


def test_importing_the_package_loads_no_engine() -> None:
    code = """
import sys
from artel.vector_index import artel_embed, embedder, minilm, providers, search
heavy = {"numpy", "qdrant_edge", "qdrant_client", "chromadb", "tokenizers", "safetensors", "litellm"}
print(*(heavy & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


# The scope

PACKAGE = Path(bm25.__file__).parent
# The engine names that the stores may use: shards, clients, schemas, types; nothing that selects points.
ALLOWED = {
    "edge.py": {"EdgeShard", "Point", "UpdateOperation"},
    "shard.py": {
        "Distance",
        "EdgeConfig",
        "EdgeOptimizersConfig",
        "EdgeShard",
        "EdgeSparseVectorParams",
        "EdgeVectorParams",
        "IntegerIndexParams",
        "KeywordIndexParams",
        "Modifier",
        "UpdateOperation.create_field_index",
    },
    "qdrant.py": {
        "ApiException",
        "AsyncQdrantClient",
        "Distance",
        "HnswConfigDiff",
        "IntegerIndexParams",
        "IntegerIndexType",
        "KeywordIndexParams",
        "KeywordIndexType",
        "Modifier",
        "PointStruct",
        "SparseVectorParams",
        "VectorParams",
        "models",
    },
}
# Calls that read or change points, with the index of the argument that selects the points.
SELECTING = {
    "count": 1, "delete": 1, "facet": None, "query_batch_points": 1, "retrieve": 1, "scroll": 1, "upsert": 1,
}  # fmt: skip


def engine_names(tree: ast.AST) -> set[str]:
    """Return every name of an engine's module that a syntax tree uses."""
    names, modules = set(), {"models", "edge", "qdrant_edge", "qdrant_client"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(("qdrant_edge", "qdrant_client")):
            names |= {name.name for name in node.names}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            names.add(node.attr)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("UpdateOperation"):
            names.add(f"UpdateOperation.{node.attr}")
    return names


@pytest.mark.req("UWS-17.2")
@pytest.mark.parametrize("file", ["edge.py", "shard.py", "qdrant.py"])
def test_only_the_gate_builds_filters_and_requests(file: str) -> None:
    names = engine_names(ast.parse((PACKAGE / file).read_text(encoding="utf-8")))

    assert {name for name in names if name != "UpdateOperation" or file == "edge.py"} <= ALLOWED[file]


@pytest.mark.req("UWS-17.2")
def test_no_other_module_uses_an_engine() -> None:
    for path in PACKAGE.glob("*.py"):
        if path.name not in {"collection_scope.py", *ALLOWED}:
            assert engine_names(ast.parse(path.read_text(encoding="utf-8"))) == set(), path.name


@pytest.mark.req("UWS-17.2")
def test_every_server_request_is_scoped_to_a_collection() -> None:
    tree = ast.parse((PACKAGE / "qdrant.py").read_text(encoding="utf-8"))
    seen = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("self._client."):
            method = node.func.attr  # type: ignore[attr-defined]
            if (index := SELECTING.get(method)) is not None:
                seen.add(method)
                selector = ast.unparse(node.args[index])
                assert (
                    selector in {"some", "requests"}
                    or "scope." in selector
                    or selector.startswith(("source.", "target."))
                ), ast.unparse(node)
    assert seen == {"count", "delete", "query_batch_points", "retrieve", "scroll", "upsert"}


@pytest.mark.req("UWS-17.2")
def test_gate_requires_a_collection() -> None:
    from artel.vector_index.collection_scope import EdgeScope, QdrantScope

    for scope in (EdgeScope, QdrantScope):
        with pytest.raises(TypeError):
            scope(dimensions=4)  # type: ignore[call-arg]
        with pytest.raises(ConfigurationInvalid):
            scope("", 4)
    from_qdrant = QdrantScope(MINE, 4).searches("hello", FLAT, 5, EVERYTHING)
    for request in from_qdrant:
        assert request.filter.must[0].match.value == MINE  # type: ignore[union-attr, index]


# Words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat's 2nd life", ["the", "cat", "s", "2nd", "life"]),
        ("snake_case ERR_CONN", ["snake", "case", "err", "conn"]),
        ("Ёжик в тумане", ["ёжик", "в", "тумане"]),
        ("数据库 ok", ["数据", "据库", "ok"]),
        ("東京abc", ["東京", "abc"]),
        ("猫", ["猫"]),
        ("हिन्दी", ["हिन्दी"]),
        ("cafe\u0301 ＡＢＣ ﬁne", ["café", "abc", "fine"]),
        ("x" * 100, ["x" * 64]),
        ("\ud800 ok", ["ok"]),
        ("… !? _ \x00", []),
    ],
)
def test_tokens_of_a_text(text: str, expected: list[str]) -> None:
    assert list(bm25.tokens(text)) == expected


def test_term_numbers_are_stable() -> None:
    assert bm25.query_vector("cat Кошка 数据").indices == [336722692, 2666296096, 3138554730]


@given(text=st.text(max_size=300))
def test_document_terms_are_sorted_and_have_positive_weights(text: str) -> None:
    vector = bm25.document_vector(text)

    assert vector.indices == sorted(set(vector.indices))
    assert all(0 <= index < 2**32 for index in vector.indices)
    assert all(0 < value < bm25.SATURATION + 1 for value in vector.values)
    assert set(bm25.query_vector(text).indices) <= set(vector.indices)


def test_weight_grows_with_frequency_and_shrinks_with_length() -> None:
    def weight(text: str) -> float:
        vector = bm25.document_vector(text)
        return dict(zip(vector.indices, vector.values, strict=True))[bm25.query_vector("cat").indices[0]]

    assert weight("cat cat") > weight("cat") > weight("cat " + "other " * 500)
    assert bm25.idf(100, 1) > bm25.idf(100, 50) > 0
