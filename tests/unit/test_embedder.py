"""Embedders: the built-in model compared with a simple implementation, batching, caching and errors."""

import asyncio
import ctypes
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artel.errors import ConfigurationInvalid
from artel.settings import Settings
from artel.vector_index import embedder as embedders
from artel.vector_index.artel_embed import FOLDER, ArtelEmbed
from artel.vector_index.embedder import ARTEL_EMBED, LiteLlmEmbedder, LocalEmbedder, NoEmbedder, artel_embedder
from artel.vector_index.providers import make_embedder
from artel.vector_index.store import EmbeddingsUnavailable
from artel.vector_index.transformer import TILE_COLUMNS, Linear, limit_blas_threads

pytestmark = pytest.mark.anyio

TEXTS = [
    "How do I reset my password?",
    "Наш сервер стоит в подвале.",
    "数据库备份",
    "x",
    "",
    "A long one: " + "the quick brown fox jumps over the lazy dog; " * 40,
]


@pytest.fixture(scope="module")
def model() -> ArtelEmbed:
    return ArtelEmbed()


@pytest.fixture
async def embedder(model: ArtelEmbed) -> AsyncIterator[LocalEmbedder]:
    embedder = LocalEmbedder("test", lambda: model)
    yield embedder
    await embedder.close()


def vectors_of(model: ArtelEmbed, texts: Sequence[str]) -> Any:
    return np.array(model.embed([model.tokens(text) for text in texts]))


class Reference:
    """A simple implementation of the model: double precision, one text and one head after another."""

    def __init__(self) -> None:
        with np.load(FOLDER / "model.npz") as file:
            self.weights: dict[str, Any] = {name: file[name].astype(np.float64) for name in file.files}
        self.weights["table"] = np.load(FOLDER / "table.npy").astype(np.float64)

    def linear(self, x: Any, name: str) -> Any:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x: Any, name: str) -> Any:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def embed(self, tokens: Sequence[int]) -> Any:
        if not tokens:
            return self.unit(self.linear(np.zeros(256), "out"))
        x = self.weights["table"][tokens] * self.weights["scale"][tokens][:, None]
        x = self.norm(x + self.weights["p.weight"][: len(tokens)], "n")
        queries, keys, values = np.split(self.linear(x, "l.0.q"), 3, axis=1)
        mixed = []
        for head in range(4):
            part = slice(64 * head, 64 * head + 64)
            shares = np.exp(queries[:, part] @ keys[:, part].T / 8)
            mixed.append(shares / shares.sum(-1, keepdims=True) @ values[:, part])
        x = self.norm(x + self.linear(np.concatenate(mixed, axis=1), "l.0.o"), "l.0.n1")
        x = self.norm(x + self.linear(np.maximum(self.linear(x, "l.0.w"), 0), "l.0.v"), "l.0.n2")
        return self.unit(self.linear(x.mean(0), "out"))

    def unit(self, x: Any) -> Any:
        return x / np.sqrt(x @ x)


def test_vectors_equal_those_of_the_reference(model: ArtelEmbed) -> None:
    reference = Reference()

    found = vectors_of(model, TEXTS)

    assert found.dtype == np.float32
    assert found.shape == (len(TEXTS), 384)
    assert np.abs(found - [reference.embed(model.tokens(text)) for text in TEXTS]).max() < 1e-5


def test_texts_of_one_meaning_are_close_in_three_languages(model: ArtelEmbed) -> None:
    vectors = vectors_of(
        model,
        [
            "Our server is in the basement.",
            "Наш сервер стоит в подвале.",
            "我们的服务器在地下室。",
            "Bananas are yellow.",
        ],
    )

    for translation in vectors[1:3]:
        assert vectors[0] @ translation > 0.5
        assert vectors[3] @ translation < 0.3


