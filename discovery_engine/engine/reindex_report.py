"""The outcome of making the search index and the vectors anew."""

from __future__ import annotations

from msgspec import Struct


class ReindexReport(Struct, frozen=True):
    tools: int
    """In the index."""
    vectors: int | None
    """Tools with a vector; None if no embedder is configured."""
