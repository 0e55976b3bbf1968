"""Layers of transformers in numpy, on one thread.

The texts of a batch are concatenated instead of padded: the layers work on one long list of tokens, attention on each
text by itself. So there is neither computation for padding nor a mask.
"""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

# OpenBLAS copies the weights for every product, but not for small ones in its kernels for AVX-512. With tiles of this
# size these need half the time for a short text. Other kernels would copy the weights once per tile.
TILE_ROWS, TILE_COLUMNS = 8, 64
AVX512_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix and a bias."""

    weight: "Array"  # in blocks of columns: block, input, output
    bias: "Array"

    @classmethod
    def of(cls, weight: "Array", bias: "Array", columns: int | None) -> "Linear":
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
class Norm:
    """Layer normalization, in place."""

    weight: "Array"
    bias: "Array"
    epsilon: float

    def __call__(self, x: "Array") -> "Array":
        import numpy as np

        x -= x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.einsum("ij,ij->i", x, x)[:, None] / x.shape[-1] + np.float32(self.epsilon))
        x *= self.weight
        x += self.bias
        return x


def attend(x: "Array", ends: Sequence[int], heads: int) -> "Array":
    """Compute self-attention within each text; x has queries, keys and values side by side.

    The queries are divided by the root of the size of a head already.
    """
    import numpy as np

    width = x.shape[1] // 3
    size = width // heads
    mixed: Array = np.empty((x.shape[0], width), np.float32)
    start = 0
    for end in ends:
        if end == start:
            continue  # a text without tokens
        by_head = x[start:end].reshape(end - start, 3, heads, size).transpose(1, 2, 0, 3)
        scores: Array = by_head[0] @ by_head[1].transpose(0, 2, 1)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed[start:end] = (scores @ by_head[2]).transpose(1, 0, 2).reshape(end - start, width)
        start = end
    return mixed


def limit_blas_threads() -> str:
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
