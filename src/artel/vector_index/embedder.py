"""Turns texts into vectors: in the process, by a provider, or not at all."""

import asyncio
import importlib.util
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from artel.errors import ConfigurationInvalid
from artel.logs import get_logger
from artel.vector_index.minilm import DIMENSIONS, EmbeddingsUnavailable, MiniLm, find_model
from artel.vector_index.worker import Worker

if TYPE_CHECKING:
    from artel.vector_index.minilm import Array

MAX_BATCH = 32
MAX_BATCH_TOKENS = 256  # 0.1 s of one core; more at once is hardly faster
THREADS = 2  # a batch is one call at a time, so that a question never waits for the memories that are being indexed
CACHED_TEXTS = 256
LOAD_AND_EMBED_SECONDS = 30.0
PROVIDER_SECONDS = 20.0

log = get_logger(__name__)


class Embedder(Protocol):
    """Texts in, unit vectors out; raises `EmbeddingsUnavailable`."""

    @property
    def name(self) -> str:
        """The model's name; vectors of two models don't mix."""

    @property
    def dimensions(self) -> int:
        """How long its vectors are; 0 when there are none."""

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Return one vector for each text."""

    async def close(self) -> None:
        """Let go of threads and connections."""


class NoEmbedder:
    """Makes no vectors: memory is searched by words alone."""

    name = "none"
    dimensions = 0

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Refuse."""
        raise EmbeddingsUnavailable(f"There is no embedding model for {len(texts)} texts.")

    async def close(self) -> None:
        """Nothing to do."""


class _Recent:
    """The vectors of the last few single texts: a question is often asked again, or of several agents."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[str, Array] = OrderedDict()

    def get(self, text: str) -> "Array | None":
        if text in self._vectors:
            self._vectors.move_to_end(text)
        return self._vectors.get(text)

    def put(self, text: str, vector: "Array") -> None:
        vector.flags.writeable = False  # whoever gets it shares it
        self._vectors[text] = vector
        while len(self._vectors) > self._size:
            self._vectors.popitem(last=False)


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 on threads of its own, loaded when it is first needed."""

    name = "all-MiniLM-L6-v2"
    dimensions = DIMENSIONS

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._model: MiniLm | None = None
        self._recent = _Recent(CACHED_TEXTS)
        self._loading = threading.Lock()
        self._worker = Worker(
            "embedding model",
            EmbeddingsUnavailable,
            threads=THREADS,
            deadline_seconds=LOAD_AND_EMBED_SECONDS,
        )

    @staticmethod
    def installed(folder: Path | None = None) -> bool:
        """Return whether the model's files are there; nothing is loaded."""
        return find_model(folder) is not None

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Embed a batch at a time, so that others get their turn in between."""
        if len(texts) == 1 and (known := self._recent.get(texts[0])) is not None:
            return [known]
        tokens = await self._worker.run(self._tokens, list(texts))
        vectors: dict[int, Array] = {}
        for batch in _batches([len(text) for text in tokens]):
            found = await self._worker.run(self._embed, [tokens[index] for index in batch])
            vectors.update(zip(batch, found, strict=True))
        if len(texts) == 1:
            self._recent.put(texts[0], vectors[0])
        return [vectors[index] for index in range(len(texts))]

    async def close(self) -> None:
        """Finish what is running and forget the model."""
        await self._worker.close()
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

    def _tokens(self, texts: list[str]) -> list[list[int]]:
        model = self._loaded()
        return [model.tokens(text) for text in texts]

    def _embed(self, tokens: list[list[int]]) -> "list[Array]":
        return self._loaded().embed(tokens)


class LiteLlmEmbedder:
    """A model of any provider that LiteLLM knows; imported when it is first needed (2 s, 174 MB)."""

    def __init__(
        self, model: str, *, dimensions: int | None = None, deadline_seconds: float = PROVIDER_SECONDS
    ) -> None:
        self.name = model
        self.dimensions = dimensions or _known_dimensions(model)
        self._deadline_seconds = deadline_seconds
        self._recent = _Recent(CACHED_TEXTS)

    async def embed(self, texts: Sequence[str]) -> "list[Array]":
        """Ask the provider, a batch at a time."""
        if len(texts) == 1 and (known := self._recent.get(texts[0])) is not None:
            return [known]
        vectors = []
        for start in range(0, len(texts), MAX_BATCH):
            vectors += await self._ask(list(texts[start : start + MAX_BATCH]))
        if len(texts) == 1:
            self._recent.put(texts[0], vectors[0])
        return vectors

    async def close(self) -> None:
        """Nothing to do: LiteLLM keeps its connections to itself."""

    async def _ask(self, texts: list[str]) -> "list[Array]":
        import numpy as np

        litellm = await asyncio.to_thread(_litellm)
        try:
            async with asyncio.timeout(self._deadline_seconds):
                answer = await litellm.aembedding(model=self.name, input=texts, max_retries=0)
            ordered = sorted(answer.data, key=lambda item: item["index"])
            vectors = [np.asarray(item["embedding"], dtype=np.float32) for item in ordered]
        except Exception as failure:  # LiteLLM raises whatever the provider's library raises
            log.warning("embedding_failed", model=self.name, error=f"{type(failure).__name__}: {failure}"[:300])
            raise EmbeddingsUnavailable(
                f"The embedding model {self.name} can't be reached.", retry_after=5
            ) from failure
        if [len(vector) for vector in vectors] != [self.dimensions] * len(texts):
            raise EmbeddingsUnavailable(f"The embedding model {self.name} did not answer {self.dimensions} dimensions.")
        return [vector / max(float(np.linalg.norm(vector)), 1e-12) for vector in vectors]


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Return the positions of texts that are embedded together: few texts, and not too long in all."""
    batch: list[int] = []
    tokens = 0
    for index, length in enumerate(lengths):
        if batch and (len(batch) == MAX_BATCH or tokens + length > MAX_BATCH_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += length
    if batch:
        yield batch


def _litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or importing it goes to the network
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # or importing it loads a .env file, of whatever folder it is in
    import litellm

    return litellm


def _known_dimensions(model: str) -> int:
    """Look the model up in LiteLLM's table without importing LiteLLM."""
    spec = importlib.util.find_spec("litellm")
    for place in (spec.submodule_search_locations or []) if spec else []:
        table = Path(place) / "model_prices_and_context_window_backup.json"
        if table.is_file():
            size = json.loads(table.read_bytes()).get(model, {}).get("output_vector_size")
            if size:
                return int(size)
    raise ConfigurationInvalid(f"How many dimensions the embedding model {model} has isn't known; set it.")
