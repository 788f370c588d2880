"""Vectors for the benchmarks: made by the embedder that the engine uses, kept in a file.

MODEL is a folder with `model.onnx` and `tokenizer.json`, or `minilm:FOLDER` for the weights of
all-MiniLM-L6-v2 (see `minilm.py`). Fifteen thousand tools take some two minutes once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import anyio
from minilm import export

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.runtime.semantic_search import query_vectors
from discovery_engine.search.embedders import EmbeddingError, Vector
from discovery_engine.search.embedders.checked import CheckedEmbedder
from discovery_engine.search.embedders.onnx import OnnxEmbedder
from discovery_engine.search.embedding_text import embedding_text, text_digest
from discovery_engine.search.vectors import Similarities, Vectors, pack

BATCH = 32


class Embedding:
    def __init__(self, model: str, kept: Path) -> None:
        self._embedder = CheckedEmbedder(OnnxEmbedder(_folder(model, kept)))
        self._store = open_sqlite(kept / "vectors.db")
        self.asked = self.late = self.partial = 0
        """Requests; those answered by words since the embedder was late; those without clauses."""

    def of(self, catalog: Catalog) -> Vectors:
        tools = [entry.tool for entry in catalog]
        texts = {text_digest(text): text for text in map(embedding_text, tools)}
        known = dict(self._store.vectors(self._embedder.model, texts))
        missing = sorted(texts.keys() - known.keys(), key=lambda digest: len(texts[digest]))
        for batch in _batches(missing):
            vectors = map(pack, self._embedded([texts[digest] for digest in batch]))
            made = dict(zip(batch, vectors, strict=True))
            self._store.save_vectors("benchmark", self._embedder.model, made)
            known |= made
        return Vectors(tools, [known[text_digest(embedding_text(tool))] for tool in tools])

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

    async def _in_time(self, query: str) -> tuple[Sequence[Vector], bool]:
        return await query_vectors(query, self._embedder, timeout=EmbeddingsSettings().timeout)

    def _embedded(self, texts: Sequence[str]) -> list[Vector]:
        return anyio.run(self._embedder.embed, texts)


def _folder(model: str, kept: Path) -> Path:
    kept.mkdir(parents=True, exist_ok=True)
    if not model.startswith("minilm:"):
        return Path(model)
    if not (kept / "minilm" / "model.onnx").exists():
        export(Path(model.removeprefix("minilm:")), kept / "minilm")
    return kept / "minilm"


def _batches(digests: Iterable[bytes]) -> Iterable[list[bytes]]:
    rest = iter(digests)
    while batch := list(islice(rest, BATCH)):
        yield batch
