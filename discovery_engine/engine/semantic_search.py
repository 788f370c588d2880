"""Semantic search: a background task of the engine that embeds tools, and queries on demand.

A query waits for its vector at most as long as the settings allow. If anything fails here, search
goes on by words, and the answer contains a notice.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias, TypeVar

import anyio
from cachetools import LRUCache
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.tasks import Promise
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.events import (
    CatalogChanged,
    ConfigurationReloaded,
    EventBus,
    RequestsWritten,
    Subscription,
)
from discovery_engine.search.embedders import Embedder, EmbeddingError, Vector
from discovery_engine.search.examples.book import ExampleBook
from discovery_engine.search.query.analyzer import split_clauses
from discovery_engine.search.text.lexicon import lexicon_for
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.store.search_database import NoVectorSearchError
from discovery_engine.view.notices import Notice, by_words

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import EmbeddingsSettings
    from discovery_engine.engine.vector_cache import VectorCache
    from discovery_engine.search.vectors import ToolVectors
    from discovery_engine.store.registry import Registry
    from discovery_engine.store.search_database import SearchDatabase
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

C = TypeVar("C", bound="VectorCache")
_Query: TypeAlias = tuple[Vector, ...]
Reader: TypeAlias = Callable[[str], str]

WARM_UP = "a text to begin with"
"""The first text for an embedder: afterwards its model is loaded and its dimensions known."""

_CHANGES = (CatalogChanged, ConfigurationReloaded, RequestsWritten)
_QUERIES_KEPT = 256
_LONGEST_QUERY = 2_000  # characters that are embedded
_FIRST_PAUSE = 1.0  # seconds of backoff after a failure of the embedder; doubled each time
_LONGEST_PAUSE = 300.0
_SLOW = "for a slow embedder raise `search.embeddings.timeout`"


class EmbedderOpener(Protocol):
    """A function with the signature of `open_embedder`."""

    def __call__(
        self, settings: EmbeddingsSettings, *, secrets: SecretResolver, base_dir: Path, data: Path
    ) -> AbstractAsyncContextManager[Embedder]: ...


class QueryEmbedding(Struct, frozen=True):
    """The vectors of a query; without any, search is by words."""

    vectors: _Query = ()
    """The vector of the whole query, then those of its clauses."""
    notices: tuple[Notice, ...] = ()
    """The reasons why search is by words although an embedder is configured."""


class _Wanted(Struct, frozen=True):
    """The settings that an embedder and its vectors depend on."""

    embeddings: EmbeddingsSettings
    base_dir: Path
    is_untrusted_origin: bool
    scope: str
    book: ExampleBook
    contexts: Mapping[ServerName, str]
    synonyms: tuple[tuple[str, ...], ...]
    """A text is read with them before it is translated."""
    is_in_database: bool
    """True if the database compares vectors. Whatever is reserved is always searched in memory."""

    @classmethod
    def by(cls, view: View) -> _Wanted:
        settings = view.settings
        scope = catalog_key_of(settings)
        base_dir = Path(settings.path).parent if settings.path else Path()
        return cls(
            settings.search.embeddings,
            base_dir,
            settings.is_untrusted_origin,
            scope,
            view.book,
            settings.contexts,
            settings.search.synonyms,
            settings.search.is_in_database and not settings.reserves,
        )

    @property
    def read(self) -> Reader:
        """The function that turns a request into the text that is embedded."""
        return lexicon_for(self.synonyms).in_english if self.embeddings.is_english else str


class SemanticSearch:
    def __init__(
        self,
        view: Callable[[], View],
        set_vectors: Callable[[ToolVectors | None], Awaitable[None]],
        store: Registry,
        events: EventBus,
        *,
        secrets: SecretResolver,
        data: Path,
        clock: Callable[[], float] = time.monotonic,
        opener: EmbedderOpener | None = None,
    ) -> None:
        """Start nothing; `run` opens the embedder.

        Args:
            view: Gives the current view.
            set_vectors: Puts vectors into the current view.
            store: Keeps vectors between runs; a database may compare them, too.
            events: Say when the catalog or the settings change.
            secrets: Gives `${references}` their values.
            data: The data folder, where the installed model is.
            clock: Monotonic.
            opener: Opens the embedder of the settings; `open_embedder` if None.
        """
        self._view = view
        self._set_vectors = set_vectors
        self._store = store
        self._events = events
        self._secrets = secrets
        self._data = data
        self._clock = clock
        self._open = opener
        self._embedder: Embedder | None = None
        self._problem: EmbeddingError | None = None
        self._done: Catalog | None = None
        """The catalog whose tools all have vectors, or can have none at present."""
        self._settled = anyio.Event()
        self._loaded = anyio.Event()
        """Set once the first embedder is loaded, or cannot be."""
        self._queries: LRUCache[str, _Query] = LRUCache(_QUERIES_KEPT)
        self._pause = 0.0
        self._retry_at = 0.0
        self._waiting = anyio.CancelScope()
        """While nothing is to be done; cancelled to have something done."""
        self._reembedding: Promise[int] | None = None

    async def run(self) -> NoReturn:
        """Follow the settings and the catalog; runs in a task of the engine."""
        with self._events.subscribe(*_CHANGES) as events:
            while True:
                goal = _Wanted.by(self._view())
                try:
                    await self._serve(goal, events)
                except EmbeddingError as error:
                    self._fail(error)
                    await self._next_change(events, self._pause)
                except Exception as error:  # a bug here must not stop the engine
                    logger.exception("Search by meaning failed")
                    self._fail(EmbeddingError(f"search by meaning failed: {error}"))
                    await self._next_change(events, self._pause)

    async def wait_settled(self, timeout: float) -> Notice | None:  # noqa: ASYNC109 - an answer, not an error
        """Wait until every tool has a vector, or none can be computed at present.

        At most `timeout` seconds; the time in which the embedder is loaded does not count. Returns
        why tools have no vector, if some have none.
        """
        if not self._view().settings.search.embeddings.is_on:
            return None
        await self._wait_settled(timeout)
        if problem := self._problem:
            return by_words(problem.message, problem.hint)
        return next(iter(_unfinished(self._view())), None)

    async def _wait_settled(self, timeout: float) -> None:  # noqa: ASYNC109 - as above
        await self._loaded.wait()
        with anyio.move_on_after(timeout):
            while self._view().settings.search.embeddings.is_on:
                # A listing without changes creates a new catalog but no event.
                if self._done is not None and not self._done.diff(self._view().catalog):
                    return
                await self._settled.wait()

    async def reembed(self) -> int:
        """Embed all tools, in place of the stored vectors; returns how many have a vector then.

        0 if no embedder is configured.

        Raises:
            EmbeddingError: If the embedder fails.
        """
        promise = self._reembedding = self._reembedding or Promise()
        self._waiting.cancel()
        return await promise.wait()

    async def vectors_of(self, catalog: Catalog, book: ExampleBook) -> ToolVectors | None:
        """The vectors of any catalog, with the examples of a book; None without an embedder.

        Texts that have none yet are embedded.

        Raises:
            EmbeddingError: If the embedder fails.
        """
        # Off by default, so a start does not load it.
        from discovery_engine.engine.vector_cache import VectorCache  # noqa: PLC0415

        target = _Wanted.by(self._view())
        if not target.embeddings.is_on:
            return None
        await self._wait_settled(math.inf)
        if self._embedder is None:
            raise self._problem or EmbeddingError("the embedder is not there yet")
        target = replace(target, book=book)
        cache = self._cache(VectorCache, target, self._embedder)
        return [vectors async for vectors in cache.update(catalog)][-1]

    async def embed_query(
        self,
        query: str,
        view: View | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - an answer, not an error
    ) -> QueryEmbedding:
        """The vectors of a query within the time limit; none for a query that names a tool.

        `view` is what is searched; the current one if None. `timeout` is that of the settings if
        None, in seconds.
        """
        view = view or self._view()
        settings = view.settings.search.embeddings
        is_needless = not settings.is_on or not query.strip() or not len(view.catalog)
        if is_needless or view.searcher.is_tool_name(query):
            return QueryEmbedding()
        try:
            return QueryEmbedding(
                await self._vectors_of(query, view, timeout or settings.timeout), _unfinished(view)
            )
        except EmbeddingError as error:
            return QueryEmbedding(notices=(by_words(error.message, error.hint),))

    async def _vectors_of(self, query: str, view: View, timeout: float) -> _Query:  # noqa: ASYNC109 - raises an EmbeddingError
        if not view.vectors or self._embedder is None:
            raise self._problem or EmbeddingError(
                "the vectors of the tools are not there yet", hint=_SLOW
            )
        if (vectors := self._queries.get(query)) is None:
            vectors = await self._embedded(query, self._embedder, timeout)
        if len(vectors[0]) != view.vectors.dimensions:
            raise EmbeddingError(
                f"the embedder gave {len(vectors[0])} numbers where {view.vectors.dimensions} were "
                "remembered",
                hint="another model needs another name in `search.embeddings.model`",
            )
        return vectors

    async def _embedded(self, query: str, embedder: Embedder, timeout: float) -> _Query:  # noqa: ASYNC109 - as above
        if self._problem and self._clock() < self._retry_at:
            raise self._problem
        try:
            read = _Wanted.by(self._view()).read
            vectors, is_whole = await query_vectors(query, embedder, timeout=timeout, read=read)
        except EmbeddingError as error:
            self._back_off(error)
            raise
        if is_whole:
            self._queries[query] = vectors
        self._problem, self._pause = None, 0.0
        return vectors

    def _back_off(self, problem: EmbeddingError) -> None:
        """Skip an embedder that failed, with exponential backoff."""
        self._problem = problem
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._retry_at = self._clock() + self._pause

    async def _serve(self, target: _Wanted, events: Subscription) -> None:
        """Open the embedder and compute vectors until the settings change."""
        if not target.embeddings.is_on:
            await self._without(target, events)
            return
        if target.is_untrusted_origin:
            raise EmbeddingError(
                "the configuration was discovered, not named with --config",
                hint="name it with --config to let it choose a model or an address",
            )
        # Off by default, so a start does not load them.
        from discovery_engine.engine.vector_cache import VectorCache  # noqa: PLC0415
        from discovery_engine.search.embedders.opening import open_embedder  # noqa: PLC0415

        async with (self._open or open_embedder)(
            target.embeddings, secrets=self._secrets, base_dir=target.base_dir, data=self._data
        ) as embedder:
            self._loaded.set()
            self._queries.clear()
            await embedder.embed([WARM_UP])
            if target.is_in_database and (search := self._store.search):
                try:
                    tools = self._in_database(search, target, embedder)
                    await self._follow(target, events, embedder, tools)
                except NoVectorSearchError as error:
                    logger.warning("Vectors are compared in each gateway: %s", error)
            await self._follow(target, events, embedder, self._cache(VectorCache, target, embedder))
        self._embedder = None

    async def _follow(
        self, target: _Wanted, events: Subscription, embedder: Embedder, tools: VectorCache
    ) -> None:
        """Keep the vectors of the view up to date until the settings change."""
        while _Wanted.by(self._view()) == target:
            catalog, reembedding = self._view().catalog, self._reembedding
            async for vectors in tools.update(catalog, force=reembedding is not None):
                await self._set_vectors(vectors)
                self._embedder, self._problem = embedder, None
            self._pause = 0.0
            self._settle(catalog)
            if reembedding is not None:
                self._reembedding = None
                reembedding.set(len(self._view().vectors or ()))
            await self._next_change(events, tools.updated_each)

    def _in_database(
        self, search: SearchDatabase, target: _Wanted, embedder: Embedder
    ) -> VectorCache:
        # Only then: most configurations compare vectors in memory.
        from discovery_engine.engine.vector_cache import (  # noqa: PLC0415
            StoredVectorCache,
        )

        tools = self._cache(StoredVectorCache, target, embedder)
        tools.search_in(search, lambda: self._view().searcher)
        return tools

    def _cache(self, kind: type[C], target: _Wanted, embedder: Embedder) -> C:
        return kind(
            self._store,
            embedder,
            scope=target.scope,
            batch=target.embeddings.batch,
            book=target.book,
            contexts=target.contexts,
            read=target.read,
            is_static=target.embeddings.is_static,
            clock=self._clock,
        )

    async def _without(self, target: _Wanted, events: Subscription) -> None:
        await self._set_vectors(None)
        self._settle(self._view().catalog)
        while _Wanted.by(self._view()) == target:
            if self._reembedding is not None:
                self._reembedding.set(0)
                self._reembedding = None
            await self._next_change(events)

    def _fail(self, error: EmbeddingError) -> None:
        if self._problem is None or self._problem.message != error.message:
            logger.warning("Tools are found by words alone: %s", error)
        self._back_off(error)
        self._embedder = None
        if self._reembedding is not None:
            self._reembedding.fail(error)
            self._reembedding = None
        self._settle(self._view().catalog)

    def _settle(self, catalog: Catalog) -> None:
        self._done = catalog
        self._loaded.set()
        self._settled.set()
        self._settled = anyio.Event()

    async def _next_change(self, events: Subscription, most: float = math.inf) -> None:
        """Wait for something to do, at most so many seconds."""
        with anyio.move_on_after(most) as self._waiting:
            if self._reembedding is None:
                await anext(events)


async def query_vectors(
    query: str,
    embedder: Embedder,
    *,
    timeout: float,  # noqa: ASYNC109 - raises an EmbeddingError
    read: Reader = str,
) -> tuple[_Query, bool]:
    """The vectors of a query and its clauses, and whether all were computed in time.

    The whole query is embedded first, because it matters most. Clauses that are not done after
    `timeout` seconds are left out. `read` makes the text that is embedded.

    Raises:
        EmbeddingError: If the embedder fails, or the whole is not done in time either.
    """
    text = query[:_LONGEST_QUERY]
    whole: list[Vector] = []
    clauses: list[Vector] = []
    with anyio.move_on_after(timeout) as limit:
        whole = await embedder.embed([read(text)])
        if parts := split_clauses(text):
            clauses = await embedder.embed([*map(read, parts)])
    if not whole:
        raise EmbeddingError(f"the embedder did not answer within {timeout:g} s", hint=_SLOW)
    return (*whole, *clauses), not limit.cancelled_caught


def _unfinished(view: View) -> tuple[Notice, ...]:
    vectors, tools = len(view.vectors or ()), len(view.catalog)
    if vectors >= tools:
        return ()
    return (by_words(f"vectors of {tools - vectors:,} of {tools:,} tools are still being made"),)
