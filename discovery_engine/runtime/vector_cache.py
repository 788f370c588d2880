"""The vectors of the tools of a catalog: loaded, computed where missing, and stored.

A tool has the vector of its text, and one with examples the mean vector of these. A text is
embedded once: its vector is stored under the digest of the text and the name of the model, and
deleted when no tool has that text any more.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Container, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import anyio.to_thread

from discovery_engine.errors import RegistryError
from discovery_engine.search.embedding_text import embedding_text, text_digest
from discovery_engine.search.examples.book import OWN_EXAMPLES, ExampleBook
from discovery_engine.search.vectors import Vectors, pack_mean, packed_size

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, ServerPart
    from discovery_engine.registry.protocols import VectorStore
    from discovery_engine.search.embedders import Embedder, Vector
    from discovery_engine.search.vectors import ToolVectors
    from discovery_engine.tools.model import ServerName, Tool

logger = logging.getLogger(__name__)

T = TypeVar("T")
Texts: TypeAlias = dict[bytes, tuple[str, ...]]
"""Texts by the digest that their mean vector is stored under."""

_GROWTH = 1.5  # growth of the number of vectors after which they are published early


class _TextKeys(NamedTuple):
    """A tool, and what its vectors are stored under."""

    tool: Tool
    text: bytes
    examples: bytes | None

    def is_known(self, known: Container[bytes]) -> bool:
        return self.text in known and (self.examples is None or self.examples in known)


class VectorCache:
    """The vectors of one configuration with one embedder."""

    def __init__(
        self,
        store: VectorStore,
        embedder: Embedder,
        *,
        scope: str,
        batch: int,
        book: ExampleBook = OWN_EXAMPLES,
        read: Callable[[str], str] = str,
        is_static: bool = False,
    ) -> None:
        """Empty until the first update.

        Args:
            store: Keeps the vectors.
            embedder: Computes them.
            scope: Of the configuration; vectors that it no longer needs are deleted.
            batch: How many texts are embedded at once.
            book: Knows the examples of tools; the owner's alone if it is left out.
            read: Makes the text that is embedded of an example.
            is_static: Whether the vectors are sums of word vectors.
        """
        self._store = store
        self._embedder = embedder
        self._scope = scope
        self._batch = batch
        self._book = book
        self._read_example = read
        self._is_static = is_static
        self._parts: dict[ServerName, tuple[ServerPart, list[_TextKeys]]] = {}
        self._known: dict[bytes, bytes] = {}
        self._kept: frozenset[bytes] | None = None

    async def update(self, catalog: Catalog) -> AsyncIterator[ToolVectors]:
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

    def _read(self, catalog: Catalog) -> Texts:
        """The texts by digest, those of tools before examples; unchanged servers are not read."""
        before, self._parts = self._parts, {}
        texts: Texts = {}
        examples: Texts = {}
        for server, part in catalog.parts.items():
            known, entries = before.get(server, (None, []))
            tools = [entry.tool for entry in part.entries]
            is_same = known is not None and [entry.tool for entry in known.entries] == tools
            if not (is_same and all(entry.is_known(self._known) for entry in entries)):
                entries = [*self._entries(tools, texts, examples)]
            self._parts[server] = part, entries
        return texts | examples

    def _entries(self, tools: Sequence[Tool], texts: Texts, examples: Texts) -> Iterator[_TextKeys]:
        """What each tool's vectors are stored under; adds the texts to `texts` and `examples`."""
        known = self._book.of_tools(tools)
        for tool in tools:
            text = (embedding_text(tool),)
            texts[digest := text_digest(*text)] = text
            found = known[tool.upstream_name].texts if tool.upstream_name in known else ()
            requests = tuple(map(self._read_example, found))
            of_requests = text_digest(*requests) if requests else None
            if of_requests is not None:
                examples[of_requests] = requests
            yield _TextKeys(tool, digest, of_requests)

    async def _load(self, texts: Texts) -> None:
        wanted = [digest for digest in texts if digest not in self._known]
        load = partial(self._store.vectors, self._embedder.model, wanted)
        found = (await _from_registry(load) or {}) if wanted else {}
        length = packed_size(self._embedder.dimensions or 0)
        # A remote embedder may change its model under the same name.
        self._known |= {digest: data for digest, data in found.items() if len(data) == length}

    async def _compute(self, texts: Texts) -> None:
        flat = [*chain.from_iterable(texts.values())]
        vectors: list[Vector] = []
        while len(vectors) < len(flat):
            batch = flat[len(vectors) :][: self._batch]
            vectors += await self._embedder.embed(batch)
        rest = iter(vectors)
        made = {key: pack_mean([*islice(rest, len(some))]) for key, some in texts.items()}
        self._known |= made
        await _from_registry(
            partial(self._store.save_vectors, self._scope, self._embedder.model, made)
        )

    async def _vectors(self) -> Vectors:
        found = [entry for entry in self._all() if entry.text in self._known]
        tools, stored = [one.tool for one in found], [self._known[one.text] for one in found]
        requests = {
            place: self._known[one.examples]
            for place, one in enumerate(found)
            if one.examples is not None and one.examples in self._known
        }
        made = partial(Vectors, tools, stored, requests, is_static=self._is_static)
        return await anyio.to_thread.run_sync(made)

    async def _delete_unused(self) -> None:
        """Forget the vectors of texts that no tool mentions any more."""
        digests = (key for one in self._all() for key in (one.text, one.examples))
        used = frozenset(key for key in digests if key is not None)
        if self._kept is None or self._kept - used:
            self._known = {digest: self._known[digest] for digest in used}
            keep = partial(self._store.keep_vectors, self._scope, self._embedder.model, used)
            await _from_registry(keep)
        self._kept = used

    def _all(self) -> Iterator[_TextKeys]:
        return chain.from_iterable(entries for _, entries in self._parts.values())


async def _from_registry(work: Callable[[], T]) -> T | None:
    """The value from the registry; None if it fails: vectors are then computed again."""
    try:
        return await anyio.to_thread.run_sync(work)
    except RegistryError as error:
        logger.warning("The registry cannot load or store vectors: %s", error)
        return None