def test_paraphrases_are_closer_than_unrelated_texts(model: ArtelEmbed) -> None:
    question, paraphrase, related, unrelated = vectors_of(
        model,
        [
            "How do I reset my password?",
            "I forgot my login credentials and need new ones.",
            "The login page of our website is blue.",
            "Bananas ripen faster in a paper bag.",
        ],
    )

    assert question @ paraphrase > question @ related + 0.1
    assert question @ related > question @ unrelated + 0.05
    assert question @ paraphrase > 0.5
    assert question @ unrelated < 0.2


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(st.text(max_size=60) | st.sampled_from(TEXTS[:4]), min_size=1, max_size=5))
def test_vector_does_not_depend_on_the_batch(model: ArtelEmbed, texts: list[str]) -> None:
    together = vectors_of(model, [*texts, "some longer company " * 20])[:-1]
    alone = np.array([vectors_of(model, [text])[0] for text in texts])

    assert np.abs(together - alone).max() < 1e-5


def test_the_same_text_gives_the_same_vector(model: ArtelEmbed) -> None:
    first = vectors_of(model, TEXTS)

    assert np.array_equal(first, vectors_of(model, TEXTS))
    assert np.array_equal(first, vectors_of(ArtelEmbed(), TEXTS))


def test_text_is_truncated_to_254_tokens(model: ArtelEmbed) -> None:
    long = "alpha beta gamma " * 400

    assert len(model.tokens(long)) == 254
    assert np.array_equal(vectors_of(model, [long]), vectors_of(model, [long + "delta"]))


def test_blas_uses_one_thread(model: ArtelEmbed) -> None:
    assert model
    for library in Path(np.__file__).parent.with_name("numpy.libs").glob("libscipy_openblas*"):
        assert ctypes.CDLL(str(library)).scipy_openblas_get_num_threads64_() == 1


def test_blas_whose_kernels_have_no_name_is_limited_too(model: ArtelEmbed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model
    limits: list[int] = []
    library = SimpleNamespace(scipy_openblas_set_num_threads64_=limits.append)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)

    assert limit_blas_threads() == ""
    assert limits == [1]


# The embedder


async def test_texts_are_embedded_in_small_batches_in_order(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[int]] = []

    def embed(tokens: list[list[int]]) -> list[Any]:
        batches.append([len(text) for text in tokens])
        return [np.full(384, len(text), np.float32) for text in tokens]

    monkeypatch.setattr(embedder, "_embed", embed)
    texts = [" ".join(["word"] * count) for count in (*(n % 40 for n in range(100)), 400, 400, *[0] * 70)]
    vectors = await embedder.embed(texts)

    assert [int(vector[0]) for vector in vectors] == [min(text.count("word"), 254) for text in texts]
    assert all(len(batch) <= 32 and (sum(batch) <= 256 or len(batch) == 1) for batch in batches)
    assert max(len(batch) for batch in batches) == 32


