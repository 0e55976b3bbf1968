"""all-MiniLM-L6-v2 in numpy, compared with a simple implementation on random weights; errors of its files."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from artel.settings import Settings
from artel.vector_index import minilm
from artel.vector_index.embedder import MINILM, NoEmbedder, minilm_embedder
from artel.vector_index.minilm import MiniLm, find_model
from artel.vector_index.providers import make_embedder
from artel.vector_index.store import EmbeddingsUnavailable

pytestmark = pytest.mark.anyio

WORDS = ["[UNK]", "[CLS]", "[SEP]", "the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", ";"]
TEXTS = ["the fox", "", "a lazy dog jumps over the quick brown fox ; " * 40, "unknown words"]


def _weights() -> dict[str, Any]:
    """Return random weights with the names and shapes of the model, but few words."""
    random = np.random.default_rng(5)
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), 384),
        "embeddings.position_embeddings.weight": (512, 384),
        "embeddings.token_type_embeddings.weight": (2, 384),
        "embeddings.LayerNorm.weight": (384,),
        "embeddings.LayerNorm.bias": (384,),
    }
    parts = {
        **{f"attention.{part}": (384, 384) for part in ("self.query", "self.key", "self.value", "output.dense")},
        "attention.output.LayerNorm": (384,),
        "intermediate.dense": (1536, 384),
        "output.dense": (384, 1536),
        "output.LayerNorm": (384,),
    }
    for layer in range(6):
        for part, shape in parts.items():
            shapes[f"encoder.layer.{layer}.{part}.weight"] = shape
            shapes[f"encoder.layer.{layer}.{part}.bias"] = shape[:1]
    return {name: random.normal(0, 0.08, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minilm")
    save_file(_weights(), folder / "model.safetensors")
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def _checksum(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    monkeypatch.setattr(minilm, "WEIGHTS_SHA256", digest)


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


@pytest.mark.usefixtures("_checksum")
def test_vectors_equal_those_of_the_reference(folder: Path) -> None:
    model = MiniLm(folder)
    found = np.array(model.embed([model.tokens(text) for text in TEXTS]))

    assert found.dtype == np.float32
    assert found.shape == (len(TEXTS), 384)
    assert np.abs(found - Reference(folder).embed(TEXTS)).max() < 1e-5
    assert len(model.tokens(TEXTS[2])) == 256


async def test_missing_model_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "PACKAGE", "not_installed")
    embedder = minilm_embedder(tmp_path)

    assert not find_model(tmp_path)
    with pytest.raises(EmbeddingsUnavailable, match="artel memory install-embeddings"):
        await embedder.embed(["hello"])
    assert isinstance(make_embedder(Settings(data_dir=tmp_path, embedding_model="minilm")), NoEmbedder)
    await embedder.close()


async def test_weights_with_wrong_checksum_are_refused(folder: Path) -> None:
    embedder = minilm_embedder(folder)

    with pytest.raises(EmbeddingsUnavailable, match=r"checksum.*artel memory install-embeddings"):
        await embedder.embed(["hello"])
    await embedder.close()


@pytest.mark.usefixtures("_checksum")
async def test_broken_tokenizer_is_embeddings_unavailable(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    (tmp_path / "tokenizer.json").write_text("{")
    embedder = minilm_embedder(tmp_path)

    with pytest.raises(EmbeddingsUnavailable):
        await embedder.embed(["hello"])
    await embedder.close()


@pytest.mark.parametrize("name", ["minilm", "all-MiniLM-L6-v2"])
def test_installed_model_is_used_when_it_is_chosen(tmp_path: Path, folder: Path, name: str) -> None:
    for file in folder.iterdir():
        (tmp_path / "embeddings").mkdir(exist_ok=True)
        (tmp_path / "embeddings" / file.name).symlink_to(file)

    assert make_embedder(Settings(data_dir=tmp_path, embedding_model=name)).name == MINILM
