"""Vectors of texts as sums of the vectors of their words, with numpy alone.

The word vectors are distilled from the model of this project (`scripts/model/distil.py`): their
sums are near to the vectors that it gives whole texts. They know what words mean, and nothing of
what their order means.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from discovery_engine.search.embedders.embedder import Vector

FILE = Path(__file__).parents[1] / "data" / "model" / "words.npz"
_WORD = re.compile(r"[^\W_]+")
_LONGEST_WORD = 40  # characters; what is longer is no word
_INSIDE = "##"  # before a piece that does not begin a word


class StaticEmbedder:
    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        content = file.read_bytes()
        self.model = f"static:{hashlib.sha256(content).hexdigest()}"
        self.dimensions: int | None = None
        self._loaded: WordVectors | None = None
        self._loading = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return await anyio.to_thread.run_sync(partial(self._embed, list(texts)))

    def _embed(self, texts: list[str]) -> list[Vector]:
        with self._loading:
            if self._loaded is None:
                self._loaded = WordVectors.of_file(self._file)
        vectors = [self._loaded.vector(text) for text in texts]
        self.dimensions = self._loaded.dimensions
        return vectors


class WordVectors:
    """Made by `of_file`."""

    def __init__(self, vocabulary: Mapping[str, int], rows: Any, scales: Any) -> None:
        self._vocabulary = vocabulary
        self._rows = rows
        self._scales = scales
        self.dimensions = int(rows.shape[1])

    @classmethod
    def of_file(cls, file: Path) -> WordVectors:
        """Pieces of words, for each a row of small integers, and for each row its scale."""
        from discovery_engine.search.arrays import np

        with np.load(file, allow_pickle=False) as arrays:
            pieces = arrays["pieces"].tobytes().decode("utf-8").split("\n")
            return cls({p: n for n, p in enumerate(pieces)}, arrays["rows"], arrays["scales"])

    def vector(self, text: str) -> Vector:
        """The sum of the words of a text; of a text without a known word, that of all words."""
        rows = [*pieces(text, self._vocabulary)] or slice(None)
        total = self._scales[rows] @ self._rows[rows]
        vector: Vector = total.tolist()
        return vector


def pieces(text: str, vocabulary: Mapping[str, int]) -> Iterator[int]:
    """The numbers of the longest pieces that make up each word of a text; none of other words."""
    plain = unicodedata.normalize("NFD", text.lower())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    for word in _WORD.findall(plain):
        yield from _pieces_of(word, vocabulary)


def _pieces_of(word: str, vocabulary: Mapping[str, int]) -> Sequence[int]:
    numbers: list[int] = []
    start = 0
    while start < len(word) <= _LONGEST_WORD:
        before = _INSIDE if start else ""
        for end in range(len(word), start, -1):
            number = vocabulary.get(before + word[start:end])
            if number is not None:
                numbers.append(number)
                start = end
                break
        else:
            return ()
    return numbers