async def test_query_does_not_wait_for_a_batch(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    started, go_on = threading.Event(), threading.Event()
    real = embedder._embed

    def embed(tokens: list[list[int]]) -> list[Any]:
        if len(tokens) > 1:
            started.set()
            assert go_on.wait(10)
        return real(tokens)

    monkeypatch.setattr(embedder, "_embed", embed)
    indexing = asyncio.create_task(embedder.embed(["one memory", "another memory"]))
    await asyncio.to_thread(started.wait, 10)
    assert len((await embedder.embed(["a question"]))[0]) == 384
    assert not indexing.done()
    go_on.set()

    assert len(await indexing) == 2


async def test_queries_that_wait_are_embedded_together(
    embedder: LocalEmbedder, model: ArtelEmbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()
    batches: list[int] = []
    real = embedder._embed

    def embed(tokens: list[list[int]]) -> list[Any]:
        batches.append(len(tokens))
        started.set()
        assert go_on.wait(10)
        return real(tokens)

    monkeypatch.setattr(embedder, "_embed", embed)
    first = asyncio.create_task(embedder.embed(["the first"]))
    await asyncio.to_thread(started.wait, 10)
    texts = [f"question {number}" for number in range(40)]
    others = [asyncio.create_task(embedder.embed([text])) for text in texts]
    await asyncio.sleep(0)
    others[1].cancel()
    monkeypatch.setattr(embedders, "MAX_WAITING", 40)
    with pytest.raises(EmbeddingsUnavailable, match="overloaded"):
        await embedder.embed(["one more"])
    go_on.set()

    found = [vector for [vector] in await asyncio.gather(first, others[0], *others[2:])]

    expected = vectors_of(model, ["the first", texts[0], *texts[2:]])
    assert np.allclose(np.array(found), expected, atol=1e-5)
    assert batches == [1, 32, 8]
    assert found[1].base is None


async def test_failure_of_the_model_reaches_all_queries_that_wait(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> list[Any]:
        raise EmbeddingsUnavailable("The test broke it.")

    with monkeypatch.context() as patch:
        patch.setattr(embedder, "_embed", fail)
        failed = await asyncio.gather(*(embedder.embed([text]) for text in "abc"), return_exceptions=True)
    assert [str(failure) for failure in failed] == ["The test broke it."] * 3

    assert len((await embedder.embed(["a"]))[0]) == 384


async def test_wrong_number_of_vectors_fails_the_query(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(embedder, "_embed", lambda _: [])
        async with asyncio.timeout(10):
            with pytest.raises(ValueError, match="shorter"):
                await embedder.embed(["a question"])

    assert len((await embedder.embed(["a question"]))[0]) == 384


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_queries_that_wait_fail_when_the_embedder_closes(
    model: ArtelEmbed, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    embedder = LocalEmbedder("test", lambda: model)
    started, go_on = threading.Event(), threading.Event()
    real = embedder._embed

    def embed(tokens: list[list[int]]) -> list[Any]:
        started.set()
        assert go_on.wait(10)
        return real(tokens)

    monkeypatch.setattr(embedder, "_embed", embed)
    queries = [asyncio.create_task(embedder.embed(["the first"]))]
    await asyncio.to_thread(started.wait, 10)
    queries += [asyncio.create_task(embedder.embed([text])) for text in ("second", "third")]
    await asyncio.sleep(0)
    if is_cancelled:  # as all tasks are when an event loop ends
        assert embedder._embedding_queries is not None
        embedder._embedding_queries.cancel()
    closing = asyncio.create_task(embedder.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing

    async with asyncio.timeout(10):
        first, *others = await asyncio.gather(*queries, return_exceptions=True)
    assert isinstance(first, EmbeddingsUnavailable) == is_cancelled
    assert all(isinstance(other, EmbeddingsUnavailable) for other in others)


async def test_single_texts_are_cached(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedders, "CACHED_TEXTS", 2)
    lengths: list[int] = []
    real = embedder._tokens

    def tokens(texts: list[str]) -> list[list[int]]:
        lengths.extend(map(len, texts))
        return real(texts)

    monkeypatch.setattr(embedder, "_tokens", tokens)
    for question in ("a", "bb", "a", "ccc", "a", "bb"):  # the third evicts bb
        assert np.allclose((await embedder.embed([question]))[0], (await embedder.embed([question]))[0])

    assert lengths == [1, 2, 3, 2]
    with pytest.raises(ValueError, match="read-only"):
        (await embedder.embed(["a"]))[0][0] = 7


async def test_no_texts_give_no_vectors(embedder: LocalEmbedder) -> None:
    assert await embedder.embed([]) == []


async def test_model_is_loaded_on_first_use() -> None:
    embedder = artel_embedder()
    assert embedder._model is None

    first, second = await asyncio.gather(embedder.embed(["hello"]), embedder.embed(["world"]))

    assert embedder._model is not None
    assert len(first[0]) == len(second[0]) == embedder.dimensions == 384
    await embedder.close()
    with pytest.raises(EmbeddingsUnavailable):
        await embedder.embed(["too late"])


@pytest.mark.parametrize("broken", ["model.npz", "table.npy", "tokenizer.json"])
async def test_broken_file_of_the_model_is_embeddings_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    for name in ("model.npz", "table.npy", "tokenizer.json"):
        (tmp_path / name).symlink_to(FOLDER / name)
    (tmp_path / broken).unlink()
    (tmp_path / broken).write_bytes(b"{")
    monkeypatch.setattr(embedders, "ArtelEmbed", lambda: ArtelEmbed(tmp_path))
    embedder = artel_embedder()

    with pytest.raises(EmbeddingsUnavailable):
        await embedder.embed(["hello"])
    await embedder.close()


async def test_no_embedder_raises() -> None:
    assert NoEmbedder().dimensions == 0
    with pytest.raises(EmbeddingsUnavailable):
        await NoEmbedder().embed(["hello"])


# LiteLLM


class FakeLiteLlm:
    """A fake that returns vectors in another order than requested, as providers may."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.failure: Exception | None = None
        self.hangs = False

    async def aembedding(self, *, model: str, input: list[str], max_retries: int) -> Any:  # noqa: A002
        assert (model, max_retries) == ("ollama/some-model", 0)
        self.calls.append(input)
        if self.failure:
            raise self.failure
        if self.hangs:
            await asyncio.Event().wait()
        data = [{"index": n, "embedding": [3.0 * len(text), 4.0 * len(text)]} for n, text in enumerate(input)]
        return SimpleNamespace(data=data[::-1])


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> FakeLiteLlm:
    fake = FakeLiteLlm()
    monkeypatch.setitem(sys.modules, "litellm", fake)
    return fake


async def test_provider_is_called_in_batches_and_vectors_are_normalized(litellm: FakeLiteLlm) -> None:
    embedder = LiteLlmEmbedder("ollama/some-model", dimensions=2)
    texts = ["x" * (n + 1) for n in range(70)]
    vectors = await embedder.embed(texts)

    assert [len(call) for call in litellm.calls] == [32, 32, 6]
    assert np.allclose(vectors, [[0.6, 0.8]] * 70)
    assert vectors[0].dtype == np.float32
    await embedder.embed(["again"])
    await embedder.embed(["again"])
    assert len(litellm.calls) == 4
    await embedder.close()


async def test_failing_or_hanging_provider_is_embeddings_unavailable(litellm: FakeLiteLlm) -> None:
    with pytest.raises(EmbeddingsUnavailable, match="3 dimensions"):
        await LiteLlmEmbedder("ollama/some-model", dimensions=3).embed(["hello"])
    litellm.hangs = True
    with pytest.raises(EmbeddingsUnavailable):
        await LiteLlmEmbedder("ollama/some-model", dimensions=2, deadline_seconds=0.01).embed(["hello"])
    litellm.failure = RuntimeError("429 slow down, key sk-not-for-users")
    with pytest.raises(EmbeddingsUnavailable) as caught:
        await LiteLlmEmbedder("ollama/some-model", dimensions=2).embed(["hello"])
    assert "sk-" not in caught.value.detail


def test_dimensions_of_known_models(tmp_path: Path) -> None:
    chosen = make_embedder(Settings(data_dir=tmp_path, embedding_model="text-embedding-3-small"))

    assert (chosen.name, chosen.dimensions) == ("text-embedding-3-small", 1536)
    with pytest.raises(ConfigurationInvalid, match="ollama/some-model"):
        LiteLlmEmbedder("ollama/some-model")


def test_embedder_is_chosen_by_its_name(tmp_path: Path) -> None:
    assert make_embedder(Settings(data_dir=tmp_path)).name == ARTEL_EMBED
    assert make_embedder(Settings(data_dir=tmp_path, embedding_model="artel-embed-1")).name == ARTEL_EMBED
    assert isinstance(make_embedder(Settings(data_dir=tmp_path, embedding_model="none")), NoEmbedder)


@pytest.mark.parametrize("columns", [TILE_COLUMNS, None], ids=["tiles", "whole"])
@pytest.mark.parametrize("rows", [1, 8, 13])
def test_product_in_tiles_is_that_of_the_whole_matrix(columns: int | None, rows: int) -> None:
    random = np.random.default_rng(7)
    x, weight = (random.random(size, dtype=np.float32) for size in ((rows, 384), (384, 1152)))
    bias = random.random(1152, dtype=np.float32)

    layer = Linear.of(weight, bias, columns)

    np.testing.assert_allclose(layer(x), x @ weight + bias, rtol=1e-5)
