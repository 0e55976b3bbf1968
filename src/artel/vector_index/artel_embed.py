"""artel-embed-1 in numpy: one transformer block over a table of token vectors. Its files are part of the package."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artel.vector_index.transformer import AVX512_KERNELS, TILE_COLUMNS, Linear, Norm, attend, limit_blas_threads
from artel.vector_index.unigram import Unigram

if TYPE_CHECKING:
    from artel.vector_index.transformer import Array

FOLDER = Path(__file__).with_name("artel_embed_1")
DIMENSIONS = 384
MAX_TOKENS = 254
WIDTH, HEADS = 256, 4
EPSILON = 1e-5


class ArtelEmbed:
    """The loaded model."""

    def __init__(self, folder: Path = FOLDER) -> None:
        columns = TILE_COLUMNS if limit_blas_threads() in AVX512_KERNELS else None  # before numpy is imported
        import numpy as np

        self._tokenizer = Unigram(folder / "tokenizer.json")
        self._table: Any = np.load(folder / "table.npy", mmap_mode="r")  # memory only for the rows that are used
        with np.load(folder / "model.npz") as file:
            self._scales = file["scale"].astype(np.float32)
            small: dict[str, Array] = {name: file[name].astype(np.float32) for name in file.files if name != "scale"}
        self._positions = small["p.weight"]
        for part in ("weight", "bias"):  # of the queries, which scales the attention scores in advance
            small[f"l.0.q.{part}"][:WIDTH] /= np.float32(np.sqrt(WIDTH // HEADS))

        def linear(name: str) -> Linear:
            return Linear.of(small[f"{name}.weight"].T, small[f"{name}.bias"], columns)

        def norm(name: str) -> Norm:
            return Norm(small[f"{name}.weight"], small[f"{name}.bias"], EPSILON)

        self._query_key_value, self._output = linear("l.0.q"), linear("l.0.o")
        self._widen, self._narrow, self._projection = linear("l.0.w"), linear("l.0.v"), linear("out")
        self._input_norm, self._attention_norm, self._output_norm = norm("n"), norm("l.0.n1"), norm("l.0.n2")

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text, at most `MAX_TOKENS`; none for a text without words."""
        return self._tokenizer.encode(text, MAX_TOKENS)

    def embed(self, texts: Sequence[Sequence[int]]) -> "list[Array]":
        """Return one unit vector per text, given as token ids."""
        import numpy as np

        lengths = [len(text) for text in texts]
        ends = np.cumsum(lengths).tolist()
        means: Array = np.zeros((len(texts), WIDTH), np.float32)  # of a text without tokens: zeros
        if sum(lengths):
            ids = np.concatenate([np.asarray(text, np.int64) for text in texts])
            x: Array = self._table[ids] * self._scales[ids][:, None]
            x = self._input_norm(x + np.concatenate([self._positions[:length] for length in lengths]))
            x = self._attention_norm(self._output(attend(self._query_key_value(x), ends, HEADS)) + x)
            x = self._output_norm(self._narrow(np.maximum(self._widen(x), 0)) + x)
            for mean, end, length in zip(means, ends, lengths, strict=True):
                if length:
                    x[end - length : end].mean(axis=0, out=mean)
        vectors = self._projection(means)
        vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        return list(vectors)
