"""Embedders: in this process, by a provider, or none."""

import asyncio
import importlib.util
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from artel.errors import ConfigurationInvalid
from artel.logs import get_logger
from artel.vector_index.engine_threads import EngineThreads
from artel.vector_index.minilm import DIMENSIONS, EmbeddingsUnavailable, MiniLm, find_model

if TYPE_CHECKING:
    from artel.vector_index.minilm import Array

MAX_BATCH = 32
MAX_BATCH_TOKENS = 256  # 0.1 s of one core; larger batches are hardly faster
THREADS = 2  # so that a query doesn't wait for a batch of memories being indexed
CACHED_TEXTS = 256
LOAD_AND_EMBED_SECONDS = 30.0
PROVIDER_SECONDS = 20.0

log = get_logger(__name__)


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """The name of the model; vectors of different models are not comparable."""

    @property
    def dimensions(self) -> int:
        """The number of dimensions; 0 if there is no model."""

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Return one vector per text; raise EmbeddingsUnavailable."""

    async def close(self) -> None:
        """Release threads and connections."""


class NoEmbedder:
    """No embedding model: memory is searched by words only."""

    name = "none"
    dimensions = 0

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        raise EmbeddingsUnavailable(f"There is no embedding model for {len(texts)} texts.")

    async def close(self) -> None:
        """Do nothing."""


class _VectorCache:
    """An LRU cache of vectors of single texts, since the same query is often searched for several agents."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[str, Array] = OrderedDict()

    def get(self, text: str) -> "Array | None":
        if text in self._vectors:
            self._vectors.move_to_end(text)
        return self._vectors.get(text)

    def put(self, text: str, vector: "Array") -> None:
        vector.flags.writeable = False  # callers share it
        self._vectors[text] = vector
        while len(self._vectors) > self._size:
            self._vectors.popitem(last=False)


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 on its own threads, loaded on first use."""

    name = "all-MiniLM-L6-v2"
    dimensions = DIMENSIONS

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._model: MiniLm | None = None
        self._cache = _VectorCache(CACHED_TEXTS)
        self._loading = threading.Lock()
        self._threads = EngineThreads(
            "embedding model", EmbeddingsUnavailable, threads=THREADS, deadline_seconds=LOAD_AND_EMBED_SECONDS
        )

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Return one vector per text; between batches other callers get their turn."""
        if len(texts) == 1 and (cached := self._cache.get(texts[0])) is not None:
            return [cached]
        if len(texts) == 1:
            [vector] = await self._threads.run(lambda: self._embed(self._tokens(texts)))
            self._cache.put(texts[0], vector)
            return [vector]
        vectors: list[Array] = []
        for batch in _batches(await self._threads.run(self._tokens, texts)):
            vectors += await self._threads.run(self._embed, batch)
        return vectors

    async def close(self) -> None:
        """Finish running calls and unload the model."""
        await self._threads.close()
        self._model = None

    def _loaded(self) -> MiniLm:
        with self._loading:
            if self._model is None:
                folder = find_model(self._folder)
                if folder is None:
                    raise EmbeddingsUnavailable(
                        "The embedding model isn't installed, so memory is searched by words alone."
                        " To install it, run: artel memory install-embeddings"
                    )
                self._model = MiniLm(folder)
                log.info("embedding_model_loaded", folder=str(folder))
            return self._model

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        model = self._loaded()
        return [model.tokens(text) for text in texts]

    def _embed(self, tokens: list[list[int]]) -> "list[Array]":
        return self._loaded().embed(tokens)


class LiteLlmEmbedder:
    """A model of any provider that LiteLLM supports; LiteLLM is imported on first use (2 s, 174 MB)."""

    def __init__(
        self, model: str, *, dimensions: int | None = None, deadline_seconds: float = PROVIDER_SECONDS
    ) -> None:
        self.name = model
        self.dimensions = dimensions or _known_dimensions(model)
        self._deadline_seconds = deadline_seconds
        self._cache = _VectorCache(CACHED_TEXTS)

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Return one vector per text from the provider, in batches."""
        if len(texts) == 1 and (cached := self._cache.get(texts[0])) is not None:
            return [cached]
        vectors = []
        for start in range(0, len(texts), MAX_BATCH):
            vectors += await self._request(list(texts[start : start + MAX_BATCH]))
        if len(texts) == 1:
            self._cache.put(texts[0], vectors[0])
        return vectors

    async def close(self) -> None:
        """Do nothing: LiteLLM manages its connections."""

    async def _request(self, texts: list[str]) -> "list[Array]":
        import numpy as np

        litellm = await asyncio.to_thread(_litellm)
        try:
            async with asyncio.timeout(self._deadline_seconds):
                response = await litellm.aembedding(model=self.name, input=texts, max_retries=0)
            ordered = sorted(response.data, key=lambda item: item["index"])
            vectors = [np.asarray(item["embedding"], dtype=np.float32) for item in ordered]
        except Exception as failure:  # LiteLLM passes on the exceptions of provider libraries
            log.warning("embedding_failed", model=self.name, error=f"{type(failure).__name__}: {failure}"[:300])
            raise EmbeddingsUnavailable(
                f"The embedding model {self.name} can't be reached.", retry_after=5
            ) from failure
        if [len(vector) for vector in vectors] != [self.dimensions] * len(texts):
            raise EmbeddingsUnavailable(f"The embedding model {self.name} did not return {self.dimensions} dimensions.")
        return [vector / max(float(np.linalg.norm(vector)), 1e-12) for vector in vectors]


def _batches(texts: Iterable[list[int]]) -> Iterator[list[list[int]]]:
    """Yield batches of texts, given as token ids, limited by count and total number of tokens."""
    batch: list[list[int]] = []
    tokens = 0
    for text in texts:
        if batch and (len(batch) == MAX_BATCH or tokens + len(text) > MAX_BATCH_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(text)
        tokens += len(text)
    if batch:
        yield batch


def _litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise importing it makes a network request
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # otherwise importing it loads .env from the current folder
    import litellm

    return litellm


def _known_dimensions(model: str) -> int:
    """Return the dimensions from LiteLLM's model table, without importing LiteLLM."""
    spec = importlib.util.find_spec("litellm")
    for path in (spec.submodule_search_locations or []) if spec else []:
        table = Path(path) / "model_prices_and_context_window_backup.json"
        if table.is_file():
            size = json.loads(table.read_bytes()).get(model, {}).get("output_vector_size")
            if size:
                return int(size)
    raise ConfigurationInvalid(
        f"The number of dimensions of the embedding model {model} is unknown. Set ARTEL_EMBEDDING_DIMENSIONS."
    )
