"""Vectors from checksums of words: the same on every machine, for tests and trials.

They have no meaning. Texts that share words, or beginnings of words, are near to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

from discovery_engine.search.embedders.embedder import Vector
from discovery_engine.search.text.tokenizer import words

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
