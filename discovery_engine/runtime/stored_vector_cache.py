"""The vectors of the tools of a catalog that is searched in the database, where they stay.

Which are missing there is found by the documents of servers: what one gateway has written no other
embeds, loads or writes. In memory are those of a few servers while they are made, and a sample.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

import anyio.to_thread

from discovery_engine.errors import RegistryError
from discovery_engine.runtime.vector_cache import Texts, VectorCache
from discovery_engine.search.database.database_searcher import DatabaseSearcher
from discovery_engine.search.database.stored_vectors import SAMPLE, StoredVectors, vectors_of
from discovery_engine.search.database.vector_store import StoredVector
from discovery_engine.search.embedders import EmbeddingError

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, ServerPart
    from discovery_engine.search.database.stored_catalog import StoredCatalog
    from discovery_engine.search.database.vector_store import VectorSearchStore, VectorSpace
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import ToolVectors
    from discovery_engine.tools.model import ServerName, Tool

T = TypeVar("T")

_AT_ONCE = 500  # tools whose vectors are made and written together, more if a server has more
_GROWTH = 1.5  # of the number of vectors, after which they are published early,
_MOST_EARLY = 10_000  # as long as there are no more; without an index a search takes too long
_CHECKSUMS = 2**32


class StoredVectorCache(VectorCache):
    """As `VectorCache`, over the tools of a searcher in the database."""

    def search_in(self, search: VectorSearchStore, searcher: Callable[[], Searcher]) -> None:
        """To be called first: where vectors are compared, and the searcher over the catalog."""
        self._search = search
        self._searcher = searcher

    async def update(self, catalog: Catalog, *, anew: bool = False) -> AsyncIterator[ToolVectors]:
        """Yield the vectors of the searcher's catalog.

        With `anew` none is loaded that was stored under its text. Those that are beside the
        documents are replaced with these.

        Raises:
            EmbeddingError: If the embedder fails, or the database does not answer.
            NoVectorSearchError: If the database cannot compare vectors.
        """
        self._begin(anew=anew)
        stored, space = await _of_database(self._opened)
        missing = await _of_database(partial(self._search.missing, space))
        names = [name for name, number in stored.numbers.items() if number in missing]
        count = shown = stored.size - sum(_size(stored, name) for name in names)
        if names and 2 * count >= stored.size:
            await _of_database(partial(self._search.finish, space))
            yield await _of_database(partial(self._sampled, stored, space, count))
        for batch in _batches(stored, names):
            await self._store_vectors(stored, space, batch)
            count += sum(_size(stored, name) for name in batch)
            if count > _GROWTH * shown and count <= _MOST_EARLY:
                shown = count
                yield await _of_database(partial(self._sampled, stored, space, count))
        if names:
            await _of_database(partial(self._search.finish, space))
        yield await _of_database(partial(self._sampled, stored, space, count))
        if self._is_due():
            await self._note(await anyio.to_thread.run_sync(self._digests, catalog))

    def _opened(self) -> tuple[StoredCatalog, VectorSpace]:
        searcher = self._searcher()
        if not isinstance(searcher, DatabaseSearcher):
            raise RegistryError("the catalog is not searched in the database any more")
        model, dimensions = self._embedder.model, self._embedder.dimensions or 0
        for is_anew in (False, True):
            stored = searcher.stored_catalog(is_anew=is_anew)
            if space := self._search.open_space(stored.vocabulary.number, model, dimensions):
                return stored, space
        raise RegistryError("the index of the tools was dropped while it was made")

    async def _store_vectors(
        self, stored: StoredCatalog, space: VectorSpace, batch: Mapping[ServerName, ServerPart]
    ) -> None:
        """Let the database have the vectors of some servers; none of them stays in memory."""
        found = {}
        texts: Texts = {}
        examples: Texts = {}
        for name, part in batch.items():
            tools = [entry.tool for entry in part.entries]
            found[name] = [*self._entries(tools, texts, examples)]
        texts |= examples
        self._known = {}
        await self._load(texts)
        lacking = iter([digest for digest in texts if digest not in self._known])
        while some := [*islice(lacking, self._turn_size)]:
            await self._compute({digest: texts[digest] for digest in some})
        vectors = {
            stored.numbers[name]: [
                StoredVector(self._known[one.text], one.examples and self._known[one.examples])
                for one in entries
            ]
            for name, entries in found.items()
        }
        self._known = {}
        await _of_database(partial(self._search.save, space, vectors))

    def _sampled(self, stored: StoredCatalog, space: VectorSpace, count: int) -> StoredVectors:
        tools = [tool for server in stored.names.servers.values() for tool in server.tools]
        doc_ids = filter(None, map(stored.names.doc_id, sample_of(tools)))
        places = [*map(stored.place, doc_ids)]
        by_place = {one.place: one for one in self._search.at(space, places)} if places else {}
        known = [by_place[place] for place in places if place in by_place]
        sample = vectors_of(stored, known, is_static=self._is_static)
        return StoredVectors(self._search, space, stored, sample=sample, count=count)

    def _digests(self, catalog: Catalog) -> frozenset[bytes]:
        parts = catalog.parts.values()
        found = (self._entries([e.tool for e in part.entries], {}, {}) for part in parts)
        keys = (key for some in found for one in some for key in (one.text, one.examples))
        return frozenset(key for key in keys if key is not None)


def _size(stored: StoredCatalog, name: ServerName) -> int:
    return len(stored.names.servers[name].part.entries)


def _batches(
    stored: StoredCatalog, names: list[ServerName]
) -> Iterator[dict[ServerName, ServerPart]]:
    batch: dict[ServerName, ServerPart] = {}
    size = 0
    for name in names:
        batch[name] = stored.names.servers[name].part
        size += _size(stored, name)
        if size >= _AT_ONCE:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def sample_of(tools: Sequence[Tool]) -> Iterator[Tool]:
    """About `SAMPLE` of them, or all: the same for all gateways, and few others after a change."""
    bar = SAMPLE * _CHECKSUMS // max(len(tools), SAMPLE)
    return (tool for tool in tools if crc32(f"{tool.server}:{tool.name}".encode()) < bar)


async def _of_database(work: Callable[[], T]) -> T:
    """What the database has.

    Raises:
        EmbeddingError: If it does not answer.
    """
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except RegistryError as error:
        message = f"the vectors of the tools are not there: {error.message}"
        raise EmbeddingError(message, hint=error.hint) from error
