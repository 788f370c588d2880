"""Vectors for the benchmarks: made by the embedder that the engine uses, kept in a file.

MODEL is a folder with `model.onnx` and `tokenizer.json`, or `minilm:FOLDER` for the weights of
all-MiniLM-L6-v2 (see `minilm.py`). Fifteen thousand tools take some two minutes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
from minilm import export

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.runtime.semantic_search import WARM_UP, query_vectors
from discovery_engine.runtime.vector_cache import VectorCache
from discovery_engine.search.embedders import EmbeddingError, Vector
from discovery_engine.search.embedders.checked import CheckedEmbedder
from discovery_engine.search.embedders.onnx import OnnxEmbedder
from discovery_engine.search.embedding_text import text_digest
from discovery_engine.search.examples.book import OWN_EXAMPLES, ExampleBook
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.search.vectors import Similarities, Vectors

BATCH = 32
_PATIENCE = 60.0  # seconds for a query whose time is not measured


class Embedding:
    def __init__(self, model: str, kept: Path) -> None:
        self._embedder = CheckedEmbedder(OnnxEmbedder(_folder(model, kept)))
        self._store = open_sqlite(kept / "vectors.db")
        self._known: dict[str, Sequence[Vector]] = {}
        self.asked = self.late = self.partial = 0
        """Requests; those answered by words since the embedder was late; those without clauses."""

    def of(self, catalog: Catalog, book: ExampleBook = OWN_EXAMPLES) -> Vectors:
        """The vectors that the engine has of a catalog once all are computed."""
        # A scope of its own: what another catalog needs is not deleted.
        scope = text_digest(*(str(entry.key) for entry in catalog)).hex()
        cache = VectorCache(
            self._store, self._embedder, scope=scope, batch=BATCH, book=book, read=_in_english
        )
        return anyio.run(self._last, cache, catalog)

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


def _folder(model: str, kept: Path) -> Path:
    kept.mkdir(parents=True, exist_ok=True)
    if not model.startswith("minilm:"):
        return Path(model)
    if not (kept / "minilm" / "model.onnx").exists():
        export(Path(model.removeprefix("minilm:")), kept / "minilm")
    return kept / "minilm"
