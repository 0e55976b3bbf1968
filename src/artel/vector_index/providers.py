"""Creation of the configured index and embedder."""

from importlib.util import find_spec

from artel.errors import ConfigurationInvalid
from artel.settings import Settings
from artel.vector_index.embedder import Embedder, LiteLlmEmbedder, NoEmbedder, artel_embedder, minilm_embedder
from artel.vector_index.minilm import find_model
from artel.vector_index.store import MemoryStore


def make_embedder(settings: Settings) -> Embedder:
    """Return the configured embedder, without loading the model."""
    match settings.embedding_model:
        case None | "artel-embed-1":
            return artel_embedder()
        case "none":
            return NoEmbedder()
        case "minilm" | "all-MiniLM-L6-v2":
            folder = settings.data_dir / "embeddings"
            return minilm_embedder(folder) if find_model(folder) else NoEmbedder()
        case model:
            return LiteLlmEmbedder(model, dimensions=settings.embedding_dimensions)


def make_store(settings: Settings, embedder: Embedder) -> MemoryStore:
    """Return the configured index, which opens on first use."""
    model, dimensions = embedder.name, embedder.dimensions
    if settings.memory_provider == "chroma":
        from artel.vector_index.chroma import ChromaStore

        return ChromaStore(settings.data_dir / "chroma", model=model, dimensions=dimensions)
    try:
        if settings.qdrant_url is None:
            from artel.vector_index.edge import EdgeStore

            return EdgeStore(settings.data_dir / "memory", model=model, dimensions=dimensions)
        if find_spec("qdrant_client") is None:
            raise ConfigurationInvalid("The client of Qdrant isn't installed: pip install 'artel-ai[qdrant]'")
        from artel.vector_index.qdrant import QdrantStore
    except ImportError as failure:  # native modules, which not every machine can load
        raise ConfigurationInvalid(f"The memory index can't be loaded: {failure}. Install Artel again.") from failure
    url, key = settings.qdrant_url.get_secret_value(), settings.qdrant_api_key
    return QdrantStore(
        url,
        model=model,
        dimensions=dimensions,
        layout=settings.qdrant_layout,
        api_key=key.get_secret_value() if key else None,
    )
