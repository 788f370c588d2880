"""The vectors of the tools of a catalog that is searched in the database, where they stay.

Which are missing there is found by the documents of servers: what one gateway has written no other
embeds, loads or writes. In memory are those of a few servers while they are made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from discovery_engine._util.batches import batches
from discovery_engine.errors import RegistryError
from discovery_engine.registry.postgres.database_searcher import (  # noqa: TID253 - imported where a database is searched
    DatabaseIndex,
    DatabaseSearcher,
)
from discovery_engine.registry.postgres.search_vectors import (  # noqa: TID253 - as above
    StoredVectors,
    VectorSpace,
    open_space,
)
from discovery_engine.runtime.vector_cache import Texts, VectorCache
from discovery_engine.search.embedders import EmbeddingError

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, ServerPart
    from discovery_engine.registry.search_database import SearchDatabase
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import ToolVectors

T = TypeVar("T")

# Tools whose vectors are made and written together, more if a server has more.
_VECTOR_BATCH_SIZE = 500


class StoredVectorCache(VectorCache):
    """A `VectorCache` over the tools of a searcher in the database."""

    def search_in(self, database: SearchDatabase, searcher: Callable[[], Searcher]) -> None:
        """To be called first: where vectors are compared, and the searcher over the catalog."""
        self._database = database
        self._searcher = searcher

    async def update(self, catalog: Catalog, *, anew: bool = False) -> AsyncIterator[ToolVectors]:
        """Yield the vectors of the searcher's catalog: first what the database has, at last all.

        With `anew` none is loaded that was stored under its text. Those that are beside the
        documents are replaced with these.

        Raises:
            EmbeddingError: If the embedder fails, or the database does not answer.
            NoVectorSearchError: If the database cannot compare vectors.
        """
        self._begin(anew=anew)
        index, space = await _of_database(self._opened)
        missing = await _of_database(space.missing)
        numbers = index.stored().numbers
        parts = {
            name: server.part for name, server in index.servers.items() if numbers[name] in missing
        }
        count = index.size - sum(len(part.entries) for part in parts.values())
        if count or not parts:
            yield await _of_database(partial(self._finished, index, space, count))
        for batch in batches(parts, lambda name: len(parts[name].entries), most=_VECTOR_BATCH_SIZE):
            await self._store_vectors(space, {numbers[name]: parts[name] for name in batch})
        if parts:
            yield await _of_database(partial(self._finished, index, space, index.size))
        if self._is_due():
            await self._note(await anyio.to_thread.run_sync(self._digests, catalog))

    def _opened(self) -> tuple[DatabaseIndex, VectorSpace]:
        searcher = self._searcher()
        if not isinstance(searcher, DatabaseSearcher):
            raise RegistryError("the catalog is not searched in the database any more")
        model, dimensions = self._embedder.model, self._embedder.dimensions or 0
        for is_anew in (False, True):
            number = searcher.database_index.stored(is_anew=is_anew).number
            if space := open_space(self._database, number, model, dimensions):
                return searcher.database_index, space
        raise RegistryError("the index of the tools was dropped while it was made")

    async def _store_vectors(self, space: VectorSpace, parts: Mapping[int, ServerPart]) -> None:
        """Let the database have the vectors of some servers; none of them stays in memory."""
        texts: Texts = {}
        examples: Texts = {}
        keys = {
            number: [*self._entries([entry.tool for entry in part.entries], texts, examples)]
            for number, part in parts.items()
        }
        texts |= examples
        self._known = {}
        await self._load(texts)
        lacking = iter([digest for digest in texts if digest not in self._known])
        while some := [*islice(lacking, self._turn_size)]:
            await self._compute({digest: texts[digest] for digest in some})
        vectors = {
            number: [
                [self._known[digest] for digest in (tool.text, tool.examples) if digest is not None]
                for tool in tools
            ]
            for number, tools in keys.items()
        }
        self._known = {}
        await _of_database(partial(space.save, vectors))

    def _finished(self, index: DatabaseIndex, space: VectorSpace, count: int) -> StoredVectors:
        return StoredVectors(space, index, space.finish(count), count, self._is_static)

    def _digests(self, catalog: Catalog) -> frozenset[bytes]:
        parts = catalog.parts.values()
        entries = (self._entries([e.tool for e in part.entries], {}, {}) for part in parts)
        keys = (key for some in entries for entry in some for key in (entry.text, entry.examples))
        return frozenset(key for key in keys if key is not None)


async def _of_database(work: Callable[[], T]) -> T:
    """Run `work`, which uses the database, in a thread.

    Raises:
        EmbeddingError: If the database does not answer.
    """
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except RegistryError as error:
        message = f"the vectors of the tools are not there: {error.message}"
        raise EmbeddingError(message, hint=error.hint) from error
