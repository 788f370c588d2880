"""The index of one catalog, made from the index of the catalog before it.

An index is immutable: a search reads one while the next is being built.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property, partial
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from discovery_engine.search.examples.book import OWN_EXAMPLES, ExampleBook
from discovery_engine.search.index.documents import build_documents
from discovery_engine.search.index.levels import Level, compacted, merged
from discovery_engine.search.index.postings import Postings, PostingsWriter, ServerSpan
from discovery_engine.search.operations.tool_profile import read_tool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.catalog import Catalog, Entry, ServerPart
    from discovery_engine.search.examples.book import Examples
    from discovery_engine.search.index.documents import Document
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import ServerName, Tool


class DocId(NamedTuple):
    """Where a tool stands in an index."""

    level: int
    doc: int
    """Its number within the level."""


class IndexedServer(Struct, frozen=True):
    """The data that a server's tools were indexed from."""

    part: ServerPart
    description: str
    tags: frozenset[tuple[str, ...]]
    """Every combination of tags that its tools have."""
    book: ExampleBook = OWN_EXAMPLES
    """Knows the examples of its tools."""

    @classmethod
    def from_part(
        cls, part: ServerPart, description: str, book: ExampleBook, known: IndexedServer | None
    ) -> IndexedServer:
        """Return what `part` is indexed from; `known` itself if it is the same."""
        if known and known.part is part and known.description == description and known.book == book:
            return known
        tags = frozenset(verdict.tags for verdict in part.verdicts if verdict.tags)
        return cls(part, description, tags, book)

    @property
    def tools(self) -> list[Tool]:
        return [entry.tool for entry in self.part.entries]

    @property
    def examples(self) -> dict[str, Examples]:
        """The examples of its tools, by the names that the server gave them; read anew each time.

        Kept, they would take as much memory as all else of a tool, and only indexing needs them.
        """
        return self.book.of_tools(self.tools)

    def has_documents_of(self, other: IndexedServer | None) -> bool:
        """Return whether both give the same documents."""
        if self is other:
            return True
        if other is None or self.description != other.description:
            return False
        if self.tools != other.tools:
            return False
        if self.book == other.book:
            return True
        same = self.examples == other.examples
        # Known only now: a book that was not read before may have become unreadable meanwhile.
        return same and not (self.book.has_failed or other.book.has_failed)


