"""Where the vectors of texts come from: one file for each kind of embedder."""

from discovery_engine.search.embedders.embedder import Embedder, EmbeddingError, Vector
from discovery_engine.search.embedders.opening import open_embedder

__all__ = ["Embedder", "EmbeddingError", "Vector", "open_embedder"]
