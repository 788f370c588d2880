"""An embedder whose vectors can be relied on: finite, of one length, and a unit long.

What an embedder gives comes from a foreign model or a foreign host. One bad number in it would
spoil every comparison, so a batch passes whole or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from discovery_engine.search.embedders.embedder import Embedder, EmbeddingError, Vector

_LONGEST = 16_384  # numbers in a vector


class CheckedEmbedder:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimensions(self) -> int | None:
        return self._embedder.dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        expected = self._embedder.dimensions
        vectors = await self._embedder.embed(texts)
        if len(vectors) != len(texts):
            raise EmbeddingError(
                f"the embedder was asked for {len(texts)} vectors and gave {len(vectors)}"
            )
        length = expected or len(vectors[0])
        return [_unit(vector, length) for vector in vectors]


def _unit(vector: Vector, length: int) -> Vector:
    if len(vector) != length or not 0 < length <= _LONGEST:
        raise EmbeddingError(
            f"the embedder gave a vector of {len(vector)} numbers where {length} were expected",
            hint="check `search.embeddings.model` and `dimensions`",
        )
    size = math.hypot(*vector)
    if not (math.isfinite(size) and size > 0):
        raise EmbeddingError(
            "the embedder gave a vector that is no direction: all zeros, or no numbers"
        )
    return [float(x) / size for x in vector]
