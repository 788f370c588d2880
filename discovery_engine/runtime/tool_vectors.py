"""The vectors of a catalog's tools: recalled, made where they are missing, and remembered.

A text is embedded once: its vector is kept under the digest of the text and the model's name, and
goes when no tool mentions that text any more.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from discovery_engine.errors import RegistryError
from discovery_engine.search.embedding_text import embedding_text, text_digest
from discovery_engine.search.vectors import Vectors, pack, packed_size

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.registry.protocols import VectorStore
    from discovery_engine.search.embedders import Embedder
    from discovery_engine.tools.model import Tool, ToolKey

logger = logging.getLogger(__name__)

T = TypeVar("T")

_GROWTH = 1.5  # by how much the vectors must have grown to be shown before all are made


class ToolVectors:
    """Those of one world under one embedder."""

    def __init__(self, store: VectorStore, embedder: Embedder, *, world: str, batch: int) -> None:
        self._store = store
        self._embedder = embedder
        self._world = world
        self._batch = batch
        self._digests: dict[ToolKey, tuple[Tool, bytes]] = {}
        self._known: dict[bytes, bytes] = {}
        self._kept: frozenset[bytes] | None = None

    async def update(self, catalog: Catalog) -> AsyncIterator[Vectors]:
        """The vectors of a catalog: at first what is known, then more and more, at last all.

        The embedder must know its dimensions by now.

        Raises:
            EmbeddingError: If the embedder fails; what was made until then is remembered.
        """
        texts = await anyio.to_thread.run_sync(self._read, catalog)
        await self._recall(texts)
        missing = [digest for digest in texts if digest not in self._known]
        shown = len(self._known)
        yield await self._vectors()
        while missing:
            batch, missing = missing[: self._batch], missing[self._batch :]
            await self._make({digest: texts[digest] for digest in batch})
            if not missing or len(self._known) > _GROWTH * shown:
                shown = len(self._known)
                yield await self._vectors()
        await self._let_go()

    def _read(self, catalog: Catalog) -> dict[bytes, str]:
        """The texts by their digests; no tool is read again that says what it said."""
        before, self._digests = self._digests, {}
        texts = {}
        for entry in catalog:
            tool, digest = before.get(entry.key, (None, b""))
            if tool != entry.tool or digest not in self._known:
                text = embedding_text(entry.tool)
                digest = text_digest(text)
                texts[digest] = text
            self._digests[entry.key] = (entry.tool, digest)
        return texts

    async def _recall(self, texts: Mapping[bytes, str]) -> None:
        wanted = [digest for digest in texts if digest not in self._known]
        load = partial(self._store.vectors, self._embedder.model, wanted)
        found = (await _remembered(load) or {}) if wanted else {}
        length = packed_size(self._embedder.dimensions or 0)
        # An address may give another model's vectors from one day to the next, under one name.
        self._known |= {digest: data for digest, data in found.items() if len(data) == length}

    async def _make(self, texts: Mapping[bytes, str]) -> None:
        vectors = await self._embedder.embed(list(texts.values()))
        made = dict(zip(texts, map(pack, vectors), strict=True))
        self._known |= made
        await _remembered(
            partial(self._store.save_vectors, self._world, self._embedder.model, made)
        )

    async def _vectors(self) -> Vectors:
        found = [
            (tool, self._known[digest])
            for tool, digest in self._digests.values()
            if digest in self._known
        ]
        tools, stored = [tool for tool, _ in found], [data for _, data in found]
        return await anyio.to_thread.run_sync(Vectors, tools, stored)

    async def _let_go(self) -> None:
        """Forget the vectors of texts that no tool mentions any more."""
        said = frozenset(digest for _, digest in self._digests.values())
        if self._kept is None or self._kept - said:
            self._known = {digest: self._known[digest] for digest in said}
            keep = partial(self._store.keep_vectors, self._world, self._embedder.model, said)
            await _remembered(keep)
        self._kept = said


async def _remembered(work: Callable[[], T]) -> T | None:
    """What the registry gives; one that fails costs the next start its head start only."""
    try:
        return await anyio.to_thread.run_sync(work)
    except RegistryError as error:
        logger.warning("Vectors could not be remembered: %s", error)
        return None
