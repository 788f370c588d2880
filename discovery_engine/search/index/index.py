"""The inverted index of a catalog: built incrementally, and stored as bytes.

An index is immutable, so searches can read one while the next is being built. It consists of
levels, each with the postings of some servers, as in a log-structured merge tree.
"""

from __future__ import annotations

import logging
import marshal
import sys
from bisect import bisect_left
from collections import defaultdict
from functools import cached_property, partial
from itertools import compress, repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct, field

from discovery_engine._util import digests, gc_pause
from discovery_engine._util.version import __version__
from discovery_engine.search.examples.book import OWN_EXAMPLES, ExampleBook
from discovery_engine.search.index.documents import build_documents
from discovery_engine.search.index.postings import (
    LazyBuckets,
    LazyValues,
    Postings,
    PostingsWriter,
    ServerSpan,
    pack_buckets,
    pack_values,
)
from discovery_engine.search.operations.operation import operation_words_digest, read_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.catalog import Catalog, Entry, ServerPart
    from discovery_engine.search.examples.book import Examples
    from discovery_engine.search.index.documents import Document
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import ServerName, Tool

_DELETED_PART = 8  # a level is rewritten if more than an eighth of its tools is deleted


class Level(Struct, frozen=True):
    """Postings of some servers, of which some may be deleted since."""

    postings: Postings
    deleted: frozenset[int] = frozenset()
    """The numbers of deleted tools; always all tools of a server."""
    deleted_counts: Mapping[str, int] = field(default_factory=dict)
    """The number of deleted tools that contain each term."""

    @property
    def size(self) -> int:
        return self.postings.size - len(self.deleted)

    def document_frequency(self, term: str) -> int:
        """Return the number of tools that contain `term`, without deleted ones."""
        # Deleted tools are counted once, on deletion: finding them in each posting list would cost
        # every query the length of its lists.
        posting_list = self.postings.lists.get(term)
        return len(posting_list[1]) - self.deleted_counts.get(term, 0) if posting_list else 0

    def is_deleted(self, span: ServerSpan) -> bool:
        return span.start in self.deleted

    def without(self, span: ServerSpan, documents: Iterable[Document]) -> Level:
        """Return the level with the tools at `span` deleted; they were indexed as `documents`."""
        counts = dict(self.deleted_counts)
        for document in documents:
            for term in document:
                counts[term] = counts.get(term, 0) + 1
        deleted = self.deleted.union(range(span.start, span.stop))
        return Level(self.postings, deleted, counts)


