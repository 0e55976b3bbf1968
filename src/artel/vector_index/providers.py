"""Creation of the configured index and embedder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from artel.errors import ConfigurationInvalid
from artel.vector_index.embedder import Embedder, LiteLlmEmbedder, MiniLmEmbedder, NoEmbedder
from artel.vector_index.store import MemoryStore

EMBEDDED_MODEL = MiniLmEmbedder.name
PROVIDERS = ("qdrant", "chroma")


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Settings of the index and the embedding model."""

    data_dir: Path
    provider: str = "qdrant"
    url: str | None = None  # of a Qdrant server; None runs Qdrant in this process
    api_key: str | None = None
    layout: Literal["shared", "per_agent"] = "shared"
    embedding_model: str | None = None  # for LiteLLM; None is the built-in model, if it is installed
    embedding_dimensions: int | None = None


def make_embedder(settings: MemorySettings) -> Embedder:
    """Return the configured embedder, without loading the model."""
    if settings.embedding_model not in (None, EMBEDDED_MODEL):
        return LiteLlmEmbedder(settings.embedding_model, dimensions=settings.embedding_dimensions)
    folder = settings.data_dir / "embeddings"
    return MiniLmEmbedder(folder) if MiniLmEmbedder.installed(folder) else NoEmbedder()


def make_store(settings: MemorySettings, embedder: Embedder) -> MemoryStore:
    """Return the configured index, which opens on first use."""
    model, dimensions = embedder.name, embedder.dimensions
    if settings.provider == "chroma":
        from artel.vector_index.chroma import ChromaStore

        return ChromaStore(settings.data_dir / "chroma", model=model, dimensions=dimensions)
    if settings.provider != "qdrant":
        raise ConfigurationInvalid(
            f"Unknown memory provider {settings.provider!r}. Choose one of {', '.join(PROVIDERS)}."
        )
    if settings.url is None:
        from artel.vector_index.edge import EdgeStore

        return EdgeStore(settings.data_dir / "memory", model=model, dimensions=dimensions)
    from artel.vector_index.qdrant import QdrantStore

    return QdrantStore(
        settings.url, model=model, dimensions=dimensions, layout=settings.layout, api_key=settings.api_key
    )
