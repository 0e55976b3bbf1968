"""The long-term memory of a node: persistent, for each tenant apart, with the index that the file names."""

import importlib.util
from pathlib import Path

import pytest

from artel.contract.agent_file import LongTerm
from artel.errors import ConfigurationInvalid
from artel.nodes.long_term_memory import LongTermMemory, MemoryInvalid
from artel.settings import Settings
from artel.vector_index.store import MemoryUnavailable
from tests.node_files import ANN, BOB, agent_file, call, shared_tools

pytestmark = pytest.mark.anyio


def opened(folder: Path, node: str = "agent.writer.001", **long_term: str) -> LongTermMemory:
    return LongTermMemory(node, LongTerm(enabled=True, **long_term), Settings(data_dir=folder), folder / "node")


@pytest.mark.req("AGT-03.3")
async def test_memories_are_stored_searched_and_got_and_survive_a_restart(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    mine = memory.of("user1_project1")
    cats = await mine.store("Cats sleep sixteen hours a day.", {"type": "fact", "topic": "cats"})
    await mine.store("The customer prefers short sentences.")
    await memory.close()

    memory = opened(tmp_path)
    mine, theirs = memory.of("user1_project1"), memory.of("user2_project1")
    [found] = await mine.search("How long do cats sleep?", 1)
    got = await mine.get(cats)

    assert (found.id, found.content, found.type) == (cats, "Cats sleep sixteen hours a day.", "fact")
    assert found.score > 0
    assert got is not None
    assert got.metadata == {"type": "fact", "topic": "cats"}
    assert await mine.get("no-such-id") is None
    assert await theirs.search("How long do cats sleep?", 5) == []
    assert await theirs.get(cats) is None
    await memory.close()


@pytest.mark.req("AGT-03.3")
async def test_memories_of_a_tenant_are_forgotten_and_no_others(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    mine, theirs = memory.of("user1_project1"), memory.of("user1_project2")
    for each in (mine, theirs):
        await each.store("Cats sleep sixteen hours a day.")

    for _ in range(2):  # the event may come twice
        await mine.forget()

    assert await mine.search("cats", 5) == []
    assert len(await theirs.search("cats", 5)) == 1
    await memory.close()


@pytest.mark.req("AGT-03.3")
async def test_memories_are_found_after_the_index_was_lost_or_was_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)
    with monkeypatch.context() as down:

        async def fail(*_: object) -> None:
            raise MemoryUnavailable("The index is down.")

        down.setattr(memory._index, "upsert", fail)
        first = await memory.of("t").store("Cats sleep sixteen hours a day.")
    second = await memory.of("t").store("Dogs sleep twelve hours a day.")
    assert {found.id for found in await memory.of("t").search("sleep", 5)} == {first, second}
    await memory.close()
    for path in sorted((tmp_path / "node/memory").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()

    memory = opened(tmp_path)
    assert {found.id for found in await memory.of("t").search("sleep", 5)} == {first, second}
    await memory.close()


@pytest.mark.req("AGT-03.3")
async def test_collection_and_node_keep_memories_apart(tmp_path: Path) -> None:
    articles = opened(tmp_path, collection="articles").of("t").collection
    reviews = opened(tmp_path, collection="reviews").of("t").collection
    of_another_node = opened(tmp_path, node="agent.writer.002", collection="articles").of("t").collection

    assert articles.startswith("articles_t_")
    assert len({articles, reviews, of_another_node}) == 3


@pytest.mark.req("AGT-03.3")
def test_provider_of_the_file_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "chromadb" else find_spec(name))

    with pytest.raises(ConfigurationInvalid, match=r"pip install 'artel-ai\[chroma\]'"):
        opened(tmp_path, provider="chroma")


@pytest.mark.req("AGT-03.3")
def test_unknown_provider_and_model_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'pinecone' is not a provider of memory: choose qdrant or chroma"):
        LongTerm(provider="pinecone")
    unknown = LongTerm.model_construct(provider="pinecone", collection="c", embedding_model=None)
    with pytest.raises(ConfigurationInvalid, match="'pinecone' is not a memory provider"):
        LongTermMemory("node", unknown, Settings(data_dir=tmp_path), tmp_path)
    with pytest.raises(ConfigurationInvalid, match="dimensions of the embedding model no-such-model is unknown"):
        opened(tmp_path, embedding_model="no-such-model")


@pytest.mark.req("AGT-03.3")
async def test_memory_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.nodes.long_term_memory.MAX_MEMORIES", 2)
    memory = opened(tmp_path)
    mine = memory.of("t")
    ids = [await mine.store(f"Cats sleep {number} hours.") for number in range(3)]

    assert [await mine.get(memory_id) is not None for memory_id in ids] == [False, True, True]
    assert {found.id for found in await mine.search("cats", 5)} == set(ids[1:])
    with pytest.raises(MemoryInvalid):
        await mine.store("x", {"long": "x" * 5_000})
    with pytest.raises(MemoryInvalid):
        await mine.store("  ")
    await memory.close()


@pytest.mark.req("AGT-03.3", "AGT-02.1")
async def test_memory_tools_exist_only_if_the_memory_is_enabled_and_are_for_one_tenant(tmp_path: Path) -> None:
    without = shared_tools(tmp_path, agent_file("memory_read", "memory_write"))
    refused = await call(without, ANN, "memory_write", content="x")
    assert refused.error == "There is no tool 'memory_write'. You have no tools."

    file = agent_file("memory_read", "memory_write", memory={"long_term": {"enabled": True}})
    shared = shared_tools(tmp_path, file)
    written = await call(shared, ANN, "memory_write", content="The customer prefers short sentences.", type="habit")
    mine = await call(shared, ANN, "memory_read", query="customer sentences", type="habit")
    theirs = await call(shared, BOB, "memory_read", query="customer sentences")
    await shared.close()

    assert written.success
    assert isinstance(mine.data, list)
    assert [item["text"] for item in mine.data if isinstance(item, dict)] == ["The customer prefers short sentences."]
    assert theirs.data == []
