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
from discovery_engine.registry.sqlite import open_store
from discovery_engine.search.embedders import Vector
from discovery_engine.search.embedders.checked import CheckedEmbedder
from discovery_engine.search.embedders.onnx import OnnxEmbedder
from discovery_engine.search.embedding_text import digest_of, text_of
from discovery_engine.search.question import clauses_of
from discovery_engine.search.vectors import Likeness, Vectors, packed

BATCH = 32


class Embedding:
    def __init__(self, model: str, kept: Path) -> None:
        self._embedder = CheckedEmbedder(OnnxEmbedder(_folder(model, kept)))
        self._store = open_store(kept / "vectors.db")

    def of(self, catalog: Catalog) -> Vectors:
        tools = [entry.tool for entry in catalog]
        texts = {digest_of(text): text for text in map(text_of, tools)}
        known = dict(self._store.vectors(self._embedder.model, texts))
        missing = sorted(texts.keys() - known.keys(), key=lambda digest: len(texts[digest]))
        for batch in _batches(missing):
            vectors = map(packed, self._embedded([texts[digest] for digest in batch]))
            made = dict(zip(batch, vectors, strict=True))
            self._store.save_vectors("benchmark", self._embedder.model, made)
            known |= made
        return Vectors(tools, [known[digest_of(text_of(tool))] for tool in tools])

    def likeness(self, vectors: Vectors, query: str) -> Likeness | None:
        return vectors.compared(self._embedded([query, *clauses_of(query)]))

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
