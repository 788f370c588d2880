"""Where the vectors of texts come from: one file for each kind of embedder."""

from discovery_engine.search.embedders.embedder import Embedder, EmbeddingError, Vector

__all__ = ["Embedder", "EmbeddingError", "Vector"]
