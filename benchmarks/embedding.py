"""Vectors for the benchmarks: made by the embedder that the engine uses, kept in a file.

MODEL is a folder with `model.onnx` and `tokenizer.json`, `minilm:FOLDER` for the weights of
all-MiniLM-L6-v2 (see `minilm.py`), or `static` for the shipped word vectors, `static:FILE` for
others. Fifteen thousand tools take some two minutes once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
from minilm import export
from numpy.typing import NDArray

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.engine.semantic_search import WARM_UP, query_vectors
from discovery_engine.engine.vector_cache import VectorCache, text_digest
from discovery_engine.search.embedders import Embedder, EmbeddingError, Vector
from discovery_engine.search.embedders.embedder import CheckedEmbedder
from discovery_engine.search.embedders.local import OnnxEmbedder, StaticEmbedder
from discovery_engine.search.examples.book import OWN_EXAMPLES, ExampleBook
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.search.vectors import Similarities, Vectors, pack
from discovery_engine.store.memory import MemoryRegistry

BATCH = 32
_AT_ONCE = 512  # texts between two writes
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (model, digest, data, PRIMARY KEY (model, digest))"
_PATIENCE = 60.0  # seconds for a query whose time is not measured


class KeptVectors(MemoryRegistry):
    """The vectors of all texts of all catalogs and models that were ever asked for, in a file.

    Unlike the registry's, none is deleted when a catalog needs it no longer: the next one may.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        with self._open() as connection:
            connection.execute(_TABLE)
        self._of_model: dict[str, dict[bytes, bytes]] = {}

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        if model not in self._of_model:
            query = "SELECT digest, data FROM vectors WHERE model = ?"
            with closing(self._open()) as connection:
                self._of_model[model] = dict(connection.execute(query, (model,)))
        known = self._of_model[model]
        return {digest: known[digest] for digest in digests if digest in known}

    def save_vectors(self, _scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        self._of_model.setdefault(model, {}).update(vectors)
        rows = [(model, digest, data) for digest, data in vectors.items()]
        with self._open() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def keep_vectors(self, _scope: str, _model: str, _digests: Collection[bytes]) -> int:
        return 0

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=60)


class Embedding:
    def __init__(self, model: str, kept: Path) -> None:
        self._embedder = CheckedEmbedder(_embedder(model, kept))
        self._is_static = model.partition(":")[0] == "static"
        self._store = KeptVectors(kept / "kept.db")
        self._known: dict[str, Sequence[Vector]] = {}
        self.asked = self.late = self.partial = 0
        """Requests; those answered by words since the embedder was late; those without clauses."""

    def of(self, catalog: Catalog, book: ExampleBook = OWN_EXAMPLES) -> Vectors:
        """The vectors that the engine has of a catalog once all are computed."""
        cache = VectorCache(
            self._store,
            self._embedder,
            scope="",
            batch=BATCH,
            book=book,
            read=_in_english,
            is_static=self._is_static,
        )
        return anyio.run(self._last, cache, catalog)

    def of_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row for each text, read as it is."""
        anyio.run(self._embedder.embed, [WARM_UP])
        digests = [text_digest(text) for text in texts]
        known = {**self._store.vectors(self._embedder.model, digests)}
        missing = {d: t for d, t in zip(digests, texts, strict=True) if d not in known}
        while missing:
            some = [missing.popitem() for _ in range(min(len(missing), _AT_ONCE))]
            found = anyio.run(self._embedder.embed, [text for _, text in some])
            made = {digest: pack(one) for (digest, _), one in zip(some, found, strict=True)}
            self._store.save_vectors("", self._embedder.model, made)
            known |= made
        rows = np.frombuffer(b"".join(known[digest] for digest in digests), dtype="<f2")
        return rows.astype(np.float32).reshape(len(texts), -1)

    async def _last(self, cache: VectorCache, catalog: Catalog) -> Vectors:
        await self._embedder.embed([WARM_UP])
        return [vectors async for vectors in cache.update(catalog)][-1]

    def similarities(self, vectors: Vectors, query: str) -> Similarities | None:
        """Within the shipped timeout, as a server has it; None if words must do."""
        self.asked += 1
        try:
            found, is_whole = anyio.run(self._in_time, query)
        except EmbeddingError:
            self.late += 1
            return None
        self.partial += not is_whole
        return vectors.compare(found)

    def compare(self, vectors: Vectors, query: str) -> Similarities | None:
        """As `similarities`, however long it takes; the vectors of a query are made once."""
        if query not in self._known:
            self._known[query], _ = anyio.run(self._in_time, query, _PATIENCE)
        return vectors.compare(self._known[query])

    async def _in_time(
        self, query: str, patience: float = EmbeddingsSettings().timeout
    ) -> tuple[Sequence[Vector], bool]:
        return await query_vectors(query, self._embedder, timeout=patience, read=_in_english)


def _in_english(text: str) -> str:
    """As the engine does for its own model; the models measured here know English alone."""
    return default_lexicon().in_english(text)


def _embedder(model: str, kept: Path) -> Embedder:
    kept.mkdir(parents=True, exist_ok=True)
    kind, _, file = model.partition(":")
    if kind == "static":
        return StaticEmbedder(Path(file)) if file else StaticEmbedder()
    return OnnxEmbedder(_folder(model, kept))


def _folder(model: str, kept: Path) -> Path:
    if not model.startswith("minilm:"):
        return Path(model)
    if not (kept / "minilm" / "model.onnx").exists():
        export(Path(model.removeprefix("minilm:")), kept / "minilm")
    return kept / "minilm"
