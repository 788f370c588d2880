"""The inverted index: for each term, the tools that hold it and how much.

A block holds the tools of some servers and never changes. When a server changes, its tools are
struck out of their block and a new block gets what they are now; blocks of like size are joined,
so that an update costs by its own size. What a search finds never depends on how blocks are cut.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from discovery_engine.search.text.spelling import spellings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from discovery_engine.search.index.documents import Document
    from discovery_engine.tools.model import ServerName, Tool

IDS: Final = "I"  # the type code of an array of numbers of tools


class Segment(NamedTuple):
    """The tools of one server in a block; never none."""

    server: ServerName
    start: int
    stop: int


Postings: TypeAlias = tuple[bytes, bytes]
"""The numbers of the tools that hold a term, ascending, as an array of `IDS`; and in step with
them the impacts."""


class Block(Struct, frozen=True, dict=True):
    segments: tuple[Segment, ...]
    postings: Mapping[str, Postings]
    names: Mapping[int, Mapping[str, Sequence[int]]]
    """By their length, the folded spellings of names, with the tools that each is of."""

    @property
    def size(self) -> int:
        return self.segments[-1].stop if self.segments else 0

    @cached_property
    def starts(self) -> list[int]:
        return [segment.start for segment in self.segments]

    @cached_property
    def by_server(self) -> Mapping[ServerName, Segment]:
        return {segment.server: segment for segment in self.segments}

    def named(self, spelling: str) -> Sequence[int]:
        return self.names.get(len(spelling), {}).get(spelling, ())

    def impact(self, term: str, doc: int) -> int:
        """The impact of a term on a tool; 0 if the tool does not hold it."""
        docs, impacts = self.postings.get(term, (b"", b""))
        held = memoryview(docs).cast(IDS)
        at = bisect_left(held, doc)
        return impacts[at] if at < len(held) and held[at] == doc else 0

    def segment_of(self, doc: int) -> Segment:
        return self.segments[bisect_right(self.starts, doc) - 1]


class Layer(Struct, frozen=True):
    """A block without what was struck out of it since it was written."""

    block: Block
    struck: frozenset[int] = frozenset()
    """Tools that are no longer as the block has them."""
    struck_counts: Mapping[str, int] = field(default_factory=dict)
    """How many of the struck tools hold each term."""

    @property
    def size(self) -> int:
        return self.block.size - len(self.struck)

    def count(self, term: str) -> int:
        """How many tools hold `term`."""
        found = self.block.postings.get(term)
        return len(found[1]) - self.struck_counts.get(term, 0) if found else 0

    def without(self, segment: Segment, documents: Iterable[Document]) -> Layer:
        """The layer without a server's tools, which were indexed as `documents`."""
        counts = dict(self.struck_counts)
        for document in documents:
            for term in document:
                counts[term] = counts.get(term, 0) + 1
        struck = self.struck.union(range(segment.start, segment.stop))
        return Layer(self.block, struck, counts)


class BlockWriter:
    """Collects tools and writes them as one block."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._docs: defaultdict[str, array[int]] = defaultdict(partial(array, IDS))
        self._impacts: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._names: defaultdict[int, dict[str, list[int]]] = defaultdict(dict)

    def add(self, server: ServerName, tools: Sequence[Tool], documents: Iterable[Document]) -> None:
        """Add all tools of one server; `documents` are in step with `tools`."""
        segment = self._open_segment(server, len(tools))
        docs, impacts = self._docs, self._impacts
        for doc, (tool, document) in enumerate(zip(tools, documents, strict=True), segment.start):
            for spelling in spellings(tool):
                self._named(spelling).append(doc)
            for term, impact in document.items():
                docs[term].append(doc)
                impacts[term].append(impact)

    def absorb(self, layer: Layer) -> None:
        """Add all that is left of a layer."""
        if layer.struck:
            self._absorb_some(layer)
        else:
            self._absorb_all(layer.block)

    def _absorb_all(self, block: Block) -> None:
        start = self._segments[-1].stop if self._segments else 0
        for server, first, stop in block.segments:
            self._open_segment(server, stop - first)
        for spelling, named in _all_names(block):
            self._named(spelling).extend([start + doc for doc in named])
        for term, (docs, impacts) in block.postings.items():
            held = self._docs[term]
            if start:
                held.extend([start + doc for doc in memoryview(docs).cast(IDS)])
            else:
                held.frombytes(docs)
            self._impacts[term] += impacts

    def _absorb_some(self, layer: Layer) -> None:
        numbers = self._renumbered(layer)
        for spelling, named in _all_names(layer.block):
            if kept := [numbers[doc] for doc in named if numbers[doc] >= 0]:
                self._named(spelling).extend(kept)
        for term, (docs, impacts) in layer.block.postings.items():
            pairs = zip(memoryview(docs).cast(IDS), impacts, strict=True)
            if kept_pairs := [(numbers[doc], i) for doc, i in pairs if numbers[doc] >= 0]:
                self._docs[term].extend(doc for doc, _ in kept_pairs)
                self._impacts[term].extend(impact for _, impact in kept_pairs)

    def block(self) -> Block:
        postings = {
            term: (docs.tobytes(), bytes(self._impacts[term])) for term, docs in self._docs.items()
        }
        return Block(tuple(self._segments), postings, dict(self._names))

    def _named(self, spelling: str) -> list[int]:
        return self._names[len(spelling)].setdefault(spelling, [])

    def _open_segment(self, server: ServerName, size: int) -> Segment:
        start = self._segments[-1].stop if self._segments else 0
        segment = Segment(server, start, start + size)
        self._segments.append(segment)
        return segment

    def _renumbered(self, layer: Layer) -> list[int]:
        """What number each of the layer's tools gets here; -1 if it was struck out."""
        numbers: list[int] = []
        for server, start, stop in layer.block.segments:
            if start in layer.struck:
                numbers += [-1] * (stop - start)
            else:
                segment = self._open_segment(server, stop - start)
                numbers += range(segment.start, segment.stop)
        return numbers


def _all_names(block: Block) -> Iterator[tuple[str, Sequence[int]]]:
    return chain.from_iterable(names.items() for names in block.names.values())
