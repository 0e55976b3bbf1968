"""Embedders: in this process, by a provider, or none."""

import asyncio
import importlib.util
import json
import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from artel.errors import ConfigurationInvalid
from artel.logs import get_logger
from artel.vector_index.artel_embed import ArtelEmbed
from artel.vector_index.engine_threads import MAX_WAITING, EngineThreads
from artel.vector_index.minilm import MiniLm, find_model
from artel.vector_index.store import EmbeddingsUnavailable

if TYPE_CHECKING:
    from artel.vector_index.transformer import Array

ARTEL_EMBED, MINILM = "artel-embed-1", "all-MiniLM-L6-v2"
MAX_BATCH = 32
MAX_BATCH_TOKENS = 256  # 0.1 s of one core; larger batches are hardly faster
MAX_BATCH_CHARACTERS = 1_000  # of queries that are embedded together
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


class _CachingEmbedder(ABC):
    """Caches vectors of single texts, since the same query is often searched for several agents."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, Array] = OrderedDict()  # the least recently used first

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        if len(texts) != 1:
            return await self._vectors(texts)
        [text] = texts
        if text not in self._cache:
            [vector] = await self._vectors(texts)
            vector.flags.writeable = False  # callers share it
            self._cache[text] = vector
            while len(self._cache) > CACHED_TEXTS:
                self._cache.popitem(last=False)
            return [vector]
        self._cache.move_to_end(text)
        return [self._cache[text]]

    @abstractmethod
    async def _vectors(self, texts: Sequence[str]) -> "list[Array]": ...


class LocalModel(Protocol):
    """A model in this process."""

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text."""

    def embed(self, texts: Sequence[Sequence[int]]) -> "list[Array]":
        """Return one unit vector per text, given as token ids."""


class LocalEmbedder(_CachingEmbedder):
    """A model in this process, on its own threads, loaded on first use."""

    dimensions = 384  # of both models

    def __init__(self, name: str, load: Callable[[], LocalModel]) -> None:
        super().__init__()
        self.name = name
        self._load = load
        self._model: LocalModel | None = None
        self._loading = threading.Lock()
        self._queries: deque[tuple[str, asyncio.Future[Array]]] = deque()
        self._embedding_queries: asyncio.Task[None] | None = None
        self._threads = EngineThreads(
            "embedding model", EmbeddingsUnavailable, threads=THREADS, deadline_seconds=LOAD_AND_EMBED_SECONDS
        )

    async def close(self) -> None:
        """Finish running calls and unload the model."""
        await self._threads.close()
        if self._embedding_queries is not None:
            await asyncio.wait([self._embedding_queries])  # queries that wait are refused now
        self._model = None

    async def _vectors(self, texts: Sequence[str]) -> "list[Array]":
        """Return one vector per text; between batches other callers get their turn."""
        if len(texts) == 1:
            return [await self._query_vector(texts[0])]
        vectors: list[Array] = []
        for batch in _batches(await self._threads.run(self._tokens, texts)):
            vectors += await self._threads.run(self._embed, batch)
        return vectors

    async def _query_vector(self, text: str) -> "Array":
        """Return the vector of one text; those that wait meanwhile are embedded together, in half of the time."""
        if len(self._queries) >= MAX_WAITING:
            raise EmbeddingsUnavailable("The embedding model is overloaded. Try again in a moment.", retry_after=1)
        vector: asyncio.Future[Array] = asyncio.get_running_loop().create_future()
        self._queries.append((text, vector))
        if self._embedding_queries is None:
            self._embedding_queries = asyncio.create_task(self._embed_queries())
        return await vector

    async def _embed_queries(self) -> None:
        batch: list[tuple[str, asyncio.Future[Array]]] = []
        try:
            while self._queries:
                batch = [self._queries.popleft()]
                characters = len(batch[0][0])
                while self._queries and len(batch) < MAX_BATCH and characters < MAX_BATCH_CHARACTERS:
                    batch.append(self._queries.popleft())
                    characters += len(batch[-1][0])
                await self._embed_batch(batch)
        finally:
            self._embedding_queries = None
            for _, vector in (*batch, *self._queries):  # if this was cancelled
                if not vector.done():
                    vector.set_exception(EmbeddingsUnavailable("The embedding model was stopped."))
            self._queries.clear()

    async def _embed_batch(self, batch: "Sequence[tuple[str, asyncio.Future[Array]]]") -> None:
        texts = [text for text, _ in batch]
        try:
            vectors = await self._threads.run(lambda: self._embed(self._tokens(texts)))
            for (_, vector), found in zip(batch, vectors, strict=True):
                if not vector.done():  # its caller was not cancelled
                    vector.set_result(found.copy())  # else the cache would keep the vectors of the whole batch
        except Exception as failure:  # noqa: BLE001 - raised in the callers of embed()
            for _, vector in batch:
                if not vector.done():
                    vector.set_exception(failure)

    def _loaded(self) -> LocalModel:
        with self._loading:
            if self._model is None:
                self._model = self._load()
                log.info("embedding_model_loaded", model=self.name)
            return self._model

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        model = self._loaded()
        return [model.tokens(text) for text in texts]

    def _embed(self, tokens: list[list[int]]) -> "list[Array]":
        return self._loaded().embed(tokens)


