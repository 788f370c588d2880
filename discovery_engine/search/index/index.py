"""The index of one catalog, made from the index of the catalog before it.

Blocks stand in layers, the large ones first. An update strikes out what changed, writes it into
a block of its own, and joins that with blocks that are no larger, as a log-structured tree does.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from discovery_engine.search.index.documents import documents
from discovery_engine.search.index.postings import BlockWriter, Layer, Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from discovery_engine.catalog import Catalog, Entry, ServerPart
    from discovery_engine.search.index.documents import Document
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import ServerName, Tool

_STRUCK = 8  # a block is written anew when more than one in so many of its tools is struck out


class Place(NamedTuple):
    """Where a tool stands in the index."""

    layer: int
    doc: int


class Source(Struct, frozen=True):
    """What a server's tools were indexed from."""

    part: ServerPart
    description: str
    tags: frozenset[tuple[str, ...]]
    """Every combination of tags that its tools have."""

    @classmethod
    def of(cls, part: ServerPart, description: str, known: Source | None) -> Source:
        """What `part` is indexed from; the `known` one, if it is the same."""
        if known and known.part is part and known.description == description:
            return known
        tags = frozenset(verdict.tags for verdict in part.verdicts if verdict.tags)
        return cls(part, description, tags)

    def says_as(self, other: Source | None) -> bool:
        """Whether both give the same documents."""
        if self is other:
            return True
        if other is None or self.description != other.description:
            return False
        ours, theirs = self.part.entries, other.part.entries
        return len(ours) == len(theirs) and all(
            a.tool == b.tool for a, b in zip(ours, theirs, strict=True)
        )


class Index(Struct, frozen=True, dict=True):
    layers: tuple[Layer, ...] = ()
    sources: Mapping[ServerName, Source] = field(default_factory=lambda: MappingProxyType({}))
    """Of every server that has tools, in the order of names."""

    @cached_property
    def size(self) -> int:
        return sum(layer.size for layer in self.layers)

    def count(self, term: str) -> int:
        """How many tools hold `term`."""
        found = 0  # a query asks this hundreds of times, and sum() takes twice as long
        for layer in self.layers:
            found += layer.count(term)
        return found

    def entry(self, place: Place) -> Entry:
        segment = self.layers[place.layer].block.segment_of(place.doc)
        return self.sources[segment.server].part.entries[place.doc - segment.start]

    def places(self, server: ServerName) -> Iterable[Place]:
        """Where a server's tools stand, in the order of their names."""
        number, segment = self._find(server)
        return (Place(number, doc) for doc in range(segment.start, segment.stop))

    def place(self, tool: Tool) -> Place | None:
        """Where a tool stands; None if there is none that says what it says."""
        source = self.sources.get(tool.server)
        entries = source.part.entries if source else ()
        at = bisect_left(entries, tool.name, key=lambda entry: entry.tool.name)
        if at == len(entries) or entries[at].tool != tool:
            return None
        number, segment = self._find(tool.server)
        return Place(number, segment.start + at)

    def impacts(self, place: Place, terms: Iterable[str]) -> dict[str, int]:
        """How much of a tool each of the terms is that it holds, from 1 to `documents.FULL`."""
        block = self.layers[place.layer].block
        found = {term: block.impact(term, place.doc) for term in terms}
        return {term: impact for term, impact in found.items() if impact}

    def updated(
        self, catalog: Catalog, descriptions: Mapping[ServerName, str], lexicon: Lexicon
    ) -> Index:
        """The index of `catalog`; what did not change is taken over."""
        sources = sources_of(catalog, descriptions, self.sources)
        stale = [s for s, source in self.sources.items() if not source.says_as(sources.get(s))]
        fresh = [s for s, source in sources.items() if not source.says_as(self.sources.get(s))]
        layers = list(self.layers)
        for server in stale:
            number, segment = self._find(server)
            layers[number] = layers[number].without(
                segment, _documents(server, self.sources[server], lexicon)
            )
        if fresh:
            layers.append(_layer(fresh, sources, lexicon))
        return Index(_tidied(layers), MappingProxyType(sources))

    def _find(self, server: ServerName) -> tuple[int, Segment]:
        for number, layer in enumerate(self.layers):
            segment = layer.block.by_server.get(server)
            if segment and segment.start not in layer.struck:
                return number, segment
        raise LookupError(server)


def sources_of(
    catalog: Catalog,
    descriptions: Mapping[ServerName, str],
    known: Mapping[ServerName, Source] = MappingProxyType({}),
) -> dict[ServerName, Source]:
    """What to index of every server that has tools; the `known` ones, where they are the same."""
    return {
        server: Source.of(part, descriptions.get(server, ""), known.get(server))
        for server, part in catalog.parts.items()
        if part.entries
    }


def _documents(server: ServerName, source: Source, lexicon: Lexicon) -> Iterator[Document]:
    tools = [entry.tool for entry in source.part.entries]
    return documents(tools, server, source.description, lexicon)


def _layer(
    servers: Iterable[ServerName], sources: Mapping[ServerName, Source], lexicon: Lexicon
) -> Layer:
    writer = BlockWriter()
    for server in servers:
        tools = [entry.tool for entry in sources[server].part.entries]
        writer.add(server, tools, _documents(server, sources[server], lexicon))
    return Layer(writer.block())


def _tidied(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Without layers that are empty, much struck out, or too small to stand alone."""
    kept = [
        joined([layer]) if len(layer.struck) * _STRUCK > layer.block.size else layer
        for layer in layers
        if layer.size
    ]
    kept.sort(key=lambda layer: -layer.size)
    while len(kept) > 1 and kept[-2].size <= 2 * kept[-1].size:
        kept[-2:] = [joined(kept[-2:])]
    return tuple(kept)


def joined(layers: Sequence[Layer]) -> Layer:
    """One layer with all that is left of several."""
    writer = BlockWriter()
    for layer in layers:
        writer.absorb(layer)
    return Layer(writer.block())
