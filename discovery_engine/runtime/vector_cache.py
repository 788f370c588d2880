"""The vectors of the tools of a catalog: loaded, computed where missing, and stored.

A text is embedded once: its vector is stored under the digest of the text and the name of the
model, and deleted when no tool has that text any more.
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

_GROWTH = 1.5  # growth of the number of vectors after which they are published early


class VectorCache:
    """The vectors of one configuration with one embedder."""

    def __init__(self, store: VectorStore, embedder: Embedder, *, scope: str, batch: int) -> None:
        self._store = store
        self._embedder = embedder
        self._scope = scope
        self._batch = batch
        self._digests: dict[ToolKey, tuple[Tool, bytes]] = {}
        self._known: dict[bytes, bytes] = {}
        self._kept: frozenset[bytes] | None = None

    async def update(self, catalog: Catalog) -> AsyncIterator[Vectors]:
        """Yield the vectors of a catalog: first the stored ones, then more, at last all.

        The dimensions of the embedder must be known.

        Raises:
            EmbeddingError: If the embedder fails; vectors computed until then are stored.
        """
        texts = await anyio.to_thread.run_sync(self._read, catalog)
        await self._load(texts)
        missing = [digest for digest in texts if digest not in self._known]
        shown = len(self._known)
        yield await self._vectors()
        while missing:
            batch, missing = missing[: self._batch], missing[self._batch :]
            await self._compute({digest: texts[digest] for digest in batch})
            if not missing or len(self._known) > _GROWTH * shown:
                shown = len(self._known)
                yield await self._vectors()
        await self._delete_unused()

    def _read(self, catalog: Catalog) -> dict[bytes, str]:
        """The texts by digest; unchanged tools are not read again."""
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

    async def _load(self, texts: Mapping[bytes, str]) -> None:
        wanted = [digest for digest in texts if digest not in self._known]
        load = partial(self._store.vectors, self._embedder.model, wanted)
        found = (await _from_registry(load) or {}) if wanted else {}
        length = packed_size(self._embedder.dimensions or 0)
        # A remote embedder may change its model under the same name.
        self._known |= {digest: data for digest, data in found.items() if len(data) == length}

    async def _compute(self, texts: Mapping[bytes, str]) -> None:
        vectors = await self._embedder.embed(list(texts.values()))
        made = dict(zip(texts, map(pack, vectors), strict=True))
        self._known |= made
        await _from_registry(
            partial(self._store.save_vectors, self._scope, self._embedder.model, made)
        )

    async def _vectors(self) -> Vectors:
        found = [
            (tool, self._known[digest])
            for tool, digest in self._digests.values()
            if digest in self._known
        ]
        tools, stored = [tool for tool, _ in found], [data for _, data in found]
        return await anyio.to_thread.run_sync(Vectors, tools, stored)

    async def _delete_unused(self) -> None:
        """Forget the vectors of texts that no tool mentions any more."""
        used = frozenset(digest for _, digest in self._digests.values())
        if self._kept is None or self._kept - used:
            self._known = {digest: self._known[digest] for digest in used}
            keep = partial(self._store.keep_vectors, self._scope, self._embedder.model, used)
            await _from_registry(keep)
        self._kept = used


async def _from_registry(work: Callable[[], T]) -> T | None:
    """The value from the registry; None if it fails: vectors are then computed again."""
    try:
        return await anyio.to_thread.run_sync(work)
    except RegistryError as error:
        logger.warning("The registry cannot load or store vectors: %s", error)
        return None
