"""Postings: for each term, the tools that hold it, and its impact on each of them.

`Postings` are immutable and hold all tools of some servers. A change is written as further
postings beside them, and what it replaces is marked as deleted (see `index`). What a search
finds never depends on how the tools are spread over postings.
"""

from __future__ import annotations

import marshal
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

from msgspec import Struct

from discovery_engine.search.text.tokenizer import name_spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from discovery_engine.search.index.documents import Document
    from discovery_engine.tools.model import ServerName, Tool

V = TypeVar("V")

# Keys of a bucket, on average. Smaller ones cost an object each when the payload is read, larger
# ones more time for each of a query's terms.
_BUCKET_SIZE = 8
_FILTER_BITS = 16  # for each key: one absent key in 16 passes the filter


def pack_values(mapping: Mapping[int, Any]) -> dict[int, bytes]:
    """`mapping` for `LazyValues`; its values must be of types that `marshal` writes."""
    return {key: marshal.dumps(value) for key, value in mapping.items()}


class LazyValues(Mapping[int, V]):
    """A mapping over the result of `pack_values`: each value is decoded at its first use."""

    def __init__(self, values: Mapping[int, bytes]) -> None:
        self._values = values
        self._decoded: dict[int, V] = {}

    def __getitem__(self, key: int) -> V:
        if key not in self._decoded:
            self._decoded[key] = marshal.loads(self._values[key])  # noqa: S302 - our own bytes
        return self._decoded[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def pack_buckets(mapping: Mapping[str, Any]) -> tuple[bytes, list[bytes]]:
    """`mapping` for `LazyBuckets`; its values must be of types that `marshal` writes.

    A filter (a Bloom filter with one hash function), and the buckets. A value is looked up when its
    bucket is written, and dropped then, so that a mapping may make values that it does not keep.
    """
    count = len(mapping) // _BUCKET_SIZE + 1
    buckets: defaultdict[int, list[str]] = defaultdict(list)
    held = bytearray(count * _BUCKET_SIZE * _FILTER_BITS // 8)
    for key in mapping:
        checksum = _checksum(key)
        buckets[checksum % count].append(key)
        held[(checksum >> 3) % len(held)] |= 1 << (checksum & 7)
    return bytes(held), [
        marshal.dumps({key: mapping[key] for key in buckets.pop(number, ())})
        for number in range(count)
    ]


class LazyBuckets(Mapping[str, V]):
    """A hash table over the result of `pack_buckets`: a bucket is decoded at its first use.

    A query with a typo looks up some 300 words, of which hardly one is there: the filter passes
    over most of them, and their buckets stay encoded.
    """

    def __init__(self, packed: tuple[bytes, list[bytes]]) -> None:
        self._filter, buckets = packed
        self._count = len(buckets)
        self._encoded = dict(enumerate(buckets))
        self._decoded: dict[str, V] = {}

    def get(self, key: str, default: Any = None) -> Any:
        value = self._decoded.get(key)
        if value is None and self._encoded:
            self._decode_for(key)
            value = self._decoded.get(key)
        return default if value is None else value

    def among(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that are there; to look up each would take four times as long."""
        bits, size = self._filter, len(self._filter)
        sums = [(key, crc32(key.encode("utf-8", "surrogatepass"))) for key in keys]
        passed = [key for key, crc in sums if bits[(crc >> 3) % size] & 1 << (crc & 7)]
        return {key for key in passed if self.get(key) is not None}

    def items(self) -> ItemsView[str, V]:
        return self._all().items()

    def __getitem__(self, key: str) -> V:
        self._decode_for(key)
        return self._decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, V]:
        for number in list(self._encoded):
            self._decode(number)
        return self._decoded

    def _may_be_encoded(self, key: str) -> bool:
        checksum = _checksum(key)
        return bool(self._filter[(checksum >> 3) % len(self._filter)] & 1 << (checksum & 7))

    def _decode_for(self, key: str) -> None:
        """Decode the bucket that a key may be in."""
        if self._may_be_encoded(key):
            self._decode(_checksum(key) % self._count)

    def _decode(self, number: int) -> None:
        if bucket := self._encoded.get(number):
            self._decoded.update(marshal.loads(bucket))  # noqa: S302 - our own bytes
            # Removed after its keys are there: a thread that finds the bucket gone must find them.
            self._encoded.pop(number, None)


def _checksum(key: str) -> int:
    # Not `hash`: that of a text is another in every process.
    return crc32(key.encode("utf-8", "surrogatepass"))


IDS: Final = "I"  # the type code of an array of numbers of tools

NameList: TypeAlias = tuple[str, bytes]
"""Names of one length, in order and without separators; and the number of the tool of each, as an
array of `IDS`. A name that several tools have is there for each of them."""


def make_name_list(names: Iterable[tuple[str, int]]) -> NameList:
    """Make the list of names of one length, each with its tool."""
    pairs = sorted(names)
    return "".join(name for name, _ in pairs), array(IDS, [doc for _, doc in pairs]).tobytes()


def name_pairs(names: NameList, length: int) -> Iterator[tuple[str, int]]:
    """The names with their tools."""
    text, docs = names
    starts = range(0, len(text), length)
    return ((text[at : at + length], doc) for at, doc in zip(starts, array(IDS, docs), strict=True))


def docs_named(names: NameList, name: str) -> Sequence[int]:
    """The tools that have a name."""
    text, docs = names
    length = len(name)

    def name_at(number: int) -> str:
        return text[number * length : (number + 1) * length]

    numbers = range(len(text) // length)
    first = bisect_left(numbers, name, key=name_at)
    end = bisect_right(numbers, name, lo=first, key=name_at)
    return memoryview(docs).cast(IDS)[first:end].tolist()


def names_with_part(names: NameList, length: int, wanted: str, edits: int) -> set[str]:
    """The names of `length` that may be within so many edits of `wanted`, and hardly any others.

    An edit changes at most one of the parts of `wanted`, so a name within `edits` has one of
    `edits + 1` parts as it is, and moved by no more characters than that.
    """
    text, _ = names
    candidates = set()
    for start, part in _parts(wanted, edits + 1):
        at = text.find(part)
        while at >= 0:
            number, offset = divmod(at, length)
            if abs(offset - start) <= edits:
                first = number * length
                candidates.add(text[first : first + length])
            at = text.find(part, at + 1)
    return candidates


def _parts(text: str, count: int) -> Iterator[tuple[int, str]]:
    """Parts of `text` with where they start.

    A character is left out between them: else two neighbours transposed might change two parts.
    """
    size = (len(text) + 1) // count - 1
    for start in range(0, count * (size + 1), size + 1):
        yield start, text[start : start + size]


_BISECT_PART = 6  # a list this many times as long as what is looked for is not read, but searched


class ServerSpan(NamedTuple):
    """The numbers of one server's tools; at least one."""

    server: ServerName
    start: int
    stop: int


PostingList: TypeAlias = tuple[bytes, bytes]
"""The numbers of the tools that hold a term, ascending, as an array of `IDS`; and in the same
order the impacts, one byte each."""


class Postings(Struct, frozen=True, dict=True):
    spans: tuple[ServerSpan, ...]
    lists: Mapping[str, PostingList]
    names: Mapping[int, NameList]
    """The normalized spellings of names, by length."""
    profiles: bytes
    """The packed profile of each tool, as an array of `IDS`."""

    @property
    def size(self) -> int:
        return self.spans[-1].stop if self.spans else 0

    @cached_property
    def starts(self) -> list[int]:
        return [span.start for span in self.spans]

    def held_terms(self, terms: Collection[str]) -> Collection[str]:
        """Return the terms that some tool holds."""
        lists = self.lists
        return lists.among(terms) if isinstance(lists, LazyBuckets) else lists.keys() & terms

    def named(self, spelling: str) -> Sequence[int]:
        """The tools that have a normalized spelling."""
        names = self.names.get(len(spelling))
        return docs_named(names, spelling) if names else ()

    def profile(self, doc: int) -> int:
        """Return what a tool does, as `ToolProfile.packed` encodes it."""
        return self.packed_profiles[doc]

    @cached_property
    def packed_profiles(self) -> memoryview:
        return memoryview(self.profiles).cast(IDS)

    def impact(self, term: str, doc: int) -> int:
        """The impact of a term on a tool; 0 if the tool does not hold it."""
        docs, impacts = self.lists.get(term, (b"", b""))
        ids = memoryview(docs).cast(IDS)
        at = bisect_left(ids, doc)
        return impacts[at] if at < len(ids) and ids[at] == doc else 0

    def span_of(self, doc: int) -> ServerSpan:
        return self.spans[bisect_right(self.starts, doc) - 1]


def impacts_of(lists: PostingList, places: Mapping[int, int]) -> list[tuple[int, int]]:
    """The impact on each of some tools that holds the term, with the place of the tool.

    Args:
        lists: Of the term.
        places: A place for each tool; the numbers of the tools ascend.
    """
    held, impacts = array(IDS, lists[0]), lists[1]
    if len(held) < _BISECT_PART * len(places):
        pairs = zip(held, impacts, strict=True)
        return [(places[doc], impact) for doc, impact in pairs if doc in places]
    placed_impacts, low, end = [], 0, len(held)
    for doc, place in places.items():
        low = bisect_left(held, doc, low)
        if low == end:
            break
        if held[low] == doc:
            placed_impacts.append((place, impacts[low]))
    return placed_impacts


class PostingsWriter:
    """Collects tools, and builds postings of them."""

    def __init__(self) -> None:
        self._spans: list[ServerSpan] = []
        # Arrays grow in place: a list of integers takes nine times the memory of four-byte ids.
        self._docs: defaultdict[str, array[int]] = defaultdict(partial(array, IDS))
        self._impacts: defaultdict[str, bytearray] = defaultdict(bytearray)
        # By length: only names of about the length of a mistyped one are compared with it.
        self._names: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        self._profiles = array(IDS)

    def add(
        self,
        server: ServerName,
        tools: Sequence[Tool],
        documents: Iterable[Document],
        profiles: Iterable[int],
    ) -> None:
        """Add all tools of one server; `documents` and `profiles` are in the order of `tools`."""
        span = self._add_span(server, len(tools))
        docs, impacts = self._docs, self._impacts
        of_tools = zip(tools, documents, profiles, strict=True)
        for doc, (tool, document, profile) in enumerate(of_tools, span.start):
            self._profiles.append(profile)
            for spelling in name_spellings(tool):
                self._add_name(spelling, doc)
            for term, impact in document.items():
                docs[term].append(doc)
                impacts[term].append(impact)

    def merge(self, postings: Postings) -> None:
        """Add everything that `postings` hold."""
        start = self._size
        self._profiles.frombytes(postings.profiles)
        for server, first, stop in postings.spans:
            self._add_span(server, stop - first)
        for spelling, doc in _all_names(postings):
            self._add_name(spelling, start + doc)
        for term, (docs, impacts) in postings.lists.items():
            # The numbers of tools only move by a constant, and stay ascending: lists are appended
            # to each other without sorting. The first postings merged, as a rule the largest,
            # start at 0, and their bytes are copied as they are.
            ids = self._docs[term]
            if start:
                ids.extend([start + doc for doc in memoryview(docs).cast(IDS)])
            else:
                ids.frombytes(docs)
            self._impacts[term] += impacts

    def merge_without(self, postings: Postings, is_deleted: Callable[[ServerSpan], bool]) -> None:
        """Add what `postings` hold, but for the servers that were deleted from them."""
        numbers = self._renumber(postings, is_deleted)
        profiles = array(IDS, postings.profiles)
        numbered_profiles = zip(profiles, numbers, strict=True)
        self._profiles.extend(profile for profile, number in numbered_profiles if number >= 0)
        for spelling, doc in _all_names(postings):
            if numbers[doc] >= 0:
                self._add_name(spelling, numbers[doc])
        for term, (docs, impacts) in postings.lists.items():
            pairs = zip(memoryview(docs).cast(IDS), impacts, strict=True)
            if kept_pairs := [(numbers[doc], i) for doc, i in pairs if numbers[doc] >= 0]:
                self._docs[term].extend(doc for doc, _ in kept_pairs)
                self._impacts[term].extend(impact for _, impact in kept_pairs)

    def build(self) -> Postings:
        """Make the postings; what was collected is gone then, as both would be twice the memory."""
        lists = {
            term: (self._docs.pop(term).tobytes(), bytes(self._impacts.pop(term)))
            for term in list(self._docs)
        }
        names = {length: make_name_list(pairs) for length, pairs in self._names.items()}
        return Postings(tuple(self._spans), lists, names, self._profiles.tobytes())

    @property
    def _size(self) -> int:
        return self._spans[-1].stop if self._spans else 0

    def _add_name(self, spelling: str, doc: int) -> None:
        if spelling:
            self._names[len(spelling)].append((spelling, doc))

    def _add_span(self, server: ServerName, size: int) -> ServerSpan:
        span = ServerSpan(server, self._size, self._size + size)
        self._spans.append(span)
        return span

    def _renumber(self, postings: Postings, is_deleted: Callable[[ServerSpan], bool]) -> list[int]:
        """The number that each tool of `postings` gets here; -1 if it was deleted."""
        numbers: list[int] = []
        for span in postings.spans:
            size = span.stop - span.start
            if is_deleted(span):
                numbers += [-1] * size
            else:
                added = self._add_span(span.server, size)
                numbers += range(added.start, added.stop)
        return numbers


def _all_names(postings: Postings) -> Iterator[tuple[str, int]]:
    pairs = (name_pairs(names, length) for length, names in postings.names.items())
    return chain.from_iterable(pairs)