def artel_embedder() -> LocalEmbedder:
    """Return the embedder with the model that is part of the package."""
    return LocalEmbedder(ARTEL_EMBED, _load_artel_embed)


def minilm_embedder(folder: Path | None = None) -> LocalEmbedder:
    """Return the embedder with all-MiniLM-L6-v2 from the folder or from its installed package."""
    return LocalEmbedder(MINILM, lambda: _load_minilm(folder))


def _load_artel_embed() -> LocalModel:
    try:
        return ArtelEmbed()
    except (OSError, ValueError, KeyError) as failure:
        problem = f"The embedding model {ARTEL_EMBED} can't be loaded: {failure}. Install Artel again."
        raise EmbeddingsUnavailable(problem) from failure


def _load_minilm(folder: Path | None) -> LocalModel:
    found = find_model(folder)
    if found is None:
        raise EmbeddingsUnavailable(
            f"The embedding model {MINILM} isn't installed, so memory is searched by words alone."
            " To install it, run: artel memory install-embeddings"
        )
    return MiniLm(found)


class LiteLlmEmbedder(_CachingEmbedder):
    """A model of any provider that LiteLLM supports; LiteLLM is imported on first use (2 s, 174 MB)."""

    def __init__(
        self, model: str, *, dimensions: int | None = None, deadline_seconds: float = PROVIDER_SECONDS
    ) -> None:
        super().__init__()
        self.name = model
        self.dimensions = dimensions or _known_dimensions(model)
        self._deadline_seconds = deadline_seconds

    async def close(self) -> None:
        """Do nothing: LiteLLM manages its connections."""

    async def _vectors(self, texts: Sequence[str]) -> "list[Array]":
        import numpy as np

        litellm = await asyncio.to_thread(_litellm)
        vectors: list[Array] = []
        for start in range(0, len(texts), MAX_BATCH):
            batch = list(texts[start : start + MAX_BATCH])
            try:
                async with asyncio.timeout(self._deadline_seconds):
                    response = await litellm.aembedding(model=self.name, input=batch, max_retries=0)
                ordered = sorted(response.data, key=lambda item: item["index"])
                found = [np.asarray(item["embedding"], dtype=np.float32) for item in ordered]
            except Exception as failure:  # LiteLLM passes on the exceptions of provider libraries
                log.warning("embedding_failed", model=self.name, error=f"{type(failure).__name__}: {failure}"[:300])
                problem = f"The embedding model {self.name} can't be reached."
                raise EmbeddingsUnavailable(problem, retry_after=5) from failure
            if [len(vector) for vector in found] != [self.dimensions] * len(batch):
                problem = f"The embedding model {self.name} did not return {self.dimensions} dimensions."
                raise EmbeddingsUnavailable(problem)
            vectors += [vector / max(float(np.linalg.norm(vector)), 1e-12) for vector in found]
        return vectors


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
