"""Embedders, which turn texts into vectors: a file for each kind."""

from discovery_engine.search.embedders.embedder import Embedder, EmbeddingError, Vector

__all__ = ["Embedder", "EmbeddingError", "Vector"]
