"""Embedders turn texts into vectors; those of every embedder are checked before they are used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol, TypeAlias
from zlib import crc32

from discovery_engine.errors import DiscoveryError
from discovery_engine.search.text.tokenizer import words

Vector: TypeAlias = Sequence[float]


class EmbeddingError(DiscoveryError):
    """There are no vectors; the message has the cause, the hint the next step of the owner."""

    code: ClassVar[str] = "EMBEDDING_ERROR"


class Embedder(Protocol):
    """Turns texts into vectors, near to each other where the texts mean the same."""

    @property
    def model(self) -> str:
        """Names all that the vectors depend on: the same text under the same name, the same vector.

        It holds no secret.
        """

    @property
    def dimensions(self) -> int | None:
        """The length of each vector; None while the first is still to come."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector for each text, in their order.

        Raises:
            EmbeddingError: If they cannot be had.
        """


# An embedder whose vectors can be relied on: finite, of one length, and a unit long.
#
# What an embedder gives comes from a foreign model or a foreign host. One bad number in it would
# spoil every comparison, so a batch passes whole or not at all.

_MAX_VECTOR_DIMENSIONS = 16_384  # numbers in a vector


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
    if len(vector) != length or not 0 < length <= _MAX_VECTOR_DIMENSIONS:
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


# They have no meaning. Texts that share words, or beginnings of words, are near to each other.

_DIMENSIONS = 64
_BEGINNING = 4  # letters that identify a word's family


class HashEmbedder:
    def __init__(self, dimensions: int = 0) -> None:
        self.dimensions = dimensions or _DIMENSIONS
        self.model = f"hash:{self.dimensions}"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        vector = [0.0] * self.dimensions
        for feature in _features(text):
            check = crc32(feature.encode())
            vector[check % self.dimensions] += 1.0 if check & 0x8000_0000 else -1.0
        return vector if any(vector) else [1.0] * self.dimensions


def _features(text: str) -> Iterator[str]:
    for word in words(text):
        yield word
        yield f"{word[:_BEGINNING]}*"