def _compacted(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Merge levels until each is more than twice as large as the next; the largest comes first.

    Empty levels are dropped, and those with many deleted tools are rewritten, since queries still
    read the postings of deleted tools.
    """
    live_levels = [
        merged([level]) if len(level.deleted) * _DELETED_PART > level.postings.size else level
        for level in levels
        if level.size
    ]
    live_levels.sort(key=lambda level: -level.size)
    while len(live_levels) > 1 and live_levels[-2].size <= 2 * live_levels[-1].size:
        live_levels[-2:] = [merged(live_levels[-2:])]
    return tuple(live_levels)


def merged(levels: Sequence[Level]) -> Level:
    """Merge levels into one, without deleted tools."""
    if len(levels) == 1 and not levels[0].deleted:
        return levels[0]
    writer = PostingsWriter()
    for level in levels:
        if level.deleted:
            writer.merge_without(level.postings, level.is_deleted)
        else:
            writer.merge(level.postings)
    return Level(writer.build())


class DocId(NamedTuple):
    """The position of a tool in an index."""

    level: int
    """The number of the level."""
    doc: int
    """The number of the tool within the level."""


class IndexedServer(Struct, frozen=True):
    """The input from which the tools of a server were indexed."""

    part: ServerPart
    description: str
    tags: frozenset[tuple[str, ...]]
    """The distinct combinations of tags of its tools."""
    book: ExampleBook = OWN_EXAMPLES
    """The book with the examples of its tools."""

    @classmethod
    def from_part(
        cls, part: ServerPart, description: str, book: ExampleBook, old: IndexedServer | None
    ) -> IndexedServer:
        """Return the input for indexing `part`; `old` itself if nothing differs."""
        if old and old.part is part and old.description == description and old.book == book:
            return old
        tags = frozenset(verdict.tags for verdict in part.verdicts if verdict.tags)
        return cls(part, description, tags, book)

    @property
    def tools(self) -> list[Tool]:
        return [entry.tool for entry in self.part.entries]

    @property
    def examples(self) -> dict[str, Examples]:
        """The examples of its tools, by the server's own names for them; read on each access.

        In memory they would double the size of a tool, and only indexing needs them.
        """
        return self.book.of_tools(self.tools)

    def has_documents_of(self, other: IndexedServer | None) -> bool:
        """Return whether indexing both would produce the same documents."""
        if self is other:
            return True
        if other is None or self.description != other.description:
            return False
        if self.tools != other.tools:
            return False
        if self.book == other.book:
            return True
        same = self.examples == other.examples
        # Checked after reading: a book may have become unreadable since it was opened.
        return same and not (self.book.has_failed or other.book.has_failed)


class Index(Struct, frozen=True, dict=True):
    levels: tuple[Level, ...] = ()
    servers: Mapping[ServerName, IndexedServer] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """All servers that have tools, sorted by name."""

    @cached_property
    def size(self) -> int:
        return sum(level.size for level in self.levels)

    @property
    def is_storable(self) -> bool:
        """True if all books could be read, so that their digests describe the indexed requests."""
        return not any(server.book.has_failed for server in self.servers.values())

    def document_frequency(self, term: str) -> int:
        """Return the number of tools that contain `term`."""
        count = 0  # a query calls this hundreds of times, and sum() takes twice as long
        for level in self.levels:
            count += level.document_frequency(term)
        return count

    def known_terms(self, terms: Collection[str]) -> set[str]:
        """Return those of the terms that a tool contains; it may be a deleted one."""
        return {term for level in self.levels for term in level.postings.held_terms(terms)}

    def postings(self, level: int, docs: Sequence[int], terms: Iterable[str]) -> Postings:  # noqa: ARG002 - of all
        """Return the postings of at least these terms and tools of a level."""
        return self.levels[level].postings

    def entry(self, doc_id: DocId) -> Entry:
        level, doc = doc_id
        server, start, _ = self.levels[level].postings.span_of(doc)
        return self.servers[server].part.entries[doc - start]

    def profile(self, doc_id: DocId) -> int:
        """Return the profile of a tool, as `ToolProfile.packed` encodes it."""
        return self.levels[doc_id.level].postings.profile(doc_id.doc)

    def profiles(self, doc_ids: Iterable[DocId]) -> list[int]:
        """Return the packed profiles of tools, in the order of `doc_ids`."""
        by_level = [level.postings.packed_profiles for level in self.levels]
        return [by_level[level][doc] for level, doc in doc_ids]

    def doc_ids(self, server: ServerName) -> Iterable[DocId]:
        """Return the positions of a server's tools, in the order of their names."""
        number, span = self.locate(server)
        return (DocId(number, doc) for doc in range(span.start, span.stop))

    def locate(self, server: ServerName) -> tuple[int, ServerSpan]:
        """Return the number of the level that has a server's tools, and their span in it.

        Raises:
            LookupError: If the server is not indexed.
        """
        return self._places[server]

    @cached_property
    def _places(self) -> Mapping[ServerName, tuple[int, ServerSpan]]:
        return {
            span.server: (number, span)
            for number, level in enumerate(self.levels)
            for span in level.postings.spans
            if not level.is_deleted(span)
        }

    def doc_id(self, tool: Tool) -> DocId | None:
        """Return the position of a tool; None if no tool with this definition is indexed."""
        if not (server := self.servers.get(tool.server)):
            return None
        entries = server.part.entries
        at = bisect_left(server.part.names, tool.name)
        if at == len(entries) or entries[at].tool != tool:
            return None
        number, span = self.locate(tool.server)
        return DocId(number, span.start + at)

    def impacts(self, doc_id: DocId, terms: Iterable[str]) -> dict[str, int]:
        """Return the impact of each of `terms` in a tool, from 1 to `documents.MAX_IMPACT`.

        Terms that the tool does not contain are left out.
        """
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
        """Build the index of `catalog`; unchanged levels are shared with this index.

        Args:
            catalog: The catalog.
            descriptions: The descriptions of servers by name.
            lexicon: The lexicon, the same as for this index.
            book: The book of examples.
            names_only: True to index names without terms. It must be the same as for this index.
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
        unknown = set()  # levels whose counts of deleted terms cannot be computed
        for name in stale:
            number, span = self.locate(name)
            # The documents are built again from the old definitions, to find the terms of deleted
            # tools: postings are stored by term, and terms by tool would cost memory for this use
            # alone. If the examples cannot be read any more, the level is rewritten.
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
        return Index(_compacted(levels), MappingProxyType(servers))


def indexed_servers(
    catalog: Catalog,
    descriptions: Mapping[ServerName, str],
    book: ExampleBook = OWN_EXAMPLES,
    known: Mapping[ServerName, IndexedServer] = MappingProxyType({}),
) -> dict[ServerName, IndexedServer]:
    """Return the input for indexing each server that has tools; reuse unchanged `known` ones."""
    return {
        server: IndexedServer.from_part(part, descriptions.get(server, ""), book, known.get(server))
        for server, part in catalog.parts.items()
        if part.entries
    }


def profiles_of(
    tools: Iterable[Tool], examples: Mapping[str, Examples], lexicon: Lexicon
) -> Iterator[int]:
    """Yield the profile of each tool, as `ToolProfile.packed` encodes it.

    `examples` are by the server's own names for its tools.
    """
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


# A subset is stored as one byte for each tool of the index, since there may be many views.

Flags: TypeAlias = bytes
"""One byte for each tool in order: 1 if it belongs to the subset, else 0."""


class Subset:
    """Some tools of an index; immutable, and valid for that index only."""

    def __init__(self, levels: Iterable[Flags]) -> None:
        self.levels: Sequence[Flags] = tuple(levels)
        """The flags of each level, in the order of the tools' numbers."""

    @classmethod
    def of(cls, index: Index, accepts: Callable[[Entry], bool]) -> Subset:
        """Select the tools whose entries are accepted."""
        return cls.by_server(
            index,
            {
                server: bytes(map(accepts, indexed.part.entries))
                for server, indexed in index.servers.items()
            },
        )

    @classmethod
    def by_server(cls, index: Index, chosen: Mapping[ServerName, Flags | None]) -> Subset:
        """Select tools by flags for each server, in the order of their names; None for all."""
        levels = [bytearray(level.postings.size) for level in index.levels]
        for server, flags in chosen.items():
            if server in index.servers:
                number, span = index.locate(server)
                size = span.stop - span.start
                levels[number][span.start : span.stop] = flags or b"\1" * size
        return cls(map(bytes, levels))

    @cached_property
    def size(self) -> int:
        return sum(int.from_bytes(level).bit_count() for level in self.levels)

    def __contains__(self, doc_id: DocId) -> bool:
        return bool(self.levels[doc_id.level][doc_id.doc])

    def __iter__(self) -> Iterator[DocId]:
        for number, level in enumerate(self.levels):
            for doc in compress(range(len(level)), level):
                yield DocId(number, doc)

    def servers(self, index: Index) -> Iterator[ServerName]:
        """Yield the servers with at least one tool of the subset; `index` is its index."""
        for level, flags in zip(index.levels, self.levels, strict=True):
            for server, start, stop in level.postings.spans:
                if any(flags[start:stop]):
                    yield server

    def __and__(self, other: Subset) -> Subset:
        """Return the intersection."""
        return Subset(map(_both, self.levels, other.levels))


def _both(left: Flags, right: Flags) -> Flags:
    return (int.from_bytes(left) & int.from_bytes(right)).to_bytes(len(left))


Tags = tuple[str, ...]


class TagTable:
    """The servers by the combinations of tags that their tools have."""

    def __init__(self, servers: Mapping[ServerName, IndexedServer], lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._servers: defaultdict[Tags, list[ServerName]] = defaultdict(list)
        for server, indexed in servers.items():
            for tags in indexed.tags:
                self._servers[tags].append(server)

    def shares(self, stems: frozenset[str]) -> dict[Tags, float]:
        """Return, for each combination of tags, the share that a query names, if above 0."""
        shares = {tags: self._share(tags, stems) for tags in self._servers}
        return {tags: share for tags, share in shares.items() if share}

    def matching(self, tags: Tags, stems: frozenset[str]) -> Tags:
        """Return those of the tags that a query names."""
        return tuple(tag for tag in tags if self._is_named(tag, stems))

    def servers(self, tags: Iterable[Tags]) -> list[ServerName]:
        """Return the servers with tools that have any of these combinations, sorted by name."""
        return sorted({server for combination in tags for server in self._servers[combination]})

    def _share(self, tags: Tags, stems: frozenset[str]) -> float:
        return len(self.matching(tags, stems)) / len(tags)

    def _is_named(self, tag: str, stems: frozenset[str]) -> bool:
        stems_of_tag = self._lexicon.stems(tag)
        return bool(stems_of_tag) and stems.issuperset(stems_of_tag)


# Loading the index of 5,000 tools takes 5 ms, building it a second. `marshal` reads the payload in
# 0.4 ms, since it parses no text and creates no instances of classes.
#
#     digest    of everything below, and of everything that the bytes depend on
#     payload   marshal of (spans, buckets of posting lists and their filter, names by length,
#               profiles)
#
# The digest covers the format, the versions of this project and of Python, the lexicon, and the
# catalog. If it differs, the payload is not read. It is a checksum, not a signature: anybody can
# compute it, so the bytes must be stored where no other user can write.

logger = logging.getLogger(__name__)

FORMAT = 5
"""The version of the format; raise it if the layout or the bytes of the same tools change."""


def dump_index(index: Index, lexicon: Lexicon) -> bytes:
    """Encode an index for `load_index`, as one level without deleted tools."""
    with gc_pause.paused():
        postings = merged(index.levels).postings
        spans = [tuple(span) for span in postings.spans]
        lists, names = pack_buckets(postings.lists), pack_values(postings.names)
        payload = marshal.dumps((spans, lists, names, postings.profiles))
    return _digest(payload, index.servers, lexicon) + payload


def load_index(
    data: bytes, servers: Mapping[ServerName, IndexedServer], lexicon: Lexicon
) -> Index | None:
    """Decode an index; return None if it is of other `servers` or versions, or is damaged."""
    digest, payload = data[: digests.SIZE], memoryview(data)[digests.SIZE :]
    if digest != _digest(payload, servers, lexicon):
        return None
    try:
        return Index(_levels(payload), servers)
    except (EOFError, TypeError, ValueError) as error:
        logger.warning("The search index that was kept cannot be read, and is made anew: %s", error)
        return None


def _levels(payload: memoryview) -> tuple[Level, ...]:
    spans, lists, names, profiles = marshal.loads(payload)  # noqa: S302 - our own bytes
    postings = Postings(
        spans=tuple(ServerSpan(*span) for span in spans),
        lists=LazyBuckets(lists),
        names=LazyValues(names),
        profiles=profiles,
    )
    return (Level(postings),) if spans else ()


def _digest(
    payload: bytes | memoryview, servers: Mapping[ServerName, IndexedServer], lexicon: Lexicon
) -> bytes:
    recipe = (
        FORMAT,
        __version__,
        sys.version,
        sys.byteorder,
        lexicon.digest,
        operation_words_digest(),
    )
    made_of = [
        (server, indexed_server.description, indexed_server.part.digest, indexed_server.book.digest)
        for server, indexed_server in servers.items()
    ]
    blake = digests.blake2b(repr((recipe, made_of)).encode(), digest_size=digests.SIZE)
    blake.update(payload)
    return blake.digest()
