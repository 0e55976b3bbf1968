"""Embedders: MiniLM compared with a simple implementation, batching, caching and errors."""

import asyncio
import ctypes
import math
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
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from artel.errors import ConfigurationInvalid
from artel.settings import Settings
from artel.vector_index import embedder as embedders
from artel.vector_index.embedder import LiteLlmEmbedder, MiniLmEmbedder, NoEmbedder
from artel.vector_index.minilm import (
    TILE_COLUMNS,
    EmbeddingsUnavailable,
    MiniLm,
    _limit_blas_threads,
    _Linear,
    find_model,
)
from artel.vector_index.providers import make_embedder

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
def folder() -> Path:
    found = find_model(None)
    assert found, "make setup installs the weights"
    return found


@pytest.fixture(scope="module")
def model(folder: Path) -> MiniLm:
    return MiniLm(folder)


@pytest.fixture
async def embedder(model: MiniLm) -> AsyncIterator[MiniLmEmbedder]:
    embedder = MiniLmEmbedder()
    embedder._model = model
    yield embedder
    await embedder.close()


def vectors_of(model: MiniLm, texts: Sequence[str]) -> Any:
    return np.array(model.embed([model.tokens(text) for text in texts]))


class Reference:
    """A simple implementation of BERT: double precision, padded and masked."""

    def __init__(self, folder: Path) -> None:
        self.weights = {name: w.astype(np.float64) for name, w in load_file(folder / "model.safetensors").items()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(256)
        self.tokenizer.enable_padding()

    def linear(self, x: Any, name: str) -> Any:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x: Any, name: str) -> Any:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, x: Any, mask: Any, name: str) -> Any:
        batch, length, width = x.shape
        q, k, v = (
            self.linear(x, f"{name}.self.{part}").reshape(batch, length, 12, 32).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(32) + np.where(mask, 0, -1e9)[:, None, None, :]
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = (shares @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        return self.norm(self.linear(mixed, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def embed(self, texts: Sequence[str]) -> Any:
        encoded = self.tokenizer.encode_batch(list(texts))
        tokens, mask = np.array([e.ids for e in encoded]), np.array([e.attention_mask for e in encoded])
        x = self.weights["embeddings.word_embeddings.weight"][tokens]
        x = x + self.weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
        x = x + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for number in range(6):
            name = f"encoder.layer.{number}"
            x = self.attention(x, mask, f"{name}.attention")
            wide = self.linear(x, f"{name}.intermediate.dense")
            wide = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
            x = self.norm(self.linear(wide, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
        pooled = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def test_vectors_equal_those_of_the_reference(model: MiniLm, folder: Path) -> None:
    expected = Reference(folder).embed(TEXTS)

    found = vectors_of(model, TEXTS)

    assert found.dtype == np.float32
    assert found.shape == (len(TEXTS), 384)
    assert np.abs(found - expected).max() < 1e-5
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_paraphrases_are_closer_than_unrelated_texts(model: MiniLm) -> None:
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
def test_vector_does_not_depend_on_the_batch(model: MiniLm, texts: list[str]) -> None:
    together = vectors_of(model, [*texts, "some longer company " * 20])[:-1]
    alone = np.array([vectors_of(model, [text])[0] for text in texts])

    assert np.abs(together - alone).max() < 1e-5


def test_the_same_text_gives_the_same_vector(model: MiniLm, folder: Path) -> None:
    first = vectors_of(model, TEXTS)

    assert np.array_equal(first, vectors_of(model, TEXTS))
    assert np.array_equal(first, vectors_of(MiniLm(folder), TEXTS))


def test_text_is_truncated_to_256_tokens(model: MiniLm) -> None:
    long = "alpha beta gamma " * 400

    assert len(model.tokens(long)) == 256
    assert np.array_equal(vectors_of(model, [long]), vectors_of(model, [long + "delta"]))


def test_blas_uses_one_thread(model: MiniLm) -> None:
    assert model
    for library in Path(np.__file__).parent.with_name("numpy.libs").glob("libscipy_openblas*"):
        assert ctypes.CDLL(str(library)).scipy_openblas_get_num_threads64_() == 1


def test_blas_whose_kernels_have_no_name_is_limited_too(model: MiniLm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model
    limits: list[int] = []
    library = SimpleNamespace(scipy_openblas_set_num_threads64_=limits.append)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)

    assert _limit_blas_threads() == ""
    assert limits == [1]


# The embedder


async def test_texts_are_embedded_in_small_batches_in_order(
    embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[int]] = []

    def embed(tokens: list[list[int]]) -> list[Any]:
        batches.append([len(text) for text in tokens])
        return [np.full(384, len(text), np.float32) for text in tokens]

    monkeypatch.setattr(embedder, "_embed", embed)
    texts = ["word " * (n % 40) for n in range(100)] + ["word " * 400] * 2 + [""] * 70
    vectors = await embedder.embed(texts)

    assert [int(vector[0]) for vector in vectors] == [min(2 + text.count("word"), 256) for text in texts]
    assert all(len(batch) <= 32 and (sum(batch) <= 256 or len(batch) == 1) for batch in batches)
    assert max(len(batch) for batch in batches) == 32


async def test_query_does_not_wait_for_a_batch(embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_single_texts_are_cached(embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_no_texts_give_no_vectors(embedder: MiniLmEmbedder) -> None:
    assert await embedder.embed([]) == []


async def test_model_is_loaded_on_first_use(folder: Path) -> None:
    embedder = MiniLmEmbedder()
    assert embedder._model is None

    first, second = await asyncio.gather(embedder.embed(["hello"]), embedder.embed(["world"]))

    assert embedder._model is not None
    assert len(first[0]) == len(second[0]) == embedder.dimensions == 384
    assert find_model(None)
    assert folder
    await embedder.close()
    with pytest.raises(EmbeddingsUnavailable):
        await embedder.embed(["too late"])


async def test_missing_model_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.vector_index.minilm.PACKAGE", "not_installed")
    embedder = MiniLmEmbedder(tmp_path)

    assert not find_model(tmp_path)
    with pytest.raises(EmbeddingsUnavailable, match="artel memory install-embeddings"):
        await embedder.embed(["hello"])
    assert isinstance(make_embedder(Settings(data_dir=tmp_path)), NoEmbedder)
    await embedder.close()


async def test_weights_with_wrong_checksum_are_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not the model")
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    embedder = MiniLmEmbedder(tmp_path)

    with pytest.raises(EmbeddingsUnavailable, match=r"checksum.*artel memory install-embeddings"):
        await embedder.embed(["hello"])
    await embedder.close()


async def test_broken_tokenizer_is_embeddings_unavailable(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    (tmp_path / "tokenizer.json").write_text("{")
    embedder = MiniLmEmbedder(tmp_path)

    with pytest.raises(EmbeddingsUnavailable):
        await embedder.embed(["hello"])
    await embedder.close()


def test_folder_has_priority_over_the_package(tmp_path: Path, folder: Path) -> None:
    assert find_model(tmp_path) == folder
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    assert find_model(tmp_path) == tmp_path


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


def test_built_in_model_is_the_default(tmp_path: Path) -> None:
    assert isinstance(make_embedder(Settings(data_dir=tmp_path)), MiniLmEmbedder)
    assert isinstance(make_embedder(Settings(data_dir=tmp_path, embedding_model="all-MiniLM-L6-v2")), MiniLmEmbedder)


@pytest.mark.parametrize("columns", [TILE_COLUMNS, None], ids=["tiles", "whole"])
@pytest.mark.parametrize("rows", [1, 8, 13])
def test_product_in_tiles_is_that_of_the_whole_matrix(columns: int | None, rows: int) -> None:
    random = np.random.default_rng(7)
    x, weight = (random.random(size, dtype=np.float32) for size in ((rows, 384), (384, 1152)))
    bias = random.random(1152, dtype=np.float32)

    layer = _Linear.of(weight, bias, columns)

    np.testing.assert_allclose(layer(x), x @ weight + bias, rtol=1e-5)
