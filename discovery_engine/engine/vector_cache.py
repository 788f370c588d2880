"""The vectors of the tools of a catalog: loaded, computed where missing, and stored.

A tool has the vector of its text, and one with examples the mean vector of these. A text is
embedded once: its vector is stored under the digest of the text and the name of the model, and
dropped some time after no process uses it any more.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Container,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import anyio.to_thread

from discovery_engine._util.batches import batches
from discovery_engine.errors import RegistryError
from discovery_engine.search.embedders import EmbeddingError
from discovery_engine.search.examples.book import OWN_EXAMPLES, ExampleBook
from discovery_engine.search.text.tokenizer import words
from discovery_engine.search.vectors import Vectors, pack_mean, packed_size

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, ServerPart
    from discovery_engine.search.embedders import Embedder, Vector
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import ToolVectors
    from discovery_engine.store.postgres.database_searcher import DatabaseIndex
    from discovery_engine.store.postgres.search_vectors import StoredVectors, VectorSpace
    from discovery_engine.store.registry import Registry
    from discovery_engine.store.search_database import SearchDatabase
    from discovery_engine.store.stored_records import Lease
    from discovery_engine.tools.model import ServerName, Tool

logger = logging.getLogger(__name__)

T = TypeVar("T")
Texts: TypeAlias = dict[bytes, tuple[str, ...]]
"""Texts by the digest that their mean vector is stored under."""

# A lease costs two commits: 10,000 tools in batches of 32 took 2.2 s of CPU instead of 1.3 with one
# for each batch.
_TURN = 8  # batches that a process embeds before another one may
_LOOK = 0.25  # seconds between two looks at what another process embeds
_LONGEST_TURN = 60.0  # seconds, after which its process is taken for ended
_GROWTH = 1.5  # growth of the number of vectors after which they are published early


class _TextKeys(NamedTuple):
    """A tool, and what its vectors are stored under."""

    tool: Tool
    text: bytes
    examples: bytes | None

    def is_known(self, keys: Container[bytes]) -> bool:
        return self.text in keys and (self.examples is None or self.examples in keys)


class VectorCache:
    """The vectors of one configuration with one embedder."""

    updated_each = 86_400.0
    """Seconds after which their use is noted again, although no tool changed."""

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        store: Registry,
        embedder: Embedder,
        *,
        scope: str,
        batch: int,
        book: ExampleBook = OWN_EXAMPLES,
        contexts: Mapping[ServerName, str] = MappingProxyType({}),
        read: Callable[[str], str] = str,
        is_static: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Empty until the first update.

        Args:
            store: Keeps the vectors.
            embedder: Computes them.
            scope: Of the configuration, which uses the vectors.
            batch: How many texts are embedded at once.
            book: Knows the examples of tools; the owner's alone if it is left out.
            contexts: What the owner says about servers; part of the texts of their tools.
            read: Makes the text that is embedded of an example.
            is_static: Whether the vectors are sums of word vectors.
            clock: Monotonic.
        """
        self._store = store
        self._embedder = embedder
        self._scope = scope
        self._batch = batch
        self._turn_size = _TURN * batch
        self._book = book
        self._contexts = contexts
        self._read_example = read
        self._is_static = is_static
        # By the model alone: configurations share what it gives to a text.
        name = f"embedding with {embedder.model}"
        self._turn = _Turn(store, name, clock)
        self._clock = clock
        self._noted_at = clock()
        self._parts: dict[ServerName, tuple[ServerPart, list[_TextKeys]]] = {}
        self._known: dict[bytes, bytes] = {}
        self._is_forced = False
        """True if stored vectors are not loaded."""

    async def update(self, catalog: Catalog, *, force: bool = False) -> AsyncIterator[ToolVectors]:
        """Yield the vectors of a catalog: first the stored ones, then more, at last all.

        The dimensions of the embedder must be known. With `force` all are computed, and replace the
        stored ones.

        Raises:
            EmbeddingError: If the embedder fails; vectors computed until then are stored.
        """
        self._begin(force=force)
        texts = await anyio.to_thread.run_sync(self._read, catalog)
        await self._load(texts)
        missing = [digest for digest in texts if digest not in self._known]
        count = len(self._known)
        yield await self._vectors()
        while missing:
            size = max(self._batch, min(self._turn_size, len(self._known)))  # the first ones soon
            turn, missing = missing[:size], missing[size:]
            await self._compute({digest: texts[digest] for digest in turn})
            if not missing or len(self._known) > _GROWTH * count:
                count = len(self._known)
                yield await self._vectors()
        used = self._used()
        self._known = {digest: self._known[digest] for digest in used}
        if self._is_due():
            await self._note(used)

    def _begin(self, *, force: bool) -> None:
        self._is_forced = force
        if force:
            self._known = {}

    def _read(self, catalog: Catalog) -> Texts:
        """The texts by digest, those of tools before examples; unchanged servers are not read."""
        before, self._parts = self._parts, {}
        texts: Texts = {}
        examples: Texts = {}
        for server, part in catalog.parts.items():
            old_part, entries = before.get(server, (None, []))
            tools = [entry.tool for entry in part.entries]
            is_same = old_part is not None and [entry.tool for entry in old_part.entries] == tools
            if not (is_same and all(entry.is_known(self._known) for entry in entries)):
                entries = [*self._entries(tools, texts, examples)]
            self._parts[server] = part, entries
        return texts | examples

    def _entries(self, tools: Sequence[Tool], texts: Texts, examples: Texts) -> Iterator[_TextKeys]:
        """Yield the keys of each tool's stored vectors; add texts to `texts` and `examples`."""
        by_name = self._book.of_tools(tools)
        for tool in tools:
            text = (embedding_text(tool, self._contexts.get(tool.server, "")),)
            texts[digest := text_digest(*text)] = text
            request_texts = (
                by_name[tool.upstream_name].texts if tool.upstream_name in by_name else ()
            )
            requests = tuple(map(self._read_example, request_texts))
            of_requests = text_digest(*requests) if requests else None
            if of_requests is not None:
                examples[of_requests] = requests
            yield _TextKeys(tool, digest, of_requests)

    async def _load(self, texts: Texts) -> None:
        if self._is_forced:
            return
        digests = [digest for digest in texts if digest not in self._known]
        load = partial(self._store.vectors, self._embedder.model, digests)
        vectors = (await _from_registry(load) or {}) if digests else {}
        length = packed_size(self._embedder.dimensions or 0)
        # A remote embedder may change its model under the same name.
        self._known |= {digest: data for digest, data in vectors.items() if len(data) == length}
        if vectors:
            await self._note(vectors)

    async def _compute(self, texts: Texts) -> None:
        """Have the vectors of some texts, in a turn: one process of the registry at a time embeds.

        Others take what it stored, who has other texts waits for this turn to end, and the next one
        takes over from a process that is killed in the middle.
        """
        while not texts.keys() <= self._known.keys():
            try:
                lease = await anyio.to_thread.run_sync(self._turn.take)
            except RegistryError as error:
                logger.debug("Texts are embedded without a lease: %s", error)
                await self._embed(texts)
                continue
            if lease is None:
                await anyio.sleep(_LOOK)
                await self._load(texts)
                continue
            try:
                await self._embed(texts)
            finally:
                with anyio.CancelScope(shield=True):
                    await _from_registry(partial(self._store.release_lease, lease))

    async def _embed(self, texts: Texts) -> None:
        """Embed and store those that no other process has stored since they were looked for."""
        await self._load(texts)
        missing = iter([(key, some) for key, some in texts.items() if key not in self._known])
        while batch := dict(islice(missing, self._batch)):
            vectors = iter(await self._embedded([*chain.from_iterable(batch.values())]))
            means = {key: pack_mean([*islice(vectors, len(some))]) for key, some in batch.items()}
            self._known |= means
            save = partial(self._store.save_vectors, self._scope, self._embedder.model, means)
            await _from_registry(save)

    async def _embedded(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        while len(vectors) < len(texts):
            vectors += await self._embedder.embed(texts[len(vectors) :][: self._batch])
        return vectors

    async def _vectors(self) -> Vectors:
        entries = [entry for entry in self._all() if entry.text in self._known]
        tools, stored = (
            [entry.tool for entry in entries],
            [self._known[entry.text] for entry in entries],
        )
        requests = {
            place: self._known[entry.examples]
            for place, entry in enumerate(entries)
            if entry.examples is not None and entry.examples in self._known
        }
        constructor = partial(Vectors, tools, stored, requests, is_static=self._is_static)
        return await anyio.to_thread.run_sync(constructor)

    def _used(self) -> frozenset[bytes]:
        digests = (key for entry in self._all() for key in (entry.text, entry.examples))
        return frozenset(key for key in digests if key is not None)

    def _is_due(self) -> bool:
        """Return whether the use of all should be noted again, which is once a day."""
        now = self._clock()
        if is_due := now >= self._noted_at + self.updated_each:
            self._noted_at = now
        return is_due

    async def _note(self, used: Collection[bytes]) -> None:
        keep = partial(self._store.keep_vectors, self._scope, self._embedder.model, used)
        await _from_registry(keep)

    def _all(self) -> Iterator[_TextKeys]:
        return chain.from_iterable(entries for _, entries in self._parts.values())


class _Turn:
    """A lease of the processes of a registry, of which one holds it at a time.

    Who waits measures by a clock of its own how long nobody else has taken it.
    """

    def __init__(self, store: Registry, name: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._name = name
        self._clock = clock
        self._holder = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._seen: Lease | None = None
        self._seen_at = clock()

    def take(self) -> Lease | None:
        """The lease; None if another process has it. Raises RegistryError."""
        lease = self._store.lease(self._name)
        if lease != self._seen:
            self._seen, self._seen_at = lease, self._clock()
        is_old = self._clock() - self._seen_at >= _LONGEST_TURN
        if lease is not None and not lease.is_free and not is_old:
            return None
        return self._store.acquire_lease(self._name, self._holder, instead_of=lease)


async def _from_registry(work: Callable[[], T]) -> T | None:
    """The value from the registry; None if it fails: vectors are then computed again."""
    try:
        return await anyio.to_thread.run_sync(work)
    except RegistryError as error:
        logger.warning("The registry cannot load or store vectors: %s", error)
        return None


# The parts and their order were measured: without the names of server and parameters fewer queries
# find their tool, and with descriptions of parameters or of the server no more do
# (`specs/embeddings.md` has the figures).

_BETWEEN = "\x00"
_MAX_EMBEDDING_TEXT_LENGTH = 2_000  # characters; models read less, and hosted ones bill by length


def embedding_text(tool: Tool, context: str = "") -> str:
    """For instance `github create issue: Opens an issue. (owner, repo, title) Our code.`.

    `context` is what the owner says about the server.
    """
    parameters = ", ".join(_as_words(parameter.name) for parameter in tool.parameters)
    head = f"{_as_words(tool.server)} {_as_words(tool.name)}: {tool.description}"
    text = f"{head} ({parameters})" if parameters else head
    parts = (text, context) if context else (text,)
    return " ".join(part[:_MAX_EMBEDDING_TEXT_LENGTH] for part in parts)


def text_digest(*texts: str) -> bytes:
    """The key that the vector of a text is stored under, or the mean vector of several."""
    joined = _BETWEEN.join(texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).digest()


def _as_words(name: str) -> str:
    """A name as words; one in a script without spaces as it is."""
    return " ".join(words(name)) if name.isascii() else name


# Which are missing there is found by the documents of servers: what one gateway has written no
# other embeds, loads or writes. In memory are those of a few servers while they are made.

# Tools whose vectors are made and written together, more if a server has more.
_VECTOR_BATCH_SIZE = 500


class StoredVectorCache(VectorCache):
    """A `VectorCache` over the tools of a searcher in the database."""

    def search_in(self, database: SearchDatabase, searcher: Callable[[], Searcher]) -> None:
        """To be called first: where vectors are compared, and the searcher over the catalog."""
        self._database = database
        self._searcher = searcher

    async def update(self, catalog: Catalog, *, force: bool = False) -> AsyncIterator[ToolVectors]:
        """Yield the vectors of the searcher's catalog: first what the database has, at last all.

        With `force` none is loaded that was stored under its text. Those that are beside the
        documents are replaced with these.

        Raises:
            EmbeddingError: If the embedder fails, or the database does not answer.
            NoVectorSearchError: If the database cannot compare vectors.
        """
        self._begin(force=force)
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
        # Only here: the driver of the database is an extra, and a plain installation has none.
        from discovery_engine.store.postgres.database_searcher import (
            DatabaseSearcher,
        )
        from discovery_engine.store.postgres.search_vectors import open_space

        searcher = self._searcher()
        if not isinstance(searcher, DatabaseSearcher):
            raise RegistryError("the catalog is not searched in the database any more")
        model, dimensions = self._embedder.model, self._embedder.dimensions or 0
        for refresh in (False, True):
            number = searcher.database_index.stored(refresh=refresh, is_whole=True).number
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
        from discovery_engine.store.postgres.search_vectors import (
            StoredVectors,
        )

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