class Index(Struct, frozen=True, dict=True):
    levels: tuple[Level, ...] = ()
    servers: Mapping[ServerName, IndexedServer] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Every server that has tools, in the order of names."""

    @cached_property
    def size(self) -> int:
        return sum(level.size for level in self.levels)

    @property
    def is_storable(self) -> bool:
        """True if the requests in the index are those that the digests of its books say."""
        return not any(server.book.has_failed for server in self.servers.values())

    def document_frequency(self, term: str) -> int:
        """How many tools hold `term`."""
        count = 0  # a query calls this hundreds of times, and sum() takes twice as long
        for level in self.levels:
            count += level.document_frequency(term)
        return count

    def known_terms(self, terms: Collection[str]) -> set[str]:
        """Return the terms that some tool holds, or a deleted one did."""
        return {term for level in self.levels for term in level.postings.held_terms(terms)}

    def postings(self, level: int, docs: Sequence[int], terms: Iterable[str]) -> Postings:  # noqa: ARG002 - of all
        """Return the postings of at least these terms and tools of a level."""
        return self.levels[level].postings

    def entry(self, doc_id: DocId) -> Entry:
        level, doc = doc_id
        server, start, _ = self.levels[level].postings.span_of(doc)
        return self.servers[server].part.entries[doc - start]

    def profile(self, doc_id: DocId) -> int:
        """Return what a tool does, as `ToolProfile.packed` encodes it."""
        return self.levels[doc_id.level].postings.profile(doc_id.doc)

    def profiles(self, doc_ids: Iterable[DocId]) -> list[int]:
        """The same of many tools."""
        by_level = [level.postings.packed_profiles for level in self.levels]
        return [by_level[level][doc] for level, doc in doc_ids]

    def doc_ids(self, server: ServerName) -> Iterable[DocId]:
        """The tools of a server, in the order of their names."""
        number, span = self.locate(server)
        return (DocId(number, doc) for doc in range(span.start, span.stop))

    def locate(self, server: ServerName) -> tuple[int, ServerSpan]:
        """The number of the level that has a server's tools, and where they are in it."""
        for number, level in enumerate(self.levels):
            span = level.postings.by_server.get(server)
            if span and not level.is_deleted(span):
                return number, span
        raise LookupError(server)

    def doc_id(self, tool: Tool) -> DocId | None:
        """Where a tool stands; None if no tool with this definition is indexed."""
        server = self.servers.get(tool.server)
        entries = server.part.entries if server else ()
        at = bisect_left(entries, tool.name, key=lambda entry: entry.tool.name)
        if at == len(entries) or entries[at].tool != tool:
            return None
        number, span = self.locate(tool.server)
        return DocId(number, span.start + at)

    def impacts(self, doc_id: DocId, terms: Iterable[str]) -> dict[str, int]:
        """The impact of each of `terms` that a tool holds, from 1 to `documents.MAX_IMPACT`."""
        postings = self.levels[doc_id.level].postings
        impacts = {term: postings.impact(term, doc_id.doc) for term in terms}
        return {term: impact for term, impact in impacts.items() if impact}

    def update(
        self,
        catalog: Catalog,
        descriptions: Mapping[ServerName, str],
        lexicon: Lexicon,
        book: ExampleBook = OWN_EXAMPLES,
        *,
        names_only: bool = False,
    ) -> Index:
        """The index of `catalog`; what did not change is shared with this one.

        With `names_only`, as for this one, tools have places and names, but hold no terms.
        """
        servers = indexed_servers(catalog, descriptions, book, self.servers)
        stale = [
            name
            for name, server in self.servers.items()
            if not server.has_documents_of(servers.get(name))
        ]
        fresh = [
            name
            for name, server in servers.items()
            if not server.has_documents_of(self.servers.get(name))
        ]
        levels = list(self.levels)
        unknown = set()  # levels whose counts are no longer known
        for name in stale:
            number, span = self.locate(name)
            # Made again from the old definitions, to find the terms to count less: postings are
            # by term, and to keep the terms of each tool besides would cost memory for this alone.
            # If those cannot be had, the level is rewritten.
            server = self.servers[name]
            documents: Iterable[Document] = (
                () if names_only else _documents(name, server, server.examples, lexicon)
            )
            if server.book.has_failed:
                documents = ()
                unknown.add(number)
            levels[number] = levels[number].without(span, documents)
        for number in unknown:
            levels[number] = merged([levels[number]])
        if fresh:
            make_level = _level_of_names if names_only else partial(_new_level, lexicon=lexicon)
            levels.append(make_level(fresh, servers))
        return Index(compacted(levels), MappingProxyType(servers))


def indexed_servers(
    catalog: Catalog,
    descriptions: Mapping[ServerName, str],
    book: ExampleBook = OWN_EXAMPLES,
    known: Mapping[ServerName, IndexedServer] = MappingProxyType({}),
) -> dict[ServerName, IndexedServer]:
    """Return what to index of every server that has tools; `known` ones are reused if unchanged."""
    return {
        server: IndexedServer.from_part(part, descriptions.get(server, ""), book, known.get(server))
        for server, part in catalog.parts.items()
        if part.entries
    }


def profiles_of(
    tools: Iterable[Tool], examples: Mapping[str, Examples], lexicon: Lexicon
) -> Iterator[int]:
    """Yield what each tool does, as `ToolProfile.packed` encodes it, given the tools' examples."""
    for tool in tools:
        requests = examples.get(tool.upstream_name)
        yield read_tool(
            tool,
            lexicon.stem,
            has_examples=requests is not None,
            has_shipped_examples=requests is not None and requests.is_shipped,
        ).packed()


def _documents(
    name: ServerName, server: IndexedServer, examples: Mapping[str, Examples], lexicon: Lexicon
) -> Iterator[Document]:
    return build_documents(server.tools, name, server.description, lexicon, examples)


def _new_level(
    names: Iterable[ServerName], servers: Mapping[ServerName, IndexedServer], lexicon: Lexicon
) -> Level:
    writer = PostingsWriter()
    for name in names:
        server = servers[name]
        examples = server.examples
        profiles = profiles_of(server.tools, examples, lexicon)
        documents = _documents(name, server, examples, lexicon)
        writer.add(name, server.tools, documents, profiles)
    return Level(writer.build())


def _level_of_names(
    names: Iterable[ServerName], servers: Mapping[ServerName, IndexedServer]
) -> Level:
    writer = PostingsWriter()
    for name in names:
        tools = servers[name].tools
        writer.add(name, tools, repeat({}, len(tools)), repeat(0, len(tools)))
    return Level(writer.build())
